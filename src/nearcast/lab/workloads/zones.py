"""A city cut into edge zones: each the cells that are nearest to one edge site, by k-means on the cells' positions."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_CELLS = "cells/us_cells_openbmap_10k.csv"
_KM_PER_DEGREE = 111.2
_ROUNDS = 100
_BUILT_IN_CELLS = 1_000
_BUILT_IN_CENTRES = 12
_SIDE_KM = 40.0


def built_in_cells(rng: np.random.Generator) -> Floats:
    """Cells of a made-up city, in km: most of them around a dozen centres."""
    centres = rng.uniform(0.0, _SIDE_KM, (_BUILT_IN_CENTRES, 2))
    around = centres[rng.integers(0, _BUILT_IN_CENTRES, _BUILT_IN_CELLS)]
    return np.asarray(np.clip(around + rng.normal(scale=3.0, size=around.shape), 0.0, _SIDE_KM))


def measured_cells(data: Path, metro: str = "nyc") -> Floats:
    """Real cells of one city, in km from its south-western corner."""
    path = data / _CELLS
    try:
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["metro"] == metro]
        degrees = np.array([(float(row["longitude"]), float(row["latitude"])) for row in rows])
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"{path}: cells cannot be read: {error}") from error
    if not len(degrees):
        raise ConfigError(f"{path}: no cell of {metro!r} is there")
    scale = np.array([_KM_PER_DEGREE * np.cos(np.radians(degrees[:, 1].mean())), _KM_PER_DEGREE])
    return np.asarray((degrees - degrees.min(axis=0)) * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """`sites` are in the middle of their zones; `low` and `high` are the corners of the city. All in km."""

    sites: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, cells: Floats, count: int, rng: np.random.Generator) -> "Zones":
        """Lloyd's k-means, from cells chosen by chance; a site that loses all its cells stays where it is."""
        sites = cells[rng.choice(len(cells), count, replace=False)].copy()
        for _ in range(_ROUNDS):
            zone = _nearest(cells, sites)
            number = np.bincount(zone, minlength=count)
            middle = np.stack([np.bincount(zone, column, count) for column in cells.T], axis=1)
            moved = np.where(number[:, None] > 0, middle / np.maximum(number, 1)[:, None], sites)
            if np.allclose(moved, sites):
                break
            sites = moved
        return cls(sites, cells.min(axis=0), cells.max(axis=0))

    def zone_of(self, at: Floats) -> Ints:
        return _nearest(at, self.sites)


def _nearest(at: Floats, sites: Floats) -> Ints:
    return np.asarray(((at[:, None] - sites[None]) ** 2).sum(axis=2).argmin(axis=1))
