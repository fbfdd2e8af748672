"""A broker's processors in virtual time: topics that are published at fixed rates, served in turns, on a few cores.

What `nearcast model collect` measures on real servers, many configurations at once and in seconds: one step takes one
message in every configuration. A topic's messages are processed in order, never two at once; a free core takes the next
message of the topic whose turn it is, of those that have one waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearcast.predict.queueing import Processors

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_AT_ONCE = 512  # configurations; what they need stays within some hundred MB


@dataclass(frozen=True, slots=True)
class Configuration:
    """Topics at one broker: the interval and the rate of each."""

    interval_ms: tuple[float, ...]
    rate_hz: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.interval_ms) != len(self.rate_hz) or not self.interval_ms:
            raise ValueError(f"{len(self.interval_ms)} intervals and {len(self.rate_hz)} rates")
        if min(*self.interval_ms, *self.rate_hz) <= 0:
            raise ValueError(f"intervals and rates are more than 0: {self}")


def published_s(rate_hz: float, publisher_hz: float, lasting_s: float, rng: np.random.Generator) -> Floats:
    """When a topic's messages are published: every publisher sends once in each of its periods, at any time of it.

    Publishers that kept their phase to the millisecond would meet in every period or in none, so that what is measured
    would tell how their phases happened to fall.
    """
    publishers = max(1, round(rate_hz / publisher_hz))
    every_s = publishers / rate_hz
    rounds = np.arange(int(np.ceil(lasting_s / every_s)))
    at_s = np.sort((every_s * rounds[:, None] + rng.uniform(0.0, every_s, (len(rounds), publishers))).ravel())
    return at_s[at_s < lasting_s]


def simulated_ms(
    configurations: Sequence[Configuration],
    processors: Processors,
    *,
    warm_up_s: float,
    seed: int,
) -> list[list[Floats]]:
    """For every configuration and topic the latencies of its messages, in the order in which they were published.

    Those of the first `warm_up_s` are left out. Load lasts for `processors.lasting_s`; what waits then is served, too.
    """
    rng = np.random.default_rng(seed)
    found: list[list[Floats]] = []
    for start in range(0, len(configurations), _AT_ONCE):
        part = configurations[start : start + _AT_ONCE]
        every = processors.publisher_hz, processors.lasting_s
        sent = [[published_s(rate, *every, rng) for rate in each.rate_hz] for each in part]
        done_s = _served_s(part, sent, processors)
        for row, times in enumerate(sent):
            kept = [each >= warm_up_s for each in times]
            found.append(
                [
                    (done_s[row, at, : len(each)][keep] - each[keep]) * 1e3 + processors.delay_ms
                    for at, (each, keep) in enumerate(zip(times, kept, strict=True))
                ]
            )
    return found


def _served_s(part: Sequence[Configuration], sent: list[list[Floats]], processors: Processors) -> Floats:
    """When each message is done: configurations x topics x messages, NaN where there is none."""
    widest = max(len(each.rate_hz) for each in part)
    longest = max(len(times) for each in sent for times in each)
    at_s = np.full((len(part), widest, longest + 1), np.inf)
    cost_s = np.zeros((len(part), widest))
    for row, (each, times) in enumerate(zip(part, sent, strict=True)):
        cost_s[row, : len(each.interval_ms)] = (np.array(each.interval_ms) + processors.overhead_ms) / 1e3
        for column, published in enumerate(times):
            at_s[row, column, : len(published)] = published
    done_s = np.full((len(part), widest, longest), np.nan)
    left = np.isfinite(at_s).sum(axis=(1, 2))
    rows = np.flatnonzero(left)
    state = _State(len(part), widest, processors.cores)
    while len(rows):
        topic, number, end_s = state.serve(rows, at_s, cost_s)
        done_s[rows, topic, number] = end_s
        left[rows] -= 1
        rows = rows[left[rows] > 0]
    return done_s


class _State:
    """Of every configuration: how far each topic is, when it and every core is free again, and whose turn it was."""

    def __init__(self, configurations: int, topics: int, cores: int) -> None:
        self.next = np.zeros((configurations, topics), dtype=np.int64)
        self.topic_s = np.zeros((configurations, topics))
        self.core_s = np.zeros((configurations, cores))
        self.turn = np.zeros(configurations, dtype=np.int64)

    def serve(self, rows: Ints, at_s: Floats, cost_s: Floats) -> tuple[Ints, Ints, Floats]:
        """One message in each of `rows`, that with the earliest begin: its topic, its number, and when it is done."""
        topics = self.next.shape[1]
        core = self.core_s[rows].argmin(axis=1)
        free_s = self.core_s[rows, core]
        ready_s = np.maximum(at_s[rows[:, None], np.arange(topics), self.next[rows]], self.topic_s[rows])
        begin_s = np.maximum(free_s, ready_s.min(axis=1))
        distance = (np.arange(topics) - self.turn[rows, None] - 1) % topics
        topic = np.where(ready_s <= begin_s[:, None], distance, topics).argmin(axis=1)
        number = self.next[rows, topic]
        end_s = begin_s + cost_s[rows, topic]
        self.next[rows, topic] += 1
        self.topic_s[rows, topic] = self.core_s[rows, core] = end_s
        self.turn[rows] = topic
        return topic, number, end_s
