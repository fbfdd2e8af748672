"""The simulation of BAD, section 6.2: many subscribers, few distinct subscriptions, rates that rise and fall.

From the paper: 10 brokers, 10,000 subscribers, 10 channels with 100 distinct subscriptions each and periods of 5, 10,
20, 30 and 60 s, 10 to 30 subscriptions per subscriber, all made in the first 8 minutes, normal rates; every minute a
quarter of the subscriptions is chosen, whose rates rise within 3 minutes and fall again after 4 to 6. Ours are the
rates themselves (15 kB/s on average, so that the mean load of a broker passes the paper's 300 MB/s while people
subscribe), that a rate rises to 1.5 to 3 times what it was, and that one which is chosen while it waits or is up stays
as it is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.workloads.crowd import Crowd, distances_km, skewed, spread_evenly, subscribed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BROKERS, SUBSCRIBERS = 10, 10_000
LAST_SUBSCRIPTION_S, END_S = 480.0, 1800.0
TICK_S = 5.0

_REGION_KM = np.array([10.0, 10.0])
_PERIODS_S = np.repeat((5.0, 10.0, 20.0, 30.0, 60.0), 2)
_PER_CHANNEL = 100
_KEYS = len(_PERIODS_S) * _PER_CHANNEL
_MEAN, _DEVIATION = 15e3, 4e3  # bytes a second
_CHOSEN_EVERY_S, _CHOSEN = 60.0, 0.25
_RISES_S, _FALLS_S, _FACTOR = (0.0, 180.0), (240.0, 360.0), (1.5, 3.0)


class Fluctuating:
    """One half hour. Asked for `results` in the order of time."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng((seed, 3))
        chosen = [rng.choice(_KEYS, rng.integers(10, 31), replace=False) for _ in range(SUBSCRIBERS)]
        since_s = [rng.uniform(0.0, LAST_SUBSCRIPTION_S, len(each)) for each in chosen]
        first, key, since = subscribed(chosen, since_s)
        people, brokers = skewed(SUBSCRIBERS, _REGION_KM, rng), spread_evenly(BROKERS, _REGION_KM, rng)
        self.crowd = Crowd(np.zeros(SUBSCRIBERS), distances_km(people, brokers), first, key, since, _KEYS)
        self._rng = np.random.default_rng((seed, 4))
        self._period_s = np.repeat(_PERIODS_S, _PER_CHANNEL)
        self._rise_s = np.full(_KEYS, np.inf)
        self._fall_s = np.full(_KEYS, np.inf)
        self._factor = np.ones(_KEYS)

    def results(self, at_s: float) -> tuple[Ints, Floats]:
        if at_s % _CHOSEN_EVERY_S == 0.0:
            self._choose(at_s)
        over = self._fall_s <= at_s
        self._rise_s[over] = self._fall_s[over] = np.inf
        due = np.flatnonzero(at_s % self._period_s == 0.0)
        rate = np.maximum(self._rng.normal(_MEAN, _DEVIATION, len(due)), 0.0)
        risen = np.where(self._rise_s[due] <= at_s, self._factor[due], 1.0)
        return due, rate * risen * self._period_s[due]

    def _choose(self, at_s: float) -> None:
        chosen = self._rng.choice(_KEYS, round(_CHOSEN * _KEYS), replace=False)
        chosen = chosen[np.isinf(self._rise_s[chosen])]
        self._rise_s[chosen] = at_s + self._rng.uniform(*_RISES_S, len(chosen))
        self._fall_s[chosen] = self._rise_s[chosen] + self._rng.uniform(*_FALLS_S, len(chosen))
        self._factor[chosen] = self._rng.uniform(*_FACTOR, len(chosen))
