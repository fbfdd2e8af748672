"""What clients ask of brokers under given routes: messages a second per topic and broker, as dense arrays.

Rows are topics and columns are brokers, in the order of the `RouteTable`. Dense, so a model of T topics and B brokers
holds a few arrays of T x B numbers: thousands by hundreds are no matter, 100,000 by 1,000 are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.route import Route, Strategy

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Crowd:
    """The clients of one moment, one entry each: the topic they are on, what they publish, whether they listen.

    `key` decides, as in `Route`, which broker of several a client sticks to. `rtt_ms` is to any broker and back: all of
    them are in one cloud.
    """

    topic: Ints
    key: NDArray[np.int64]
    rate_hz: Floats
    listens: Bools
    rtt_ms: Floats


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Routes as arrays. `brokers` has a row per topic, filled up with the first broker; `size` says how many count."""

    brokers: Ints
    size: Ints
    member: Bools
    all_subscribers: Bools
    all_publishers: Bools

    @classmethod
    def of(cls, routes: Mapping[str, Route], topics: Sequence[str], brokers: Sequence[str]) -> "RouteTable":
        """The table of `topics` in that order. ValueError for a strategy that this model does not have."""
        column = {name: at for at, name in enumerate(brokers)}
        chosen = [routes[topic] for topic in topics]
        if any(route.strategy is Strategy.HOMED for route in chosen):
            raise ValueError("the flow model has no homed routes")
        widest = max((len(route.brokers) for route in chosen), default=1)
        rows = np.array(
            [
                [column[name] for name in route.brokers] + [column[route.brokers[0]]] * (widest - len(route.brokers))
                for route in chosen
            ],
            dtype=np.intp,
        ).reshape(len(chosen), widest)
        member = np.zeros((len(chosen), len(brokers)), dtype=np.bool_)
        member[np.arange(len(chosen))[:, None], rows] = True
        return cls(
            rows,
            np.array([len(route.brokers) for route in chosen], dtype=np.intp),
            member,
            np.array([route.strategy is Strategy.ALL_SUBSCRIBERS for route in chosen], dtype=np.bool_),
            np.array([route.strategy is Strategy.ALL_PUBLISHERS for route in chosen], dtype=np.bool_),
        )  # fmt: skip

    def sticks_to(self, crowd: Crowd) -> Ints:
        """The broker that each client sticks to: the only one, or the one its key chooses."""
        return np.asarray(self.brokers[crowd.topic, crowd.key % self.size[crowd.topic]])


@dataclass(frozen=True, slots=True)
class Offered:
    """What a crowd asks of every broker, per topic. Deliveries are copies: one for each who listens there."""

    publications_hz: Floats
    deliveries_hz: Floats
    publishers: Floats
    subscribers: Floats


def offered(crowd: Crowd, table: RouteTable) -> Offered:
    """The rates that follow from who is there and the routes."""
    shape = table.member.shape
    pair = crowd.topic * shape[1] + table.sticks_to(crowd)
    publishes = crowd.rate_hz > 0.0

    def per_pair(weights: NDArray[np.generic]) -> Floats:
        counted = np.bincount(pair, weights=weights.astype(np.float64), minlength=shape[0] * shape[1])
        return counted.astype(np.float64).reshape(shape)

    def everywhere(sticking: Floats, rows: Bools) -> Floats:
        return np.where(rows[:, None], sticking.sum(axis=1, keepdims=True) * table.member, sticking)

    publications = everywhere(per_pair(crowd.rate_hz), table.all_publishers)
    subscribers = everywhere(per_pair(crowd.listens), table.all_subscribers)
    publishers = everywhere(per_pair(publishes), table.all_publishers)
    return Offered(publications, publications * subscribers, publishers, subscribers)
