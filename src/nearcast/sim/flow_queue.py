"""What a broker's line does to messages: a fluid queue per broker, and the limits of its subscribers' output buffers.

A broker sends what it has in the order in which it came, at most at its line's rate. What does not fit waits; it is
sent later, and everything behind it is as late. Bytes are conserved: what was offered was sent, waits, or was dropped.
"""

from dataclasses import dataclass, field

import numpy as np

from nearcast.sim.flow_load import Floats

MIB = 1024.0 * 1024.0

# A stationary queue has no finite wait at a utilisation of 1. From here on only the backlog makes messages later.
_MOST_UTILISATION = 0.99


@dataclass(frozen=True, slots=True)
class OutputBuffer:
    """When a server gives a slow subscriber up: at once above `hard_bytes`, or after `soft_s` above `soft_bytes`.

    The defaults are those of a Redis server for clients that subscribe.
    """

    hard_bytes: float = 32 * MIB
    soft_bytes: float = 8 * MIB
    soft_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Passed:
    """What became of the bytes of one step, per topic and broker, and how many subscribers were cut off."""

    sent_bytes: Floats
    dropped_bytes: Floats
    disconnected: float


@dataclass(slots=True)
class Queues:
    """The backlog of every broker, by topic; an array of topics x brokers, all zero at first."""

    backlog_bytes: Floats
    buffer: OutputBuffer = field(default_factory=OutputBuffer)
    _over_soft_s: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._over_soft_s = np.zeros_like(self.backlog_bytes)

    def step(self, offered_bytes: Floats, subscribers: Floats, line_bytes_per_s: Floats, step_s: float) -> Passed:
        """Take what was offered within `step_s`, send what the line can take, give up who is too far behind.

        Who is given up loses what waits for it, and is back at once, with an empty buffer.
        """
        waiting = self.backlog_bytes + offered_bytes
        totals = waiting.sum(axis=0)
        share = np.minimum(1.0, line_bytes_per_s * step_s / np.where(totals > 0.0, totals, 1.0))
        sent = waiting * share
        self.backlog_bytes = waiting - sent

        per_subscriber = self.backlog_bytes / np.maximum(subscribers, 1.0)
        over_soft = per_subscriber > self.buffer.soft_bytes
        self._over_soft_s = np.where(over_soft, self._over_soft_s + step_s, 0.0)
        given_up = (per_subscriber > self.buffer.hard_bytes) | (self._over_soft_s >= self.buffer.soft_s)
        dropped = np.where(given_up, self.backlog_bytes, 0.0)
        self.backlog_bytes = self.backlog_bytes - dropped
        self._over_soft_s[given_up] = 0.0
        return Passed(sent, dropped, float(subscribers[given_up].sum()))


def burst_wait_s(
    publications_hz: Floats, subscribers: Floats, message_bytes: float, line_bytes_per_s: Floats
) -> Floats:
    """The mean wait at each broker that comes of publications arriving at random and being sent in bursts.

    Each publication keeps the line busy for its copies, one after another: a queue with random arrivals and these
    service times (Pollaczek and Khinchine), plus the half of its own burst that a copy waits for on average. Per topic
    and broker.
    """
    line = np.where(line_bytes_per_s > 0.0, line_bytes_per_s, 1.0)
    burst_s = subscribers * message_bytes / line
    utilisation = np.minimum((publications_hz * burst_s).sum(axis=0), _MOST_UTILISATION)
    before_s = (publications_hz * burst_s**2).sum(axis=0) / (2.0 * (1.0 - utilisation))
    return np.asarray(before_s + (burst_s + message_bytes / line) / 2.0)
