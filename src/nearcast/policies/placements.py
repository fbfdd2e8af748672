"""The first home of a subscriber (BAD, section 5.1): `nearest`, `round-robin`, `random`, `least-loaded`.

A newcomer has no subscriptions yet, so none of them knows what it is going to cost. That is why `least-loaded` is a
trap: until the first subscriptions show in the loads, all who come go to the same broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import ConfigError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """What is known when a subscriber comes. Rows are the brokers that may be given something, sorted by name.

    `load` is that of equation 5. `distance` is to the newcomer, in any unit, NaN where it is not known; None where
    nothing is. `number`: how many came before. `chance` is uniform between 0 and 1.
    """

    load: Floats
    distance: Floats | None = None
    number: int = 0
    chance: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.load):
            raise ConfigError("a subscriber comes, and no broker is there that could be its home")


Placement = Callable[[Arrival], int]
"""From what is known to the row of a broker. Pure."""


def nearest(arrival: Arrival) -> int:
    """NR; by turns for a newcomer of whom nobody knows where it is."""
    if arrival.distance is None or np.isnan(arrival.distance).all():
        return round_robin(arrival)
    return int(np.nanargmin(arrival.distance))


def round_robin(arrival: Arrival) -> int:
    """RR: by turns."""
    return arrival.number % len(arrival.load)


def at_random(arrival: Arrival) -> int:
    """RND."""
    return min(int(arrival.chance * len(arrival.load)), len(arrival.load) - 1)


def least_loaded(arrival: Arrival) -> int:
    """LL; among equals the first."""
    return int(arrival.load.argmin())


NEAREST, LEAST_LOADED = "nearest", "least-loaded"

PLACEMENTS: dict[str, Placement] = {
    NEAREST: nearest,
    "round-robin": round_robin,
    "random": at_random,
    LEAST_LOADED: least_loaded,
}


def placement_named(name: str) -> Placement:
    try:
        return PLACEMENTS[name]
    except KeyError:
        raise ConfigError(f"placement {name!r} is not known; there are {', '.join(sorted(PLACEMENTS))}") from None
