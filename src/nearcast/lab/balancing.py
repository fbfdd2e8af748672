"""A crowd on a few brokers, under a first placement and a policy for homes, at flow level.

Every tick the results of the channels that are due are counted, who comes gets a home, and every 10 s the policy sees
brokers, homes, subscriptions and rates as moving averages over a minute, as in section 6.1.2 of BAD. What it wants
moved is at its new home at once. Loads are those of equation 5, as they were seen before each plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nearcast.control.rates import MovingRates
from nearcast.domain.homes import Homes, cov_of
from nearcast.domain.load import BrokerReport
from nearcast.domain.plan import Plan
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.lab.workloads.crowd import Crowd, Workload
from nearcast.policies.bad import SHUFFLED
from nearcast.policies.placements import Arrival, placement_named
from nearcast.policies.registry import policy_named
from nearcast.policies.settings import Balancing, Settings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PLAN_S = 10.0
_WINDOW_S = 60.0
NO_BALANCING = "none"


@dataclass(frozen=True, slots=True)
class Case:
    """What is done with a crowd. `policy` 'none': nothing after the first placement."""

    placement: str
    policy: str = NO_BALANCING
    balancing: Balancing = field(default_factory=Balancing)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """At each planning (rows): loads (a column per broker), how many subscribers moved, and whether all were shuffled.

    `homes`: how many subscribers each broker had in the end; `placed`: how many when the last had come.
    """

    at_s: Floats
    load: Floats
    moved: Ints
    shuffled: NDArray[np.bool_]
    placed: Ints
    homes: Ints

    @property
    def cov(self) -> Floats:
        return np.array([cov_of(row) for row in self.load])

    @property
    def max_load(self) -> Floats:
        return np.asarray(self.load.max(axis=1))

    @property
    def total(self) -> Floats:
        return np.asarray(self.load.sum(axis=1))


def play(make: Callable[[int], Workload], cases: Sequence[Case], tick_s: float, end_s: float, seed: int) -> list[Run]:
    """A run per case, all with the same crowd and the same results."""
    workload = make(seed)
    results = [(at_s, *workload.results(at_s)) for at_s in np.arange(0.0, end_s + tick_s / 2, tick_s).tolist()]
    return [_run(_Stage(workload.crowd, case, tick_s, seed), results) for case in cases]


def _run(stage: _Stage, results: Sequence[tuple[float, Ints, Floats]]) -> Run:
    rows = []
    for at_s, keys, size_bytes in results:
        stage.count(at_s, keys, size_bytes)
        stage.welcome(at_s)
        if at_s % PLAN_S == 0.0:
            rows.append((at_s, *stage.plan(at_s)))
    at, load, moved, shuffled = zip(*rows, strict=True)
    brokers = stage.crowd.brokers
    return Run(
        np.array(at),
        np.array(load),
        np.array(moved),
        np.array(shuffled),
        np.bincount(stage.placed, minlength=brokers),
        np.bincount(stage.home, minlength=brokers),
    )


class _Stage:
    def __init__(self, crowd: Crowd, case: Case, tick_s: float, seed: int) -> None:
        self.crowd = crowd
        self._case = case
        self._place = placement_named(case.placement)
        self._rates = MovingRates(_WINDOW_S, tick_s)
        self._chance = np.random.default_rng((seed, 5)).random(len(crowd.login_s))
        self._come = np.argsort(crowd.login_s, kind="stable")
        self._here = 0
        self.home = np.full(len(crowd.login_s), -1)
        self.placed = self.home
        self._names = np.array([f"s{number:06}" for number in range(len(self.home))], dtype=object)
        self._keys = tuple(f"k{number:05}" for number in range(crowd.keys))
        self._owner = np.repeat(np.arange(len(self.home)), np.diff(crowd.first))
        brokers = tuple(f"broker-{number + 1:02}" for number in range(crowd.brokers))
        reports = [BrokerReport(name, 0.0, 0.0, 1e12) for name in brokers]
        self._seen = Snapshot.of(reports, {}, Ring(brokers), at_s=0.0)

    def count(self, at_s: float, keys: Ints, size_bytes: Floats) -> None:
        self._rates.add(at_s, keys, size_bytes)

    def welcome(self, at_s: float) -> None:
        """Who has come since gets a first home; loads are those of now, with what their subscribers have so far."""
        crowd = self.crowd
        last = int(np.searchsorted(crowd.login_s[self._come], at_s, side="right"))
        if last == self._here:
            return
        load = self._homes(at_s).loads(crowd.brokers)
        for number in range(self._here, last):
            who = self._come[number]
            arrival = Arrival(load, crowd.distance_km[who], number, float(self._chance[who]))
            self.home[who] = self._place(arrival)
        self._here = last
        self.placed = self.home.copy()

    def plan(self, at_s: float) -> tuple[Floats, int, bool]:
        homes = self._homes(at_s)
        load = homes.loads(self.crowd.brokers)
        if self._case.policy == NO_BALANCING:
            return load, 0, False
        seen = replace(self._seen, at_s=at_s, homes=homes)
        plan = policy_named(self._case.policy)(seen, Settings(balancing=self._case.balancing), at_s)
        index = {name: number for number, name in enumerate(seen.brokers)}
        for step in plan.homes:
            self.home[int(step.subscriber[1:])] = index[step.broker]
        return load, len(plan.homes), _shuffles(plan)

    def _homes(self, at_s: float) -> Homes:
        """Those who are there, with what they have subscribed to so far."""
        crowd = self.crowd
        here = self.home >= 0
        kept = here[self._owner] & (crowd.since_s <= at_s)
        count = np.bincount(self._owner[kept], minlength=len(here))[here]
        return Homes.among(
            subscribers=tuple(self._names[here].tolist()),
            home=self.home[here],
            keys=self._keys,
            rate=self._rates.rates(at_s, crowd.keys),
            first=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(count))),
            key=crowd.key[kept],
        )


def _shuffles(plan: Plan) -> bool:
    return any(reason.startswith(SHUFFLED) for reason in plan.reasons)
