"""Cities and the round-trip times between them: a built-in table with a fitted model, or WonderNetwork's pings.

The model was fitted to the 2,210 finite round-trip times between 67 cities of the United States in WonderNetwork's 2020
pings, by least absolute deviations: 12.4 ms and 15.3 ms more for every 1,000 km; half of them are within 6.7 ms of it
(`tests/real` repeats the fit).
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import ConfigError

Floats = NDArray[np.float64]

BASE_MS = 12.4
MS_PER_KM = 0.0153
_EARTH_KM = 6371.0
_COUNTRY = "United States"
_FAR_AWAY = ("Honolulu",)  # an ocean away from all others
_INNER = re.compile(r"(?<=[a-z])(?=[A-Z])")  # there it is NewYork
_NODES = "latency/wondernetwork2020_nodes.json"
_MATRIX = "latency/wondernetwork2020_avg_ms.npy"

_TABLE: dict[str, tuple[float, float]] = {
    "Albuquerque": (35.1, -106.6), "Atlanta": (33.7, -84.4), "Austin": (30.3, -97.7), "Boston": (42.4, -71.1),
    "Buffalo": (42.9, -78.9), "Charlotte": (35.2, -80.8), "Chicago": (41.9, -87.6), "Cincinnati": (39.1, -84.5),
    "Cleveland": (41.5, -81.7), "Columbus": (40.0, -83.0), "Dallas": (32.8, -96.8), "Denver": (39.7, -105.0),
    "Detroit": (42.3, -83.0), "Houston": (29.8, -95.4), "Indianapolis": (39.8, -86.2), "Jacksonville": (30.3, -81.7),
    "Kansas City": (39.1, -94.6), "Las Vegas": (36.2, -115.1), "Los Angeles": (34.1, -118.2), "Memphis": (35.1, -90.0),
    "Miami": (25.8, -80.2), "Minneapolis": (45.0, -93.3), "Nashville": (36.2, -86.8), "New Orleans": (30.0, -90.1),
    "New York": (40.7, -74.0), "Oklahoma City": (35.5, -97.5), "Orlando": (28.5, -81.4), "Philadelphia": (40.0, -75.2),
    "Phoenix": (33.4, -112.1), "Pittsburgh": (40.4, -80.0), "Portland": (45.5, -122.7), "Raleigh": (35.8, -78.6),
    "Sacramento": (38.6, -121.5), "Salt Lake City": (40.8, -111.9), "San Antonio": (29.4, -98.5),
    "San Diego": (32.7, -117.2), "San Francisco": (37.8, -122.4), "Seattle": (47.6, -122.3), "St. Louis": (38.6, -90.2),
    "Washington": (38.9, -77.0),
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Cities:
    """`rtt_ms[i, j]` between cities i and j, the same both ways; 0 from a city to itself."""

    names: tuple[str, ...]
    rtt_ms: Floats

    def some(self, count: int, rng: np.random.Generator) -> "Cities":
        """As many of them, by chance."""
        if count > len(self.names):
            raise ConfigError(f"{count} cities are asked for; there are {len(self.names)}")
        return self._of(rng.choice(len(self.names), count, replace=False))

    def around(self, name: str, count: int, rng: np.random.Generator) -> "Cities":
        """As many of them, by chance, but with that one."""
        if name not in self.names:
            raise ConfigError(f"{name} is not among the cities: {', '.join(self.names)}")
        at = self.names.index(name)
        others = np.delete(np.arange(len(self.names)), at)
        if count > len(self.names):
            raise ConfigError(f"{count} cities are asked for; there are {len(self.names)}")
        return self._of(np.append(rng.choice(others, count - 1, replace=False), at))

    def _of(self, chosen: NDArray[np.int64]) -> "Cities":
        chosen = np.sort(chosen)
        return Cities(tuple(self.names[at] for at in chosen.tolist()), self.rtt_ms[np.ix_(chosen, chosen)])


def built_in() -> Cities:
    names = tuple(_TABLE)
    rtt_ms = BASE_MS + MS_PER_KM * distances_km(np.array([_TABLE[name] for name in names]))
    np.fill_diagonal(rtt_ms, 0.0)
    return Cities(names, rtt_ms)


def measured(data: Path) -> Cities:
    """The cities of the United States between which all round-trip times are known."""
    try:
        nodes = json.loads((data / _NODES).read_text())
        matrix = np.load(data / _MATRIX)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{data}: the pings between cities cannot be read: {error}") from error
    at = np.array([row for row, node in enumerate(nodes) if node[2] == _COUNTRY and node[1] not in _FAR_AWAY])
    kept, rtt_ms = _known(matrix[np.ix_(at, at)].astype(np.float64))
    return Cities(tuple(_INNER.sub(" ", str(nodes[row][1])) for row in at[kept].tolist()), rtt_ms)


def read_matrix(path: Path, first: str) -> Cities:
    """Any square .npy matrix of round-trip times in ms: its best-connected place is called `first`, others by number.

    The mean of both directions counts; places with an unknown time are left out.
    """
    try:
        rtt_ms = np.load(path).astype(np.float64)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read a latency matrix from {path}: {error}") from error
    if rtt_ms.ndim != 2 or rtt_ms.shape[0] != rtt_ms.shape[1]:
        raise ConfigError(f"{path} holds an array of shape {rtt_ms.shape}, not a square matrix of times in ms")
    at, rtt_ms = _known(rtt_ms)
    if not len(at):
        raise ConfigError(f"{path}: no two places have a round-trip time")
    best = int(np.median(rtt_ms, axis=1).argmin())
    return Cities(tuple(first if row == best else f"place {number}" for row, number in enumerate(at.tolist())), rtt_ms)


def _known(rtt_ms: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The rows of which all round-trip times are known, and these: the same both ways, 0 from a place to itself."""
    at = np.arange(len(rtt_ms))
    both = np.stack((rtt_ms, rtt_ms.T))
    both = np.where(both > 0.0, both, np.nan)
    known = np.isfinite(both).sum(axis=0)
    rtt_ms = np.where(known, np.nansum(both, axis=0) / np.maximum(known, 1), np.nan)
    np.fill_diagonal(rtt_ms, 0.0)
    while (missing := np.isnan(rtt_ms).sum(axis=1)).any():
        keep = np.arange(len(at)) != int(missing.argmax())
        at, rtt_ms = at[keep], rtt_ms[np.ix_(keep, keep)]
    return at, rtt_ms


def distances_km(positions: Floats) -> Floats:
    """Between all pairs of (latitude, longitude) in degrees, along the surface."""
    latitude, longitude = np.radians(positions).T
    across = np.cos(longitude[:, None] - longitude[None, :])
    cosine = np.sin(latitude)[:, None] * np.sin(latitude) + np.cos(latitude)[:, None] * np.cos(latitude) * across
    return np.asarray(_EARTH_KM * np.arccos(np.clip(cosine, -1.0, 1.0)))
