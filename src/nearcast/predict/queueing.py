"""What can be told of a broker's processors without measuring: a queue that is served in turns.

Topics are served one message each, in turns. So while not all of them can be served, those that wait are served at one
rate, and topics below it are nearly as quick as ever. A topic that is not served as often as it is published falls
behind for as long as load lasts; then what waits is served. Others wait for what happens to come together: publishers
are regular, each at a phase of its own, so that far less comes together than by chance (a Brownian bridge: J. Roberts
and J. Virtamo, The superposition of periodic cell arrival streams in an ATM multiplexer, 1991).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_RANK = 0.9


@dataclass(frozen=True, slots=True)
class Processors:
    """The worker processes of one broker. `overhead_ms`: what a message costs them beside its interval. `delay_ms`: its
    way there and back when nothing waits. `lasting_s`: how long load lasts as it is. `publisher_hz`: how often each
    publisher sends.
    """

    cores: int = 1
    overhead_ms: float = 0.0
    delay_ms: float = 1.0
    lasting_s: float = 120.0
    publisher_hz: float = 1.0

    def busy(self, interval_ms: Floats, rate_hz: Floats) -> Floats:
        """The share of all cores that each set would need; above 1 it cannot have it."""
        needed_ms: Floats = np.sum((interval_ms + self.overhead_ms) * rate_hz, axis=-1)
        return needed_ms / (1e3 * self.cores)


@dataclass(frozen=True, slots=True)
class QueueModel:
    """The estimate in the place of a learned model: nothing needs to be measured for it but what a message costs."""

    processors: Processors
    most: int = 64

    def p90_ms(self, interval_ms: Floats, rate_hz: Floats) -> Floats:
        return waiting_ms(interval_ms, rate_hz, self.processors)


def served_hz(interval_ms: Floats, rate_hz: Floats, processors: Processors) -> Floats:
    """How often each topic is served while load lasts: at most as often as it is published."""
    cost_s = (interval_ms + processors.overhead_ms) / 1e3
    wanted = np.minimum(rate_hz, 1.0 / cost_s)  # in order: no topic is processed on two cores at once
    order = np.argsort(wanted, axis=-1, kind="stable")
    rising, cost = np.take_along_axis(wanted, order, -1), np.take_along_axis(cost_s, order, -1)
    # With the j slowest topics served in full, the others share what is left; the first j that gives them less than
    # they want is the one.
    slower = np.cumsum(rising * cost, axis=-1) - rising * cost
    level = (processors.cores - slower) / np.cumsum(cost[..., ::-1], axis=-1)[..., ::-1]
    short = level < rising
    first = np.argmax(short, axis=-1)[..., None]
    most = np.where(short.any(axis=-1, keepdims=True), np.take_along_axis(level, first, -1), np.inf)
    return np.minimum(wanted, most)


def waiting_ms(interval_ms: Floats, rate_hz: Floats, processors: Processors) -> Floats:
    """An estimate of each topic's 90th percentile from publication to receipt."""
    cost_s = (interval_ms + processors.overhead_ms) / 1e3
    served = served_hz(interval_ms, rate_hz, processors)
    steady_s = np.where(
        np.any(served < rate_hz, axis=-1, keepdims=True),
        _in_turns_s(cost_s, rate_hz, served, processors),
        _together_s(cost_s, rate_hz, processors),
    )
    behind_s = _behind_s(cost_s, rate_hz, served, processors)
    return processors.delay_ms + 1e3 * (cost_s + np.maximum(steady_s, behind_s))


def _bridge(count: Floats, busy: Floats) -> Floats:
    """What a tenth of messages find before them, in messages: of `count` regular publishers, with a server so busy."""
    free = 1.0 - busy
    rare = np.log(np.maximum(1.0, busy / (1.0 - _RANK)))  # most find nothing while it is hardly ever busy
    found: Floats = count / 2.0 * (np.sqrt(free**2 + 2.0 * rare / count) - free)
    return np.minimum(np.maximum(0.0, found), np.maximum(0.0, count - 1.0))


def _together_s(cost_s: Floats, rate_hz: Floats, processors: Processors) -> Floats:
    """While all are served, in whatever order: the wait for what came together."""
    count = rate_hz.sum(axis=-1, keepdims=True) / processors.publisher_hz
    busy = np.sum(cost_s * rate_hz, axis=-1, keepdims=True) / processors.cores
    typical_s = np.sum(rate_hz * cost_s**2, axis=-1, keepdims=True) / np.sum(rate_hz * cost_s, axis=-1, keepdims=True)
    return np.broadcast_to(_bridge(count, busy) * typical_s / processors.cores, cost_s.shape)


def _in_turns_s(cost_s: Floats, rate_hz: Floats, served: Floats, processors: Processors) -> Floats:
    """While some are not: each message waits for a turn of those that always have one."""
    others_s: Floats = np.sum(np.where(served < rate_hz, cost_s, 0.0), axis=-1, keepdims=True) / processors.cores
    turn_s = others_s + cost_s
    count = np.maximum(1.0, rate_hz / processors.publisher_hz)
    return others_s + turn_s * _bridge(count, np.minimum(1.0, rate_hz * turn_s))


def _behind_s(cost_s: Floats, rate_hz: Floats, served: Floats, processors: Processors) -> Floats:
    """How late the message of the 90th percentile is, of topics that fall behind: as a fluid, while load lasts and then
    while what waits is served, as much of every topic until it has no more."""
    lasting_s = processors.lasting_s
    waiting = (rate_hz - served) * lasting_s
    number = _RANK * rate_hz * lasting_s
    later = np.maximum(0.0, number - served * lasting_s)
    shared = np.minimum(later[..., :, None], waiting[..., None, :])
    drained_s = np.maximum(np.sum(shared * cost_s[..., None, :], axis=-1) / processors.cores, later * cost_s)
    done_s: Floats = np.minimum(number / served, lasting_s) + drained_s
    return np.maximum(0.0, done_s - _RANK * lasting_s)
