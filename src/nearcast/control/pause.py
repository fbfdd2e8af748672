"""How long a subscriber could not receive, as it sees it itself: ePulsar's client downtime (sections 3.6 and 5.7)."""

from __future__ import annotations

import math


class Pause:
    """From when it is attached nowhere any more until it is attached again. Moves that overlap make none."""

    __slots__ = ("_since_s", "longest_s")

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._since_s = math.inf

    def note(self, now: float, *, receiving: bool) -> float:
        """Whether it is attached, confirmed, to any broker that gets the topic's messages; said again at will.

        Gives how long one took that is over with this; 0 where there was none.
        """
        self.longest_s = self.so_far_s(now)
        over_s = max(0.0, now - self._since_s) if receiving else 0.0
        self._since_s = math.inf if receiving else min(self._since_s, now)
        return over_s

    def so_far_s(self, now: float) -> float:
        """The longest one, also when it is not over."""
        return max(self.longest_s, now - self._since_s)

    def take_s(self, now: float) -> float:
        """The longest one since this was last asked."""
        found_s, self.longest_s = self.so_far_s(now), 0.0
        return found_s
