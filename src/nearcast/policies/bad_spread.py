"""Homes while they are being changed: loads follow every move by equation 5, at the cost of that subscriber alone.

Subscribers are ranked by what is sent to them (`weight`, u_i of Algorithm 1), the heaviest first, equal ones by name.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.homes import Homes, cov_of, loads_of
from nearcast.domain.rows import entries_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Spread:
    """`usable`: the brokers that are balanced. `count` is n_jk, `load` is F_j, `home` is as far as it has come. Who is
    `taken` is nowhere until given to a broker.
    """

    __slots__ = ("_at_home", "_rank", "count", "home", "homes", "load", "ranked", "usable", "weight")

    def __init__(self, homes: Homes, usable: Bools, taken: Bools | None = None) -> None:
        self.homes = homes
        self.usable = np.flatnonzero(usable)
        self.weight = homes.weights()
        self.ranked = np.argsort(-self.weight, kind="stable")
        self._rank = np.empty(len(self.ranked), dtype=np.int64)
        self._rank[self.ranked] = np.arange(len(self.ranked))
        self.home = homes.home.copy()
        self.count = homes.counts(len(usable), without=taken)
        self.load = loads_of(self.count, homes.rate)
        by_home = (self.home if taken is None else np.where(taken, -1, self.home))[self.ranked]
        self._at_home = [np.flatnonzero(by_home == broker).tolist() for broker in range(len(usable))]

    @property
    def mean(self) -> float:
        return float(self.load[self.usable].mean())

    @property
    def cov(self) -> float:
        return cov_of(self.load[self.usable])

    @property
    def heaviest(self) -> int:
        return int(self.usable[self.load[self.usable].argmax()])

    @property
    def lightest(self) -> int:
        return int(self.usable[self.load[self.usable].argmin()])

    def receiver(self, subscriber: int) -> int:
        """The broker that carries least; for one to whom nothing is sent, the one with the fewest subscribers."""
        if self.weight[subscriber] > 0.0:
            return self.lightest
        return min(self.usable.tolist(), key=lambda broker: len(self._at_home[broker]))

    def at_home(self, broker: int) -> Ints:
        """The subscribers of a broker, the heaviest first."""
        return self.ranked[self._at_home[broker]]

    def some_at_home(self, broker: int, start: int, stop: int) -> Ints:
        """As many of them, without looking at the others."""
        return self.ranked[self._at_home[broker][start:stop]]

    def shared(self, subscribers: Ints, brokers: Ints) -> Floats:
        """sim_j of Algorithm 1: the bytes a second that each broker (rows) pulls already of what each subscriber
        (columns) has subscribed to.
        """
        row, entry = entries_of(self.homes.first, subscribers)
        key = self.homes.key[entry]
        pulled = (self.count[np.ix_(brokers, key)] > 0) * self.homes.rate[key]
        return np.stack([np.bincount(row, each, len(subscribers)) for each in pulled])

    def alone(self, subscribers: Ints) -> Floats:
        """What each subscriber's home would not pull any more without that one: nobody else there has it."""
        row, entry = entries_of(self.homes.first, subscribers)
        key = self.homes.key[entry]
        only = self.count[self.home[subscribers][row], key] == 1
        return np.bincount(row, only * self.homes.rate[key], len(subscribers)).astype(np.float64)

    def move(self, subscriber: int, broker: int) -> None:
        """Its home loses it, and stops to pull what nobody else has there; the broker gets it."""
        key, home = self._keys(subscriber), int(self.home[subscriber])
        count = self.count[home, key]
        self.load[home] -= self.weight[subscriber] + self.homes.rate[key[count == 1]].sum()
        self.count[home, key] = count - 1
        ranks = self._at_home[home]
        del ranks[bisect_left(ranks, self._rank[subscriber])]
        self.give(subscriber, broker)

    def give(self, subscriber: int, broker: int) -> None:
        """One that is nowhere."""
        key = self._keys(subscriber)
        count = self.count[broker, key]
        self.load[broker] += self.weight[subscriber] + self.homes.rate[key[count == 0]].sum()
        self.count[broker, key] = count + 1
        insort(self._at_home[broker], int(self._rank[subscriber]))
        self.home[subscriber] = broker

    def _keys(self, subscriber: int) -> Ints:
        return self.homes.key[self.homes.first[subscriber] : self.homes.first[subscriber + 1]]
