"""The prototype of seed 002, section 6.1, at flow level: a city with emergencies, and 400 who want to hear of them.

From the paper: 5 brokers, 400 subscribers, 10,000 reports of 8 types and 200 to 700 bytes in 30 minutes, 200 shelters,
7 channels of 10, 20 and 30 s, 1 to 5 channels per subscriber with 1 to 3 subscriptions in each, logins in the first
four minutes and subscriptions in the next four. Ours is what the channels ask (by type, by place, around the
subscriber, with or without shelters), and that places and people are where districts are (`crowd`). So there are some
600 distinct subscriptions of some 2,400.

What matches is really matched: every report with every subscription of a channel that runs. Subscribers walk along
streets that cross, from place to place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.workloads.crowd import Crowd, distances_km, skewed, spread_evenly, subscribed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BROKERS, SUBSCRIBERS = 5, 400
LAST_LOGIN_S, LAST_SUBSCRIPTION_S, END_S = 240.0, 480.0, 1800.0
TICK_S = 10.0

_CITY_KM = np.array([4.5, 3.4])  # as large as the Helsinki of the ONE simulator
_TYPES, _PLACES, _REPORTS, _SHELTERS = 8, 20, 10_000, 200
_REPORT_BYTES = (200.0, 700.0)
_SHELTER_BYTES = 100.0
_SHELTER_KM, _PLACE_KM = 0.5, 0.5
_NEAR_KM = (0.25, 0.5, 1.0)
_WALK_KM_PER_S = (0.5e-3, 1.5e-3)
_ANY = -1


@dataclass(frozen=True, slots=True)
class _Channel:
    """Which parameters it takes, and whether shelters come with a report."""

    period_s: float
    typed: bool = False
    placed: bool = False
    near: bool = False
    enriched: bool = False


CHANNELS = (
    _Channel(10.0, typed=True),
    _Channel(10.0, placed=True),
    _Channel(20.0, typed=True, placed=True),
    _Channel(10.0, near=True, enriched=True),
    _Channel(20.0, typed=True, enriched=True),
    _Channel(30.0, placed=True, enriched=True),
    _Channel(30.0, typed=True, placed=True, enriched=True),
)


class Emergencies:
    """One half hour in one city. Asked for `results` in the order of time: people walk meanwhile."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng((seed, 1))
        self._walk = np.random.default_rng((seed, 2))
        self._at_km = skewed(SUBSCRIBERS, _CITY_KM, rng)
        self._towards_km = self._at_km.copy()
        self._speed = rng.uniform(*_WALK_KM_PER_S, SUBSCRIBERS)
        self._walked_s = 0.0
        self._places_km = skewed(_PLACES, _CITY_KM, rng)
        self._reports(rng)
        chosen = self._choices(rng)
        login_s = rng.uniform(0.0, LAST_LOGIN_S, SUBSCRIBERS)
        since_s = [rng.uniform(LAST_LOGIN_S, LAST_SUBSCRIPTION_S, len(each)) for each in chosen]
        brokers = spread_evenly(BROKERS, _CITY_KM, rng)
        first, key, since = subscribed(chosen, since_s)
        self.crowd = Crowd(login_s, distances_km(self._at_km, brokers), first, key, since, len(self._channel))

    def results(self, at_s: float) -> tuple[Ints, Floats]:
        self._go(at_s)
        due = [number for number, each in enumerate(CHANNELS) if at_s % each.period_s == 0.0]
        keys, found = [], []
        for number in due:
            channel = CHANNELS[number]
            new = slice(*np.searchsorted(self._sent_s, (at_s - channel.period_s, at_s)).tolist())
            mine = np.flatnonzero(self._channel == number)
            size = self._bytes[new] + (self._shelter_bytes[new] if channel.enriched else 0.0)
            keys.append(mine)
            found.append(self._matches(mine, new) @ size)
        return (np.concatenate(keys), np.concatenate(found)) if due else (np.zeros(0, np.int64), np.zeros(0))

    def _matches(self, keys: Ints, reports: slice) -> Floats:
        """Which of the keys (rows) match which of the reports (columns)."""
        of_type = self._type[keys][:, None]
        right = (of_type == _ANY) | (of_type == self._report_type[reports])
        user, place = self._user[keys], self._place[keys]
        middle = np.where((user == _ANY)[:, None], self._places_km[place], self._at_km[user])
        near = distances_km(middle, self._report_km[reports]) <= self._radius_km[keys][:, None]
        return np.asarray(right & near, dtype=np.float64)

    def _reports(self, rng: np.random.Generator) -> None:
        self._sent_s = np.sort(rng.uniform(0.0, END_S, _REPORTS))
        self._report_km = rng.uniform(0.0, _CITY_KM, (_REPORTS, 2))
        self._report_type = rng.integers(0, _TYPES, _REPORTS)
        self._bytes = rng.uniform(*_REPORT_BYTES, _REPORTS)
        shelters_km = rng.uniform(0.0, _CITY_KM, (_SHELTERS, 2))
        within = distances_km(self._report_km, shelters_km) <= _SHELTER_KM
        self._shelter_bytes = _SHELTER_BYTES * within.sum(axis=1)

    def _choices(self, rng: np.random.Generator) -> list[Ints]:
        """What each subscriber asks for, as numbers of distinct subscriptions, which are made as they are met."""
        known: dict[tuple[int, int, int, int, float], int] = {}
        popular = 1.0 / np.arange(1, _PLACES + 1)
        popular /= popular.sum()
        chosen = []
        for user in range(SUBSCRIBERS):
            mine: list[int] = []
            for number in rng.choice(len(CHANNELS), rng.integers(1, 6), replace=False).tolist():
                asked = _asked(CHANNELS[number], user, int(rng.integers(1, 4)), popular, rng)
                mine += [known.setdefault((number, *each), len(known)) for each in asked]
            chosen.append(np.array(mine))
        columns = list(zip(*known, strict=True))
        self._channel, self._type, self._place, self._user = (np.array(column) for column in columns[:4])
        self._radius_km = np.array(columns[4])
        return chosen

    def _go(self, at_s: float) -> None:
        """Along one axis first and then along the other, as streets are; then to another place."""
        left = self._speed * max(0.0, at_s - self._walked_s)
        self._walked_s = max(at_s, self._walked_s)
        for axis in (0, 1):
            way = self._towards_km[:, axis] - self._at_km[:, axis]
            gone = np.minimum(np.abs(way), left)
            self._at_km[:, axis] += np.sign(way) * gone
            left -= gone
        there = left > 0.0
        self._towards_km[there] = self._places_km[self._walk.integers(0, _PLACES, int(there.sum()))]


def _asked(
    channel: _Channel, user: int, count: int, popular: Floats, rng: np.random.Generator
) -> list[tuple[int, int, int, float]]:
    """So many different (type, place, user, radius) for one channel."""
    if channel.near:
        return [(_ANY, _ANY, user, radius) for radius in rng.choice(_NEAR_KM, count, replace=False).tolist()]
    found: dict[tuple[int, int, int, float], None] = {}
    while len(found) < count:
        type_ = int(rng.integers(_TYPES)) if channel.typed else _ANY
        place = int(rng.choice(_PLACES, p=popular)) if channel.placed else _ANY
        found[type_, place, _ANY, _PLACE_KM if channel.placed else np.inf] = None
    return list(found)
