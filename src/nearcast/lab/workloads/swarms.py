"""Swarms of drones over a city (ePulsar, section 5.1.1): where each is, and when it comes to another zone.

All drones of a swarm are in one place. They go by random waypoint, without a rest, or along recorded paths of real
drones. Those were flown within some hundred metres, where no zone ends: they are stretched, all alike, until the
widest of them is as wide as the city.
"""

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearcast.domain.errors import ConfigError
from nearcast.lab.workloads.zones import Floats, Zones

SPEED_M_S = 50.0
_PATHS = "drones/drone_locations.csv.gz"
_LOOK_S = 0.1  # a zone is entered when it is seen to be


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """A way in straight lines: at `at_s[i]` it is at `km[i]`."""

    at_s: Floats
    km: Floats

    def positions(self, times_s: Floats) -> Floats:
        return np.stack([np.interp(times_s, self.at_s, column) for column in self.km.T], axis=1)


@dataclass(frozen=True, slots=True)
class Crossing:
    """From `at_s` on the swarm is in `zone`. Where a swarm begins, it comes to at 0."""

    at_s: float
    swarm: int
    zone: int


def random_waypoint(city: Zones, until_s: float, rng: np.random.Generator, speed_m_s: float = SPEED_M_S) -> Track:
    """From a random point of the city straight to the next, and so on."""
    points, times_s = [rng.uniform(city.low, city.high)], [0.0]
    while times_s[-1] < until_s:
        points.append(rng.uniform(city.low, city.high))
        times_s.append(times_s[-1] + float(np.linalg.norm(points[-1] - points[-2])) * 1e3 / speed_m_s)
    return Track(np.array(times_s), np.array(points))


def recorded(data: Path, city: Zones, count: int, until_s: float) -> tuple[list[Track], float]:
    """The drones that went the longest ways within some `until_s`, each when it did; and how much they are stretched.

    ConfigError when there are not so many.
    """
    found = [_busiest(path, until_s) for path in _paths(data)]
    flown = [each for each in found if each is not None]
    if len(flown) < count:
        raise ConfigError(f"{data / _PATHS}: {len(flown)} drones flew for {until_s:g} s, not {count}")
    flown.sort(key=lambda track: -_length_km(track))
    widest_km = max(float(np.ptp(track.km, axis=0).max()) for track in flown[:count])
    factor = float((city.high - city.low).min()) / widest_km
    middle = (city.low + city.high) / 2
    tracks = []
    for track in flown[:count]:
        own = (track.km.min(axis=0) + track.km.max(axis=0)) / 2
        tracks.append(Track(track.at_s, middle + (track.km - own) * factor))
    return tracks, factor


def crossings(tracks: Sequence[Track], city: Zones, until_s: float) -> tuple[Crossing, ...]:
    """Every swarm's zone at 0 and each change of it before `until_s`, by time."""
    times_s = np.arange(0.0, until_s, _LOOK_S)
    found: list[Crossing] = []
    for swarm, track in enumerate(tracks):
        zone = city.zone_of(track.positions(times_s))
        changes = (0, *(np.flatnonzero(np.diff(zone)) + 1).tolist())
        found += [Crossing(round(float(times_s[at]), 3), swarm, int(zone[at])) for at in changes]
    return tuple(sorted(found, key=lambda each: (each.at_s, each.swarm)))


def _paths(data: Path) -> list[Track]:
    path = data / _PATHS
    try:
        with gzip.open(path, "rt", newline="") as file:
            rows = np.array(
                [
                    (float(row["drone_id"]), float(row["t_s"]), float(row["x"]), float(row["y"]))
                    for row in csv.DictReader(file)
                ]
            )
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise ConfigError(f"{path}: paths cannot be read: {error}") from error
    starts = np.flatnonzero(np.diff(rows[:, 0], prepend=np.nan) != 0)
    return [Track(part[:, 1], part[:, 2:]) for part in np.split(rows, starts[1:])]


def _busiest(path: Track, until_s: float) -> Track | None:
    """The part of a path, `until_s` long, in which most way is gone; it then begins at 0. None for a shorter one."""
    if path.at_s[-1] - path.at_s[0] < until_s:
        return None
    gone = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(path.km, axis=0), axis=1))))
    ends = np.searchsorted(path.at_s, path.at_s + until_s)
    whole = np.flatnonzero(ends < len(path.at_s))
    first = int(whole[np.argmax(gone[ends[whole]] - gone[whole])]) if len(whole) else 0
    part = slice(first, int(ends[first]) + 1)
    return Track(path.at_s[part] - path.at_s[first], path.km[part])


def _length_km(track: Track) -> float:
    return float(np.linalg.norm(np.diff(track.km, axis=0), axis=1).sum())
