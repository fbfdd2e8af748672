"""How late messages were, by topic and by when they were sent; compact, for runs of millions of them."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """What was sent on one topic in windows of equal length, which begin at `at_s`; only those with messages."""

    at_s: Floats
    count: NDArray[np.int64]
    p95_ms: Floats
    max_ms: Floats


class Heard:
    """`heard[topic](sent_s, late_s)` for every delivery, with times from the beginning of the run."""

    def __init__(self, topics: Sequence[str], window_s: float) -> None:
        self.window_s = window_s
        self._sent: dict[str, array[int]] = {topic: array("I") for topic in topics}
        self._late_ms: dict[str, array[float]] = {topic: array("f") for topic in topics}

    def __getitem__(self, topic: str) -> Callable[[float, float], None]:
        sent, late_ms, window_s = self._sent[topic].append, self._late_ms[topic].append, self.window_s

        def take(sent_s: float, late_s: float) -> None:
            if sent_s >= 0.0:  # before that the run had not begun
                sent(int(sent_s / window_s))
                late_ms(late_s * 1e3)

        return take

    def __len__(self) -> int:
        """Deliveries, of all topics."""
        return sum(map(len, self._sent.values()))

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._sent)

    def late_ms(self, topic: str) -> NDArray[np.float32]:
        """Of every delivery of the topic, in the order of arrival."""
        return np.frombuffer(self._late_ms[topic], dtype=np.float32)

    def windows(self, topic: str) -> Windows:
        sent, late_ms = np.frombuffer(self._sent[topic], dtype=np.uint32), self.late_ms(topic)
        if not len(sent):
            empty = np.empty(0)
            return Windows(empty, np.empty(0, dtype=np.int64), empty, empty)
        order = np.lexsort((late_ms, sent))
        sent, late_ms = sent[order], late_ms[order]
        number, first, count = np.unique(sent, return_index=True, return_counts=True)
        at_s = number.astype(np.float64) * self.window_s
        p95_ms = late_ms[first + np.ceil(0.95 * count).astype(np.int64) - 1].astype(np.float64)
        return Windows(at_s, count, p95_ms, late_ms[first + count - 1].astype(np.float64))
