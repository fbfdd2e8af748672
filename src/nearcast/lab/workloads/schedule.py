"""How many are there at a time: straight lines between points."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Schedule:
    """Numbers of players at times in seconds, ascending; between two points they come or leave evenly."""

    points: tuple[tuple[float, int], ...]

    def __post_init__(self) -> None:
        times = [at_s for at_s, _ in self.points]
        if not times or times != sorted(set(times)):
            raise ValueError(f"a schedule needs points at ascending times, got {self.points!r}")

    def players(self, at_s: float) -> int:
        """How many are to be there at this time; before the first and after the last point, as many as at that one."""
        times, numbers = zip(*self.points, strict=True)
        return round(float(np.interp(at_s, times, numbers)))

    @property
    def most(self) -> int:
        """The largest number at any time."""
        return max(number for _, number in self.points)

    @property
    def end_s(self) -> float:
        """The time of the last point."""
        return self.points[-1][0]
