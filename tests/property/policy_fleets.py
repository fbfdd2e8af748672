"""Fleets of any shape for policies, what a plan makes of one by plain arithmetic, and carrying one out."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.load import UNKNOWN, BrokerReport, Resources, TopicLoad
from nearcast.domain.places import Clients, Measured, Spots, gathered
from nearcast.domain.plan import Plan
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy, route
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.settings import Replication, Settings

BROKERS = ("a", "b", "c", "d", "e", "f")
TOPICS = tuple(f"t{i:02}" for i in range(14))


@dataclass(frozen=True)
class Demand:
    """What one topic asks for, wherever it is."""

    publications: float
    subscribers: int
    bytes_out: float


@dataclass(frozen=True)
class Fleet:
    """Facts that do not contradict each other: every topic's load is where its route has it."""

    capacity: dict[str, float]
    other: dict[str, float]
    demands: dict[str, Demand]
    routes: dict[str, Route]
    ring: Ring
    draining: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    cost: float = 0.0  # of a processor, per message in or out
    most: Resources = UNKNOWN

    def route_of(self, topic: str) -> Route:
        return self.routes.get(topic) or route(0, Strategy.SINGLE, (self.ring.owner(topic),))

    def shares(self, topic: str) -> dict[str, float]:
        """Outgoing bytes per broker, spread evenly."""
        brokers = self.route_of(topic).brokers
        return {broker: self.demands[topic].bytes_out / len(brokers) for broker in brokers}

    def loads(self) -> dict[str, float]:
        found = {name: self.other[name] for name in self.capacity}
        for topic in self.demands:
            for broker, share in self.shares(topic).items():
                if broker in found:
                    found[broker] += share
        return found

    def ratios(self) -> dict[str, float]:
        return {name: load / self.capacity[name] for name, load in self.loads().items()}

    @property
    def usable(self) -> set[str]:
        return {name for name in self.capacity if name not in self.draining and name not in self.silent}

    def snapshot(self, shuffled: int | None = None) -> Snapshot:
        order = random.Random(shuffled)
        reports = []
        for name in self.capacity:
            if name in self.silent:
                continue
            topics = [_seen(self, topic, name) for topic in self.demands if name in self.route_of(topic).brokers]
            out = self.loads()[name]
            if shuffled is not None:
                order.shuffle(topics)
            messages = sum(each.publications + each.deliveries for each in topics)
            sent = sum(each.deliveries for each in topics)
            used = Resources(self.cost * messages, 10.0, sent)
            reports.append(BrokerReport(name, 0.0, out, self.capacity[name], tuple(topics), used, self.most))
        routes = list(self.routes.items())
        if shuffled is not None:
            order.shuffle(reports)
            order.shuffle(routes)
        return Snapshot.of(reports, dict(routes), self.ring, at_s=100.0, draining=self.draining)

    def after(self, plan: Plan) -> Fleet:
        """The fleet once the plan is carried out; a rented server has the capacity of the first."""
        rented = [f"x{len(self.capacity) + i}" for i in range(plan.rent)]
        gone = set(plan.release)
        capacity = {name: value for name, value in self.capacity.items() if name not in gone}
        typical = sorted(self.capacity.values())[len(self.capacity) // 2]
        return replace(
            self,
            capacity=capacity | dict.fromkeys(rented, typical),
            other={name: value for name, value in self.other.items() if name not in gone} | dict.fromkeys(rented, 0.0),
            routes=self.routes | {step.topic: step.route(9) for step in plan.steps},
            ring=self.ring if plan.ring is None else Ring(plan.ring, self.ring.version + 1, self.ring.vnodes),
        )


def _seen(fleet: Fleet, topic: str, broker: str) -> TopicLoad:
    demand, at = fleet.demands[topic], fleet.route_of(topic)
    share, count = fleet.shares(topic)[broker], len(at.brokers)
    publications, subscribers = demand.publications, demand.subscribers
    if at.strategy is Strategy.ALL_PUBLISHERS:
        first = broker == at.brokers[0]
        subscribers = subscribers // count + (subscribers % count if first else 0)
    elif at.strategy is Strategy.ALL_SUBSCRIBERS:
        publications /= count
    return TopicLoad(
        topic, publications, publications * subscribers, share / max(subscribers, 1), share, 1, subscribers
    )


def placed(seen: Snapshot) -> Snapshot:
    """With places that follow from the order of brokers and topics: some promises can be kept, and some cannot. Of half
    of the topics their own broker was measured, and some others. Clients of the topics have homes, or none yet.
    """
    count = len(seen.topics)
    topic = np.repeat(np.arange(count), 3)
    along = np.stack(((topic * 37 + np.arange(len(topic)) * 5) % 101, topic % 7), axis=1) / 1e3
    side = np.arange(len(topic)) % 3 == 0
    clients = Clients(topic, Spots(along, np.full(len(topic), 0.001)), side, ~side)
    brokers = np.zeros((len(seen.brokers), 2))
    brokers[:, 0] = np.arange(len(brokers)) * 29 % 101 / 1e3
    bound_s = np.array([np.inf, 0.02, 0.08])[np.arange(count) % 3]
    broker_of = seen.members[seen.first[:-1]]
    places = gathered(clients, Spots(brokers, np.zeros(len(brokers))), broker_of, bound_s)
    measured = [
        {at: (number * 31 + at * 17) % 101 / 1e3 for at in (own, *range(number % 3, len(brokers), 3))}
        if number % 2
        else {}
        for number, own in enumerate(broker_of.tolist())
    ]
    places = replace(places, measured=Measured.among([list(each.items()) for each in measured]))
    return replace(seen, places=places, processing=_processed(count), area=_area(seen, places.brokers))


def _area(seen: Snapshot, servers: Spots) -> Area:
    """Of eight clients: who publishes what, from where, follows from their number; servers are full with two topics."""
    clients, topics, brokers = 8, len(seen.topics), len(seen.brokers)
    wanted = [
        sorted({(3 * who + step * step) % topics for step in range(who % 4)}) if topics else []
        for who in range(clients)
    ]
    topic = np.array([each for mine in wanted for each in mine], dtype=np.int64)
    vec = np.stack([np.arange(clients) * 43 % 101, np.arange(clients) % 7], axis=1) / 1e3
    at = np.arange(len(topic))
    return Area(
        servers=servers,
        storage=np.where(np.arange(brokers) % 3 == 2, np.inf, 7.0),
        compute=np.full(brokers, 20.0),
        cloud_s=0.1,
        clients=tuple(f"c{who}" for who in range(clients)),
        at=Spots(vec, np.zeros(clients)),
        home=np.array([-1 if who % 3 == 0 else who % brokers for who in range(clients)], dtype=np.int64),
        first=np.concatenate(([0], np.cumsum([len(mine) for mine in wanted]))),
        topic=topic,
        publishes=at % 3 != 1,
        subscribes=at % 3 != 0,
        spool=(np.arange(topics) % 4 + 1).astype(np.float64),
    )


def _processed(count: int) -> Processing:
    """Three of four topics, of which some are late."""
    at = np.arange(count)
    interval_ms = np.array([np.nan, 10.0, 20.0, 40.0])[at % 4]
    bound_ms = np.array([1000.0, 300.0, np.inf])[at % 3]
    return Processing(interval_ms, bound_ms, np.where(at % 5 == 0, 1200.0, np.nan))


# Loads are whole numbers, so that sums do not depend on their order and ties are common.
_amounts = st.integers(0, 60).map(float) | st.sampled_from([0.0, 1.0, 5.0, 90.0, 130.0])
_demands = st.builds(
    Demand,
    publications=st.sampled_from([0.0, 1.0, 40.0, 60.0, 130.0, 900.0]),
    subscribers=st.sampled_from([0, 1, 5, 25, 260]),
    bytes_out=_amounts,
)


_limits = st.builds(
    Resources,
    cores=st.none() | st.sampled_from([500.0, 20_000.0]),
    memory_bytes=st.none() | st.just(1000.0),
    out_messages_per_s=st.none() | st.sampled_from([300.0, 10_000.0]),
)


@st.composite
def fleets(draw: st.DrawFn, *, drains: bool = True, silences: bool = True) -> Fleet:
    names = BROKERS[: draw(st.integers(1, len(BROKERS)))]
    topics = TOPICS[: draw(st.integers(0, len(TOPICS)))]
    routes = {}
    for topic in topics:
        strategy = draw(st.sampled_from([None, None, Strategy.SINGLE, Strategy.SINGLE, *Strategy]))
        if strategy is not None:
            most = 1 if strategy is Strategy.SINGLE else len(names)
            routes[topic] = route(
                1, strategy, draw(st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True))
            )
    some = st.lists(st.sampled_from(names), max_size=2, unique=True).map(tuple)
    return Fleet(
        capacity={name: draw(st.sampled_from([100.0, 100.0, 100.0, 50.0, 200.0])) for name in names},
        other={name: draw(st.sampled_from([0.0, 0.0, 0.0, 3.0, 95.0])) for name in names},
        demands={topic: draw(_demands) for topic in topics},
        routes=routes,
        ring=Ring(draw(st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)), vnodes=4),
        draining=draw(some) if drains else (),
        silent=draw(some) if silences else (),
        cost=1.0,
        most=draw(_limits),
    )


@st.composite
def all_settings(draw: st.DrawFn) -> Settings:
    least = draw(st.integers(1, 3))
    return Settings(
        min_brokers=least,
        max_brokers=draw(st.none() | st.integers(least, 8)),
        forward_messages_per_s=draw(st.sampled_from([1.0, 100.0, 1e9])),
        max_release=draw(st.integers(0, 3)),
        part_ratio=draw(st.sampled_from([0.0, 0.02, 0.1])),
        replication=Replication(
            all_subscribers_ratio=100.0,
            publications=50.0,
            all_publishers_ratio=10.0,
            subscribers=20,
            most=draw(st.integers(1, 5)),
        ),
    )
