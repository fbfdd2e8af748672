"""A network coordinate, and the round-trip time that two of them predict.

A vector in a Euclidean space, and a height above it: the way that every packet of the node takes before it comes to
where distances are like those on a map. The adjustment is what the space could not express of what was measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

# The defaults of HashiCorp's Serf, whose arithmetic this is (serf 0.9.4, coordinate/config.go).
DIMENSIONS = 8
HEIGHT_MIN_S = 10e-6
ERROR_MAX = 1.5

NEAR_S = 1e-6  # nearer than this, a direction has no meaning
_NANOSECONDS = 1e9
_MOST = 3600.0


@dataclass(frozen=True, slots=True)
class Coordinate:
    """All in seconds, but `error`: how wrong its predictions have been lately, relative, at most 1.5."""

    vec: tuple[float, ...] = (0.0,) * DIMENSIONS
    height: float = HEIGHT_MIN_S
    adjustment: float = 0.0
    error: float = ERROR_MAX

    @property
    def is_valid(self) -> bool:
        """Whether every part of it is a number, and none says that the node is an hour away."""
        return all(abs(each) <= _MOST for each in (*self.vec, self.height, self.adjustment, self.error))

    def raw_distance_s(self, other: Coordinate) -> float:
        """Without the adjustments."""
        return magnitude(minus(self.vec, other.vec)) + self.height + other.height

    def distance_s(self, other: Coordinate) -> float:
        """The predicted round-trip time, in whole nanoseconds."""
        distance_s = self.raw_distance_s(other)
        adjusted_s = distance_s + self.adjustment + other.adjustment
        whole_ns = int((adjusted_s if adjusted_s > 0.0 else distance_s) * _NANOSECONDS)
        return seconds(whole_ns)


def seconds(ns: int) -> float:
    """Rounded once for the whole seconds and once for the rest, as Serf has them."""
    whole, rest = divmod(abs(ns), 1_000_000_000)
    found = whole + rest / _NANOSECONDS
    return found if ns >= 0 else -found


def minus(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(a - b for a, b in zip(one, other, strict=True))


def magnitude(vec: tuple[float, ...]) -> float:
    total = 0.0
    for each in vec:
        total += each * each
    return math.sqrt(total)
