"""How long followers may be silent before they are given up: the longer, the more of them there are.

Who follows renews several times within a lease. With leases of one length a million followers would renew 200,000 times
a second; here they are longer in proportion once so many follow that renewals would come faster than `most_hz`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator

import msgspec

from nearcast.control.timing import Timing

MOST_RENEWALS_HZ = 2_000.0
"""What an agent takes in beside its work: at some 50 microseconds each, about a tenth of a processor."""


class Leased(msgspec.Struct, gc=False):
    """What is kept of each. `queued_s`: when it is looked at next, which may be before its end."""

    until_s: float = 0.0
    queued_s: float = 0.0


class FollowerLeases:
    """Followers are known by (key, client). A renewal is one number: who has renewed is found out when the end that it
    had before has come. So whoever falls silent when many leave is given up late, by what was granted before.
    """

    __slots__ = ("_most_hz", "_queue", "count", "timing")

    def __init__(self, timing: Timing, most_hz: float = MOST_RENEWALS_HZ) -> None:
        self.timing = timing
        self.count = 0
        self._most_hz = most_hz
        self._queue: list[tuple[float, str, str]] = []  # with what is not so any more

    @property
    def length_s(self) -> float:
        """Of what is granted now. Who has it renews as often within it as within the shortest."""
        often = self.timing.absent_s / self.timing.follow_s
        return max(self.timing.absent_s, often * self.count / self._most_hz)

    def begin(self, key: str, client: str, leased: Leased, now: float) -> None:
        self.count += 1
        leased.until_s = leased.queued_s = now + self.length_s
        heapq.heappush(self._queue, (leased.queued_s, key, client))

    def renew(self, leased: Leased, now: float) -> None:
        leased.until_s = now + self.length_s

    def end(self) -> None:
        """One of them is no more; `find` does not find it."""
        self.count -= 1

    def wake_s(self) -> float:
        return self._queue[0][0] if self._queue else math.inf

    def ended(self, now: float, find: Callable[[str, str], Leased | None]) -> Iterator[tuple[str, str]]:
        """Those whose lease is over, as (key, client). Each is to be ended before the next is asked for."""
        while self._queue and now >= self._queue[0][0]:
            queued_s, key, client = heapq.heappop(self._queue)
            leased = find(key, client)
            if leased is None or leased.queued_s != queued_s:
                continue  # it left, and perhaps came back
            if now >= leased.until_s:
                yield key, client
            else:
                leased.queued_s = leased.until_s
                heapq.heappush(self._queue, (leased.queued_s, key, client))
