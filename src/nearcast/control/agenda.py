"""Who wants to be woken when, for many: the next one is found without asking them all."""

from __future__ import annotations

import heapq
import math


class Agenda:
    """Times by key. A key's earlier times stay in the heap until they come up, and are passed over then."""

    __slots__ = ("_at_s", "_heap")

    def __init__(self) -> None:
        self._at_s: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, key: str, at_s: float) -> None:
        if self._at_s.get(key, math.inf) != at_s:
            self._at_s[key] = at_s
            if at_s < math.inf:
                heapq.heappush(self._heap, (at_s, key))

    def next_s(self) -> float:
        heap = self._heap
        while heap and self._at_s.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else math.inf

    def due(self, now: float) -> list[str]:
        """The keys whose time has come, in its order; each is then without a time until it is set again."""
        keys: list[str] = []
        while self.next_s() <= now:
            _, key = heapq.heappop(self._heap)
            del self._at_s[key]
            keys.append(key)
        return keys
