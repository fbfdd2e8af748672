"""The fleet's time, which is whoever leads: kept from one leader to the next, so that it does not jump."""

import math

from nearcast.wire.control import Alive

_OVERHEARD_S = 60.0  # what is older is not compared with: clocks drift


class LeaderTime:
    def __init__(self) -> None:
        self._ahead_s: float | None = None  # the fleet's time less our `now`
        self._overheard_s = -math.inf

    def overhear(self, message: Alive, now: float) -> None:
        """While another leads, agents tell its time: late by the way of what was on it shortest."""
        if message.fleet_s:
            ahead_s = message.fleet_s - now
            if self._ahead_s is None or now >= self._overheard_s + _OVERHEARD_S:
                self._ahead_s, self._overheard_s = ahead_s, now
            self._ahead_s = max(ahead_s, self._ahead_s)

    def fleet_s(self, now: float, wall: float) -> float:
        """By our clock; who leads first gives the fleet its wall clock's time."""
        if self._ahead_s is None:
            self._ahead_s = wall - now
        return now + self._ahead_s

    def led(self) -> None:
        """We have led until now: what is overheard from here on is another's."""
        self._overheard_s = -math.inf
