"""The prototype of BAD, section 6.1, at flow level: a city with emergencies, and 400 who want to hear of them.

From the paper: 5 brokers, 400 subscribers, 10,000 reports of 8 types and 200 to 700 bytes in 30 minutes, 200 shelters,
7 channels of 10, 20 and 30 s, 1 to 5 channels per subscriber with 1 to 3 subscriptions in each, logins in the first
four minutes and subscriptions in the next four. Ours is what the channels ask (by type, by place, around the
subscriber, with or without shelters), and that places and people are where districts are (`crowd`). So there are some
600 distinct subscriptions of some 2,400.

What matches is really matched: every report with every subscription of a channel that runs. Subscribers walk along
streets that cross, from place to place. `bad.emergency` plays the same city with real clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.workloads.crowd import Crowd, distances_km, skewed, spread_evenly, subscribed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

BROKERS = 5
TICK_S = 10.0
ANY = -1
PLACE_KM = 0.5
SHELTER_KM = 0.5

_CITY_KM = np.array([4.5, 3.4])  # as large as the Helsinki of the ONE simulator
_TYPES, _PLACES, _SHELTERS = 8, 20, 200
_REPORT_BYTES = (200.0, 700.0)
_SHELTER_BYTES = 100.0
_NEAR_KM = (0.25, 0.5, 1.0)
_WALK_KM_PER_S = (0.5e-3, 1.5e-3)


@dataclass(frozen=True, slots=True)
class Size:
    """By default that of the paper."""

    subscribers: int = 400
    reports: int = 10_000
    last_login_s: float = 240.0
    last_subscription_s: float = 480.0
    end_s: float = 1800.0


PAPER = Size()


@dataclass(frozen=True, slots=True)
class ChannelShape:
    """Which parameters it takes, and whether shelters come with a report."""

    period_s: float
    typed: bool = False
    placed: bool = False
    near: bool = False
    enriched: bool = False


CHANNELS = (
    ChannelShape(10.0, typed=True),
    ChannelShape(10.0, placed=True),
    ChannelShape(20.0, typed=True, placed=True),
    ChannelShape(10.0, near=True, enriched=True),
    ChannelShape(20.0, typed=True, enriched=True),
    ChannelShape(30.0, placed=True, enriched=True),
    ChannelShape(30.0, typed=True, placed=True, enriched=True),
)


class Asked(NamedTuple):
    """A distinct subscription: the number of its channel, and its parameters; ANY where the channel has none."""

    channel: int
    kind: int
    place: int
    user: int
    km: float


class Emergencies:
    """One half hour in one city. Asked for `results` in the order of time: people walk meanwhile.

    `asked` are the distinct subscriptions, `chosen` those of each subscriber; `at_km` is where subscribers are now.
    """

    def __init__(self, seed: int, size: Size = PAPER) -> None:
        rng = np.random.default_rng((seed, 1))
        self._walk = np.random.default_rng((seed, 2))
        self.at_km = skewed(size.subscribers, _CITY_KM, rng)
        self._towards_km = self.at_km.copy()
        self._speed = rng.uniform(*_WALK_KM_PER_S, size.subscribers)
        self._walked_s = 0.0
        self.places_km = skewed(_PLACES, _CITY_KM, rng)
        self._make_reports(size, rng)
        self.chosen = self._choices(size.subscribers, rng)
        login_s = rng.uniform(0.0, size.last_login_s, size.subscribers)
        since_s = [rng.uniform(size.last_login_s, size.last_subscription_s, len(each)) for each in self.chosen]
        brokers = spread_evenly(BROKERS, _CITY_KM, rng)
        first, key, since = subscribed(self.chosen, since_s)
        self.crowd = Crowd(login_s, distances_km(self.at_km, brokers), first, key, since, len(self._channel))

    def results(self, at_s: float) -> tuple[Ints, Floats]:
        self.walk(at_s)
        due = [number for number, each in enumerate(CHANNELS) if at_s % each.period_s == 0.0]
        keys, found = [], []
        for number in due:
            channel = CHANNELS[number]
            new = slice(*np.searchsorted(self.sent_s, (at_s - channel.period_s, at_s)).tolist())
            mine = np.flatnonzero(self._channel == number)
            size = self.report_bytes[new] + (self._shelter_bytes[new] if channel.enriched else 0.0)
            keys.append(mine)
            found.append(self._matches(mine, new) @ size)
        return (np.concatenate(keys), np.concatenate(found)) if due else (np.zeros(0, np.int64), np.zeros(0))

    def _matches(self, keys: Ints, reports: slice) -> Floats:
        """Which of the keys (rows) match which of the reports (columns)."""
        of_kind = self._kind[keys][:, None]
        right = (of_kind == ANY) | (of_kind == self.report_kind[reports])
        user, place = self._user[keys], self._place[keys]
        middle = np.where((user == ANY)[:, None], self.places_km[place], self.at_km[user])
        near = distances_km(middle, self.report_km[reports]) <= self._radius_km[keys][:, None]
        return np.asarray(right & near, dtype=np.float64)

    def _make_reports(self, size: Size, rng: np.random.Generator) -> None:
        self.sent_s = np.sort(rng.uniform(0.0, size.end_s, size.reports))
        self.report_km = rng.uniform(0.0, _CITY_KM, (size.reports, 2))
        self.report_kind = rng.integers(0, _TYPES, size.reports)
        self.report_bytes = rng.uniform(*_REPORT_BYTES, size.reports)
        self.shelters_km = rng.uniform(0.0, _CITY_KM, (_SHELTERS, 2))
        within = distances_km(self.report_km, self.shelters_km) <= SHELTER_KM
        self._shelter_bytes = _SHELTER_BYTES * within.sum(axis=1)

    def _choices(self, subscribers: int, rng: np.random.Generator) -> list[Ints]:
        """What each subscriber asks for, as numbers of distinct subscriptions, which are made as they are met."""
        known: dict[Asked, int] = {}
        popular = 1.0 / np.arange(1, _PLACES + 1)
        popular /= popular.sum()
        chosen = []
        for user in range(subscribers):
            mine: list[int] = []
            for number in rng.choice(len(CHANNELS), rng.integers(1, 6), replace=False).tolist():
                asked = _asked(CHANNELS[number], user, int(rng.integers(1, 4)), popular, rng)
                mine += [known.setdefault(Asked(number, *each), len(known)) for each in asked]
            chosen.append(np.array(mine))
        self.asked = tuple(known)
        columns = list(zip(*known, strict=True))
        self._channel, self._kind, self._place, self._user = (np.array(column) for column in columns[:4])
        self._radius_km = np.array(columns[4])
        return chosen

    def walk(self, at_s: float) -> None:
        """Along one axis first and then along the other, as streets are; then to another place."""
        left = self._speed * max(0.0, at_s - self._walked_s)
        self._walked_s = max(at_s, self._walked_s)
        for axis in (0, 1):
            way = self._towards_km[:, axis] - self.at_km[:, axis]
            gone = np.minimum(np.abs(way), left)
            self.at_km[:, axis] += np.sign(way) * gone
            left -= gone
        there = left > 0.0
        self._towards_km[there] = self.places_km[self._walk.integers(0, _PLACES, int(there.sum()))]


def _asked(
    channel: ChannelShape, user: int, count: int, popular: Floats, rng: np.random.Generator
) -> list[tuple[int, int, int, float]]:
    """So many different (type, place, user, radius) for one channel."""
    if channel.near:
        return [(ANY, ANY, user, radius) for radius in rng.choice(_NEAR_KM, count, replace=False).tolist()]
    found: dict[tuple[int, int, int, float], None] = {}
    while len(found) < count:
        kind = int(rng.integers(_TYPES)) if channel.typed else ANY
        place = int(rng.choice(_PLACES, p=popular)) if channel.placed else ANY
        found[kind, place, ANY, PLACE_KM if channel.placed else np.inf] = None
    return list(found)
