"""What the agents report, as commands ask the leader for it."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass

from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost
from nearcast.domain.load import UNKNOWN, Resources, TopicLoad
from nearcast.domain.route import Strategy
from nearcast.transport.config import Config
from nearcast.wire.control import Loaded, Status

Loads = Mapping[str, Loaded]
"""By broker; those that have not reported are missing."""


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """`load_ratio` is None where no capacity is configured. `counted_bytes_per_s`: what its topics' clients counted.

    `used` and `most`: its processors, its memory, and the messages that it sends; each None where it is not known.
    """

    out_bytes_per_s: float
    capacity_bytes_per_s: float | None
    load_ratio: float | None
    counted_bytes_per_s: float
    topics: int
    age_s: float
    used: Resources = UNKNOWN
    most: Resources = UNKNOWN


@dataclass(frozen=True, slots=True)
class LoadAt:
    """One topic at one broker, per second."""

    broker: str
    publications: float
    deliveries: float
    bytes_in: float
    bytes_out: float
    publishers: int
    subscribers: int


async def loads_of(config: Config, operator: Operator, status: Status) -> Loads:
    """Of every agent that the leader knows. Empty in a fleet that does not report, or when the leader is lost."""
    if not config.counts:
        return {}
    brokers = [each.broker for each in status.agents if each.present]
    try:
        asked = await asyncio.gather(*(operator.load(broker) for broker in brokers))
    except LeaseLost:
        return {}
    return {broker: each for broker, each in zip(brokers, asked, strict=True) if each.load is not None}


def broker_load(loaded: Loaded | None) -> BrokerLoad | None:
    if loaded is None or loaded.load is None:
        return None
    report, load = loaded.load.report, loaded.load
    topics = report.topics if load.rest is None else (*report.topics, load.rest)
    known = report.capacity_bytes_per_s < math.inf
    return BrokerLoad(
        round(report.out_bytes_per_s, 1),
        report.capacity_bytes_per_s if known else None,
        round(report.load_ratio, 4) if known else None,
        round(sum(each.bytes_out for each in topics), 1),
        len(report.topics) + load.left_out,
        round(loaded.age_s, 2),
        Resources(*(None if each is None else round(each, 4) for each in astuple(report.used))),
        report.most,
    )


def topic_loads(loads: Loads) -> dict[str, list[LoadAt]]:
    """By topic. Topics that a broker left out of its report for their number are missing."""
    found: dict[str, list[LoadAt]] = {}
    for broker, loaded in loads.items():
        for each in loaded.load.report.topics if loaded.load is not None else ():
            found.setdefault(each.topic, []).append(_load_at(broker, each))
    return found


def load_facts(loads: list[LoadAt], strategy: str) -> dict[str, object]:
    """Of a topic at all its brokers: who sends to, or listens at, each of them is counted once."""
    sending: Callable[[list[float]], float] = max if strategy == Strategy.ALL_PUBLISHERS else sum
    listening: Callable[[list[float]], float] = max if strategy == Strategy.ALL_SUBSCRIBERS else sum
    return {
        "publications_hz": round(sending([0.0, *(each.publications for each in loads)]), 3),
        "deliveries_hz": round(sum(each.deliveries for each in loads), 3),
        "bytes_in_per_s": round(sending([0.0, *(each.bytes_in for each in loads)]), 1),
        "bytes_out_per_s": round(sum(each.bytes_out for each in loads), 1),
        "publishers": sending([0, *(each.publishers for each in loads)]),
        "subscribers": listening([0, *(each.subscribers for each in loads)]),
        "loads": loads,
    }


def _load_at(broker: str, load: TopicLoad) -> LoadAt:
    return LoadAt(
        broker,
        round(load.publications, 3),
        round(load.deliveries, 3),
        round(load.bytes_in, 1),
        round(load.bytes_out, 1),
        load.publishers,
        load.subscribers,
    )
