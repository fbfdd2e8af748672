"""Running counts of what subscribers get: enough for a live view. The verdict at the end is the history checker's."""

from collections import deque
from statistics import quantiles

_KEPT = 2000  # latencies per topic that the percentiles are of


class TopicTally:
    """One topic: how much came in and went out, how late, and what is missing so far."""

    def __init__(self) -> None:
        self.published = 0
        self.delivered = 0
        self.lost = 0
        self.duplicated = 0
        self._latencies_ms: deque[float] = deque(maxlen=_KEPT)
        self._last: dict[tuple[int, int], int] = {}  # (subscription, publisher) -> last number
        self._marks: deque[tuple[float, int, int]] = deque(maxlen=6)

    def took(self, subscription: int, publisher: int, seq: int, latency_ms: float) -> None:
        """In a publisher's order a jump is a loss, and a step back a repeat."""
        self.delivered += 1
        self._latencies_ms.append(latency_ms)
        last = self._last.get((subscription, publisher))
        if last is not None and seq <= last:
            self.duplicated += 1
            return
        self.lost += 0 if last is None else seq - last - 1
        self._last[subscription, publisher] = seq

    def mark(self, now_s: float) -> None:
        """Call about every second: rates are over the last few marks."""
        self._marks.append((now_s, self.published, self.delivered))

    def rates(self) -> tuple[float, float]:
        """Messages per second in and out."""
        if len(self._marks) < 2:
            return 0.0, 0.0
        (begin_s, published, delivered), (end_s, *now) = self._marks[0], self._marks[-1]
        return (now[0] - published) / (end_s - begin_s), (now[1] - delivered) / (end_s - begin_s)

    def percentiles_ms(self) -> tuple[float, float] | None:
        """The median and the 99th."""
        if len(self._latencies_ms) < 2:
            return None
        cuts = quantiles(self._latencies_ms, n=100)
        return cuts[49], cuts[98]
