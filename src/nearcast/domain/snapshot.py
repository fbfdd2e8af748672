"""All that a policy may see: brokers, the routes of topics, the load of every topic at every broker, and who has which
home.

Inside it is arrays, so that a policy can plan 100,000 topics on 1,000 brokers in seconds. Brokers and topics are sorted
by name and named by their index, so that snapshots of the same facts are alike in whatever order the facts came.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.area import Area
from nearcast.domain.errors import SnapshotError
from nearcast.domain.homes import Homes
from nearcast.domain.load import UNKNOWN, BrokerReport, Resources, TopicLoad
from nearcast.domain.places import Places
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring, topic_positions
from nearcast.domain.route import Route, Strategy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_Array = TypeVar("_Array", Floats, Ints, Bools)

STRATEGIES = tuple(Strategy)
"""`Snapshot.strategy` holds indices of this."""

RESOURCES = ("cores", "memory_bytes", "out_messages_per_s")
"""The columns of `Snapshot.used` and `Snapshot.most`."""

_RATES = ("publications", "deliveries", "bytes_in", "bytes_out")
_COUNTS = ("publishers", "subscribers")


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Loads of topics at brokers: row i is topic `topic[i]` at broker `broker[i]`; sorted by broker, then topic."""

    broker: Ints
    topic: Ints
    publications: Floats
    deliveries: Floats
    bytes_in: Floats
    bytes_out: Floats
    publishers: Ints
    subscribers: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Build one with `Snapshot.of`. The arrays are read-only.

    A broker is `silent` when it is known (from a route, the ring, or as draining) and has not reported: its capacity
    and load are given as 0 and mean nothing. `epoch` is -1 for a topic that no route names; its `strategy` and brokers
    are then those of the ring. Topic i is on the brokers `members[first[i]:first[i + 1]]`.

    `used` and `most` have a row per broker and a column for each of RESOURCES; NaN where nobody knows.

    `planned_s`: when a plan last changed routes. `renting`: servers that were ordered and have not reported yet.
    `places`: where brokers and clients are, if that is known. `homes`: the subscribers of channels, if there are any,
    by the indices of `brokers`. `processing`: what it takes, if any topic is processed. `area`: the clients of topics
    that are processed at their homes, if there are any.
    `held`: topics that policies for promises and for homes leave where they are, since they have moved too lately or
    not all of their clients are known. `relieved`: brokers that topics have left for their load, too lately for that to
    show in the processors and memory that they use.
    The capacity of a broker that has not said what it can send is infinite.
    """

    at_s: float
    planned_s: float | None
    renting: int
    ring: Ring
    brokers: tuple[str, ...]
    sites: tuple[str, ...]
    reported_s: Floats
    capacity: Floats
    out: Floats
    used: Floats
    most: Floats
    draining: Bools
    silent: Bools
    topics: tuple[str, ...]
    epoch: Ints
    strategy: Ints
    first: Ints
    members: Ints
    entries: Entries
    held: Bools
    relieved: Bools
    places: Places | None = None
    homes: Homes | None = None
    processing: Processing | None = None
    area: Area | None = None

    @classmethod
    def of(
        cls,
        reports: Iterable[BrokerReport],
        routes: Mapping[str, Route],
        ring: Ring,
        *,
        at_s: float,
        sites: Mapping[str, str] | None = None,
        draining: Collection[str] = (),
        planned_s: float | None = None,
        renting: int = 0,
        named: Collection[str] = (),
        held: Collection[str] = (),
        relieved: Collection[str] = (),
        places: Places | None = None,
    ) -> Self:
        """One report per broker; a broker without a site gets ''. Raises SnapshotError where the facts contradict.

        `named`: topics that are there besides those with a route or a load.
        """
        by_name = _by_name(reports)
        routed = chain.from_iterable(route.brokers for route in routes.values())
        brokers = tuple(sorted({*by_name, *ring.brokers, *routed, *draining}))
        if renting < 0:
            raise SnapshotError(f"snapshot: renting is {renting}; it is a number of servers")
        kept = [by_name.get(name) for name in brokers]
        loads = [_sorted_loads(report) if report else [] for report in kept]
        topics = tuple(sorted({*routes, *named, *(load.topic for each in loads for load in each)}))
        epoch, strategy, first, members = _routes_of(topics, routes, ring, brokers)
        return cls(
            at_s=at_s,
            planned_s=planned_s,
            renting=renting,
            ring=ring,
            brokers=brokers,
            sites=tuple((sites or {}).get(name, "") for name in brokers),
            reported_s=_floats([report.at_s if report else 0.0 for report in kept]),
            capacity=_floats([report.capacity_bytes_per_s if report else 0.0 for report in kept]),
            out=_floats([report.out_bytes_per_s if report else 0.0 for report in kept]),
            used=_resources([report.used if report else UNKNOWN for report in kept]),
            most=_resources([report.most if report else UNKNOWN for report in kept]),
            draining=_bools([name in draining for name in brokers]),
            silent=_bools([report is None for report in kept]),
            topics=topics,
            epoch=epoch,
            strategy=strategy,
            first=first,
            members=members,
            entries=_entries_of(brokers, topics, loads),
            held=_bools([topic in held for topic in topics]),
            relieved=_bools([name in relieved for name in brokers]),
            places=_fitting(places, brokers, topics),
        )

    @property
    def usable(self) -> Bools:
        """Brokers that may be given something: they report and are not being drained."""
        return ~(self.draining | self.silent)

    @property
    def load_ratios(self) -> Floats:
        """Measured outgoing bandwidth over capacity (Dynamoth's equation 1); 0 for a silent broker."""
        return np.divide(self.out, self.capacity, out=np.zeros_like(self.out), where=~self.silent)

    def brokers_of(self, topic: int) -> tuple[str, ...]:
        """The brokers of one topic, by route or by ring."""
        return tuple(self.brokers[at] for at in self.members[self.first[topic] : self.first[topic + 1]].tolist())

    def strategy_of(self, topic: int) -> Strategy:
        return STRATEGIES[int(self.strategy[topic])]

    def routes(self) -> dict[str, Route]:
        """The routes that this snapshot was made of."""
        named = np.flatnonzero(self.epoch >= 0).tolist()
        return {self.topics[at]: Route(int(self.epoch[at]), self.strategy_of(at), self.brokers_of(at)) for at in named}

    def reports(self) -> list[BrokerReport]:
        """The reports that this snapshot was made of, with brokers and topics sorted."""
        of = self.entries
        columns = (getattr(of, name).tolist() for name in (*_RATES, *_COUNTS))
        loads = [TopicLoad(self.topics[at], *row) for at, *row in zip(of.topic.tolist(), *columns, strict=True)]
        starts = np.searchsorted(of.broker, np.arange(len(self.brokers) + 1)).tolist()
        return [
            BrokerReport(
                name,
                float(self.reported_s[at]),
                float(self.out[at]),
                float(self.capacity[at]),
                tuple(loads[starts[at] : starts[at + 1]]),
                _resources_in(self.used[at]),
                _resources_in(self.most[at]),
            )
            for at, name in enumerate(self.brokers)
            if not self.silent[at]
        ]


def _fitting(places: Places | None, brokers: tuple[str, ...], topics: tuple[str, ...]) -> Places | None:
    if places is not None and (len(places.brokers), len(places.bound_s)) != (len(brokers), len(topics)):
        raise SnapshotError(
            f"snapshot: places of {len(places.brokers)} brokers and {len(places.bound_s)} topics; "
            f"there are {len(brokers)} and {len(topics)}"
        )
    return places


def _by_name(reports: Iterable[BrokerReport]) -> dict[str, BrokerReport]:
    found: dict[str, BrokerReport] = {}
    for report in reports:
        if report.broker in found:
            raise SnapshotError(f"snapshot: broker {report.broker!r} has two reports; keep one of them")
        if not report.capacity_bytes_per_s > 0:
            raise SnapshotError(
                f"snapshot: broker {report.broker!r} has a capacity of {report.capacity_bytes_per_s} bytes/s; "
                "it must be more than 0"
            )
        if not 0 <= report.out_bytes_per_s < math.inf:
            raise SnapshotError(
                f"snapshot: broker {report.broker!r} has out_bytes_per_s {report.out_bytes_per_s}; "
                "it must be finite and not negative"
            )
        for name, value in asdict(report.used).items():
            if value is not None and not 0 <= value < math.inf:
                raise SnapshotError(f"snapshot: broker {report.broker!r} uses {name} {value}; it must be finite")
        for name, value in asdict(report.most).items():
            if value is not None and not 0 < value < math.inf:
                raise SnapshotError(
                    f"snapshot: broker {report.broker!r} may use {name} {value}; it must be more than 0 and finite"
                )
        found[report.broker] = report
    return found


def _sorted_loads(report: BrokerReport) -> list[TopicLoad]:
    loads = sorted(report.topics, key=lambda load: load.topic)
    for load, after in pairwise(loads):
        if load.topic == after.topic:
            raise SnapshotError(f"snapshot: broker {report.broker!r} reports topic {load.topic!r} twice")
    return loads


def _entries_of(brokers: tuple[str, ...], topics: tuple[str, ...], loads: list[list[TopicLoad]]) -> Entries:
    index = {topic: at for at, topic in enumerate(topics)}
    flat = list(chain.from_iterable(loads))
    entries = Entries(
        broker=_fixed(np.repeat(np.arange(len(brokers)), [len(each) for each in loads])),
        topic=_ints([index[load.topic] for load in flat]),
        publications=_floats([load.publications for load in flat]),
        deliveries=_floats([load.deliveries for load in flat]),
        bytes_in=_floats([load.bytes_in for load in flat]),
        bytes_out=_floats([load.bytes_out for load in flat]),
        publishers=_ints([load.publishers for load in flat]),
        subscribers=_ints([load.subscribers for load in flat]),
    )
    for name in (*_RATES, *_COUNTS):
        values = getattr(entries, name)
        for at in np.flatnonzero(~((values >= 0) & (values < math.inf))).tolist():
            raise SnapshotError(
                f"snapshot: broker {brokers[entries.broker[at]]!r}, topic {flat[at].topic!r}: {name} is {values[at]}; "
                "it must be finite and not negative"
            )
    return entries


def _routes_of(
    topics: tuple[str, ...], routes: Mapping[str, Route], ring: Ring, brokers: tuple[str, ...]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Per topic: epoch, strategy, and where its brokers start; then all brokers, in the order of topics."""
    index = {name: at for at, name in enumerate(brokers)}
    code = {strategy: at for at, strategy in enumerate(STRATEGIES)}
    epoch = np.full(len(topics), -1, dtype=np.int64)
    strategy = np.full(len(topics), code[Strategy.SINGLE], dtype=np.int64)
    sizes = np.ones(len(topics), dtype=np.int64)
    routed = [at for at, topic in enumerate(topics) if topic in routes]
    named = [routes[topics[at]] for at in routed]
    epoch[routed] = [route.epoch for route in named]
    strategy[routed] = [code[route.strategy] for route in named]
    sizes[routed] = [len(route.brokers) for route in named]
    first = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    by_ring = epoch < 0
    members = np.empty(int(first[-1]), dtype=np.int64)
    # The rows of a topic lie together, and so do those of all topics with a route, in the order of `named`.
    members[np.repeat(~by_ring, sizes)] = [index[name] for route in named for name in route.brokers]
    in_ring = np.array([index[name] for name in ring.brokers])
    positions = topic_positions(topic for topic in topics if topic not in routes)
    members[np.repeat(by_ring, sizes)] = in_ring[ring.owner_indices(positions)]
    return _fixed(epoch), _fixed(strategy), _fixed(first), _fixed(members)


def _resources(values: list[Resources]) -> Floats:
    rows = [[getattr(each, name) for name in RESOURCES] for each in values]
    return _fixed(np.array(rows, dtype=np.float64).reshape(-1, len(RESOURCES)))  # None becomes NaN


def _resources_in(row: Floats) -> Resources:
    return Resources(*(None if math.isnan(value) else value for value in row.tolist()))


def _floats(values: list[float]) -> Floats:
    return _fixed(np.array(values, dtype=np.float64))


def _ints(values: list[int]) -> Ints:
    return _fixed(np.array(values, dtype=np.int64))


def _bools(values: list[bool]) -> Bools:
    return _fixed(np.array(values, dtype=np.bool_))


def _fixed(values: _Array) -> _Array:
    values.flags.writeable = False
    return values
