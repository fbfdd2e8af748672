"""Subscribers who come and then subscribe, and how much comes of it: what experiments on balancing are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.workloads.zones import Zones

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_DISTRICTS = 8
_DISTRICT_KM = 0.6  # the standard deviation of where people of one district are
_GRID = 40


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Subscriber i comes at `login_s[i]` and has the keys `key[first[i]:first[i + 1]]`, each from its `since_s` on.

    `distance_km` is from each subscriber, when it comes, to each broker.
    """

    login_s: Floats
    distance_km: Floats
    first: Ints
    key: Ints
    since_s: Floats
    keys: int

    @property
    def brokers(self) -> int:
        return int(self.distance_km.shape[1])


class Workload(Protocol):
    """A crowd, and what the data cluster makes for it."""

    @property
    def crowd(self) -> Crowd: ...

    def results(self, at_s: float) -> tuple[Ints, Floats]:
        """Keys, and the bytes of their results, of the channels that run at this time. Asked in the order of time."""
        ...


def subscribed(chosen: list[Ints], since_s: list[Floats]) -> tuple[Ints, Ints, Floats]:
    """`first`, `key` and `since_s` of a crowd, from what each subscriber chose (each key once)."""
    order = [np.argsort(each) for each in chosen]
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum([len(each) for each in chosen])))
    key = np.concatenate([each[by] for each, by in zip(chosen, order, strict=True)])
    return first, key, np.concatenate([each[by] for each, by in zip(since_s, order, strict=True)])


def skewed(count: int, size_km: Floats, rng: np.random.Generator) -> Floats:
    """Where people are: around districts of a city, the second with half as many as the first, and so on."""
    middles = rng.uniform(0.0, size_km, (_DISTRICTS, 2))
    weights = 1.0 / np.arange(1, _DISTRICTS + 1)
    around = middles[rng.choice(_DISTRICTS, count, p=weights / weights.sum())]
    return np.asarray(np.clip(rng.normal(around, _DISTRICT_KM), 0.0, size_km))


def spread_evenly(count: int, size_km: Floats, rng: np.random.Generator) -> Floats:
    """Where brokers are: as far from each other as a city allows."""
    side = (np.arange(_GRID) + 0.5) / _GRID
    cells = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2) * size_km
    return Zones.of(cells, count, rng).sites


def distances_km(people: Floats, places: Floats) -> Floats:
    """From each of these (rows) to each of those (columns)."""
    return np.asarray(np.linalg.norm(people[:, None] - places[None], axis=2))
