"""The fleet's time: the leader's clock as each process knows it, and how well.

It is kept as what to add to the process's own `now`, which nobody sets: a wall clock that jumps changes nothing. Of
what was read lately the surest counts; everything gets less sure with age, because clocks drift apart.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

DRIFT = 200e-6
"""Seconds per second between two clocks that are each wrong by 100 ppm at most."""

_KEPT = 16
_KEPT_S = 120.0


@dataclass(frozen=True, slots=True)
class Reading:
    """`ahead_s`: the fleet's time less the own `now`, as it was at `at_s`, of the leader of `term`.

    `uncertainty_s` is to the leader's clock, `near_s` only to the clock of `via`, who told.
    """

    at_s: float
    ahead_s: float
    uncertainty_s: float
    near_s: float = 0.0
    via: str = ""
    term: int = 0

    def aged_s(self, now: float) -> float:
        """How much less sure it has got."""
        return DRIFT * max(0.0, now - self.at_s)


class FleetTime:
    """`ahead_s` is what to add to `now`. `mark` is 1 when that gives the fleet's time, and 0 while it gives the wall
    clock's: a send time with this as its last bit says which of them it is."""

    __slots__ = ("_jumps", "_readings", "ahead_s", "mark", "surest")

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.mark = 0
        self.surest: Reading | None = None
        self._readings: deque[Reading] = deque(maxlen=_KEPT)
        self._jumps: deque[tuple[float, float]] = deque(maxlen=_KEPT)  # when, and by how much

    @property
    def term(self) -> int:
        return self.surest.term if self.surest is not None else 0

    def take(self, reading: Reading) -> None:
        """A reading of an earlier leader's clock is not taken; one of a later leader's replaces all."""
        if reading.term < self.term:
            return
        if reading.term > self.term:
            self._readings.clear()
        now = reading.at_s
        self._readings.append(reading)
        lately = [each for each in self._readings if each.at_s > now - _KEPT_S]
        before, self.surest = self.surest, min(lately, key=lambda each: each.uncertainty_s + each.aged_s(now))
        self.ahead_s, self.mark = self.surest.ahead_s, 1
        if before is not None and before is not self.surest:
            drifted_s = DRIFT * abs(self.surest.at_s - before.at_s)
            self._jumps.append((now, max(0.0, abs(self.surest.ahead_s - before.ahead_s) - drifted_s)))

    def unknown(self, wall_ahead_s: float) -> None:
        """By the wall clock, which is so much ahead of `now`, for as long as nothing was read."""
        if not self.mark:
            self.ahead_s = wall_ahead_s

    def wander_s(self, now: float) -> float:
        """By how much it may differ from what we told others lately, beyond what clocks drift: not by what we know of
        the leader's clock, which is wrong for all of them alike."""
        return sum(by_s for at_s, by_s in self._jumps if at_s > now - _KEPT_S)

    def uncertainty_s(self, now: float) -> float | None:
        """None while nothing was read."""
        return None if self.surest is None else self.surest.uncertainty_s + self.surest.aged_s(now)


def compared(sent_s: float, received_s: float, answered_s: float, now: float) -> tuple[float, float]:
    """The round trip without the time that the other side held it, and how far its clock is ahead of ours.

    As NTP has it: if the way there was as long as the way back, the second is right; else wrong by half the first.
    """
    rtt_s = (now - sent_s) - (answered_s - received_s)
    return rtt_s, ((received_s - sent_s) + (answered_s - now)) / 2.0
