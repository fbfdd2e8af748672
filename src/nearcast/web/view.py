"""One look at a deployment, as the leader told it, and what is shown of it. Nothing here asks anybody."""

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np

from nearcast.domain.broker import Presence
from nearcast.domain.places import Bools, Floats, Spots
from nearcast.domain.route import Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import STRATEGIES, Snapshot
from nearcast.web import models
from nearcast.web.models import Kept
from nearcast.web.projection import Projection
from nearcast.wire.control import Loaded, Status
from nearcast.wire.homes import HomesTold
from nearcast.wire.promises import PromiseStanding
from nearcast.wire.rebalancing import Rebalancing


@dataclass(frozen=True)  # no slots: what is worked out is kept
class View:
    """`at_s`: when it was seen, in seconds since 1970. `loads`: newest reports by broker, of those that reported."""

    at_s: float
    status: Status
    snapshot: Snapshot
    standings: dict[str, PromiseStanding]
    loads: dict[str, Loaded]
    rebalancing: Rebalancing
    homes: HomesTold | None
    policy: str
    projection: Projection = field(default_factory=Projection)

    @cached_property
    def index(self) -> dict[str, int]:
        return {topic: at for at, topic in enumerate(self.snapshot.topics)}

    @cached_property
    def moving(self) -> frozenset[str]:
        return frozenset(self.status.moving)

    # Topics

    @cached_property
    def topics(self) -> list[models.Topic]:
        """All that are known, by name."""
        seen, sums = self.snapshot, self._sums
        by_ring, epochs = (seen.epoch < 0).tolist(), seen.epoch.tolist()
        return [
            self._topic(topic, at, by_ring[at], epochs[at], {name: values[at] for name, values in sums.items()})
            for at, topic in enumerate(seen.topics)
        ]

    @cached_property
    def _sums(self) -> dict[str, list[float]]:
        """Loads by topic: who sends to, or listens at, each of several brokers is counted once."""
        seen, of = self.snapshot, self.snapshot.entries
        count = len(seen.topics)
        copied_in = seen.strategy == STRATEGIES.index(Strategy.ALL_PUBLISHERS)
        heard_at_all = seen.strategy == STRATEGIES.index(Strategy.ALL_SUBSCRIBERS)

        def total(values: Floats, at_each: Bools) -> list[float]:
            most = np.zeros(count)
            np.maximum.at(most, of.topic, values)
            summed = np.bincount(of.topic, values, count)
            found: list[float] = np.where(at_each, most, summed).tolist()
            return found

        never = np.zeros(count, dtype=np.bool_)
        return {
            "publications_hz": total(of.publications, copied_in),
            "deliveries_hz": total(of.deliveries, never),
            "bytes_in_per_s": total(of.bytes_in, copied_in),
            "bytes_out_per_s": total(of.bytes_out, never),
            "publishers": total(of.publishers.astype(float), copied_in),
            "subscribers": total(of.subscribers.astype(float), heard_at_all),
        }

    def _topic(self, topic: str, at: int, by_ring: bool, epoch: int, sums: dict[str, float]) -> models.Topic:
        standing = self.standings.get(topic) or PromiseStanding(topic)
        bound_ms = Slo.parse(standing.slo).bound_ms if standing.slo else None
        known = [each for each in (standing.measured_ms, standing.worst_ms) if each is not None]
        return models.Topic(
            topic,
            self.snapshot.strategy_of(at),
            self.snapshot.brokers_of(at),
            max(0, epoch),
            by_ring,
            topic in self.moving,
            standing.slo,
            bound_ms,
            _kept(standing),
            standing.measured_ms,
            standing.samples,
            standing.uncertainty_ms,
            standing.worst_ms,
            round(max(known) / bound_ms, 4) if known and bound_ms else None,
            round(sums["publications_hz"], 2),
            round(sums["deliveries_hz"], 2),
            round(sums["bytes_in_per_s"], 1),
            round(sums["bytes_out_per_s"], 1),
            int(sums["publishers"]),
            int(sums["subscribers"]),
        )

    def topic(self, name: str) -> models.Topic | None:
        at = self.index.get(name)
        return None if at is None else self.topics[at]

    @cached_property
    def promises(self) -> models.Promised:
        found = Counter(_kept(each) for each in self.standings.values())
        return models.Promised(found["kept"], found["broken"], found["unknown"])

    # Brokers

    @cached_property
    def brokers(self) -> tuple[models.Broker, ...]:
        seen, of = self.snapshot, self.snapshot.entries
        count = len(seen.brokers)
        named = {name: at for at, name in enumerate(seen.brokers)}
        routed = np.bincount(seen.members, minlength=count)
        sums = {
            name: np.bincount(of.broker, getattr(of, name), count)
            for name in ("publications", "deliveries", "publishers", "subscribers")
        }
        agents = {each.broker: each for each in self.status.agents}
        residents = {each.broker: each.subscribers for each in self.homes.brokers} if self.homes else {}
        out = []
        for each in self.status.brokers:
            at, agent = named.get(each.name), agents.get(each.name)
            resources, sent = _NO_RESOURCES, _Sent()
            if at is not None and not seen.silent[at]:
                resources = _pairs(seen.used[at].tolist(), seen.most[at].tolist())
                sent = _Sent.of(float(seen.out[at]), float(seen.capacity[at]))
            out.append(
                models.Broker(
                    each.name,
                    each.state,
                    each.site,
                    each.url,
                    each.rented,
                    each.in_ring,
                    "present" if agent is not None and agent.present else "lost",
                    None if agent is None else round(agent.silent_s, 2),
                    each.left,
                    each.topics,
                    each.trouble,
                    0 if at is None else int(routed[at]),
                    0 if at is None else int(sums["publishers"][at]),
                    0 if at is None else int(sums["subscribers"][at]),
                    0.0 if at is None else round(float(sums["publications"][at]), 2),
                    0.0 if at is None else round(float(sums["deliveries"][at]), 2),
                    sent.bytes_per_s,
                    sent.capacity_bytes_per_s,
                    sent.load_ratio,
                    *resources,
                    self._handed(each.name),
                    residents.get(each.name, 0),
                )
            )
        return tuple(out)

    def _handed(self, broker: str) -> models.Handed | None:
        loaded = self.loads.get(broker)
        if loaded is None or loaded.load is None:
            return None
        cost = loaded.load.report.handed_over
        return models.Handed(cost.forwarded, cost.forwarded_bytes, cost.notices, cost.emptied_s)

    @cached_property
    def processors(self) -> tuple[models.Processor, ...]:
        """Of every topic that is processed, or was, at each broker."""
        found = [
            models.Processor(
                each.topic,
                broker,
                each.interval_ms,
                each.queue,
                each.processed,
                each.raised + each.hung + each.died,
                each.raised,
                each.hung,
                each.died,
                each.dropped,
                each.errors,
            )
            for broker, loaded in self.loads.items()
            if loaded.load is not None
            for each in loaded.load.report.processed
        ]
        return tuple(
            sorted(found, key=lambda each: (-each.queue, -each.failed - each.dropped, each.topic, each.broker))
        )

    @cached_property
    def balancedness(self) -> float | None:
        """The mean load ratio over the highest: 1 where all carry alike."""
        ratios = [each.load_ratio for each in self.brokers if each.load_ratio is not None]
        return round(sum(ratios) / len(ratios) / max(ratios), 4) if ratios and max(ratios) > 0 else None

    # The map

    def map(self, limit: int) -> models.Map:
        seen, places = self.snapshot, self.snapshot.places
        states = {each.name: each.state for each in self.status.brokers}
        most = sorted(self.topics, key=risk_first)[:limit]
        rows = np.array([self.index[each.topic] for each in most], dtype=np.int64)
        at: list[models.Point | None] = [None] * len(seen.brokers)
        sides: list[list[models.Point | None]] = [[None] * len(most)] * 2
        if places is not None:
            plane, laid = self.projection.fit(seen.brokers, places.brokers)
            at = _points(laid, places.brokers)
            sides = [_points(plane.lay(side[rows]), side[rows]) for side in (places.publishers, places.subscribers)]
        brokers = [
            models.MapBroker(name, seen.sites[number], states.get(name, Presence.PRESENT), at[number])
            for number, name in enumerate(seen.brokers)
        ]
        topics = [
            models.MapTopic(
                each.topic,
                each.promise,
                each.moving,
                each.brokers,
                sides[0][number],
                sides[1][number],
                each.publishers,
                each.subscribers,
            )
            for number, each in enumerate(most)
        ]
        return models.Map(tuple(brokers), tuple(topics), len(self.topics) - len(most))

    # The whole

    def told(self, served_by: str, age_s: float, trouble: str) -> models.Status:
        status = self.status
        return models.Status(
            served_by,
            status.leader,
            status.term,
            round(age_s, 2),
            trouble,
            len(self.snapshot.topics),
            len(status.moving),
            self.promises,
            len(status.brokers),
            tuple(each.broker for each in status.agents if not each.present),
            sum(each.publishers for each in self.brokers),
            sum(each.subscribers for each in self.brokers),
            round(float(self.snapshot.entries.publications.sum()), 2),
            round(float(self.snapshot.entries.deliveries.sum()), 2),
            self.balancedness,
            status.ring_version,
            status.ring,
            self.policy,
            self.rebalancing.automatic,
        )


def risk_first(each: models.Topic) -> tuple[float, float, str]:
    """What is nearest to its bound, or beyond it, first; then what is sent most."""
    return -(each.risk or 0.0), -each.bytes_out_per_s, each.topic


def _points(laid: Floats, spots: Spots) -> list[models.Point | None]:
    """From seconds to milliseconds; None where nobody is."""
    rows = zip((1e3 * laid).tolist(), (1e3 * spots.height).tolist(), strict=True)
    return [
        None if math.isnan(x + height) else models.Point(*(round(e, 3) for e in (x, y, height)))
        for (x, y), height in rows
    ]


def _kept(standing: PromiseStanding) -> Kept:
    if not standing.slo:
        return "none"
    return "unknown" if standing.kept is None else ("kept" if standing.kept else "broken")


_Resources = tuple[float | None, float | None, float | None, float | None, float | None, float | None]
_NO_RESOURCES: _Resources = (None, None, None, None, None, None)


def _pairs(used: list[float], most: list[float]) -> _Resources:
    """What is used and what there is, of each resource in turn."""
    found = [None if math.isnan(value) else round(value, 4) for pair in zip(used, most, strict=True) for value in pair]
    cores, most_cores, memory, most_memory, messages, most_messages = found
    return cores, most_cores, memory, most_memory, messages, most_messages


@dataclass(frozen=True, slots=True)
class _Sent:
    bytes_per_s: float | None = None
    capacity_bytes_per_s: float | None = None
    load_ratio: float | None = None

    @classmethod
    def of(cls, bytes_per_s: float, capacity: float) -> Self:
        if capacity == math.inf:
            return cls(round(bytes_per_s, 1))
        return cls(round(bytes_per_s, 1), capacity, round(bytes_per_s / capacity, 4))
