"""What a latency model is told of topics that share a broker.

Everywhere in this package `interval_ms` (processing of one message) and `rate_hz` (messages published) are arrays of
sets x topics: a row is a set of topics at one broker. An answer has a row per set, too, and a column per topic.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nearcast.predict.queueing import Processors, waiting_ms

Floats = NDArray[np.float64]


def isolated(interval_ms: Floats, rate_hz: Floats, _processors: Processors) -> Floats:
    """A topic alone: its interval and its rate."""
    return np.stack([interval_ms, rate_hz], axis=-1)


def colocated(interval_ms: Floats, rate_hz: Floats, _processors: Processors) -> Floats:
    """The six of Khare, section IV-D: interval, rate and load of the topic, and their sums over the others."""
    own = np.stack([interval_ms, rate_hz, interval_ms * rate_hz], axis=-1)
    return np.concatenate([own, own.sum(axis=-2, keepdims=True) - own], axis=-1)


LOG_WAIT = 6
"""Which of `queueing` is the logarithm of what a queue tells of the topic."""


def queueing(interval_ms: Floats, rate_hz: Floats, processors: Processors) -> Floats:
    """Those six, and what a queue tells (ours): the topic's wait, the busiest topic's, and how busy the broker is."""
    wait_ms = np.log(waiting_ms(interval_ms, rate_hz, processors))
    busy = processors.busy(interval_ms, rate_hz)[:, None]
    longest_ms = wait_ms.max(axis=-1, keepdims=True)
    told = [wait_ms, *(np.broadcast_to(each, wait_ms.shape) for each in (longest_ms, busy, np.minimum(busy, 1.0)))]
    return np.concatenate([colocated(interval_ms, rate_hz, processors), np.stack(told, axis=-1)], axis=-1)


INPUTS: dict[str, Callable[[Floats, Floats, Processors], Floats]] = {
    "isolated": isolated,
    "colocated": colocated,
    "queueing": queueing,
}
"""By the names that model files use."""
