"""What the agents report, as commands ask the leader for it."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass

from nearcast.cli.connect import operator_of
from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkError
from nearcast.domain.load import UNKNOWN, Handover, Resources, TopicLoad
from nearcast.domain.route import Strategy
from nearcast.transport.config import Config
from nearcast.wire.control import Loaded, Status

Loads = Mapping[str, Loaded]
"""By broker; those that have not reported are missing."""


@dataclass(frozen=True, slots=True)
class HandoverAt:
    """What moves have cost the agent of one broker since it started. `emptied_s` is None where nothing has left it."""

    broker: str
    forwarded: int
    forwarded_bytes: int
    notices: int
    emptied_s: float | None


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """`load_ratio` is None where no capacity is configured. `counted_bytes_per_s`: what its topics' clients counted.

    `used` and `most`: its processors, its memory, and the messages that it sends; each None where it is not known.
    `handed_over`: of all its topics together, with the longest time until it was empty of one.
    """

    out_bytes_per_s: float
    capacity_bytes_per_s: float | None
    load_ratio: float | None
    counted_bytes_per_s: float
    topics: int
    age_s: float
    handed_over: HandoverAt
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
        _handover_at(report.broker, report.handed_over),
        Resources(*(None if each is None else round(each, 4) for each in astuple(report.used))),
        report.most,
    )


async def loads_now(config: Config) -> Loads:
    """Empty when nobody leads: where topics are is known without."""
    try:
        async with asyncio.timeout(10), operator_of(config) as operator:
            return await loads_of(config, operator, await operator.status())
    except (LeaseLost, LinkError, TimeoutError):
        return {}


def handovers_of(topic: str, loads: Loads) -> list[HandoverAt]:
    """At every broker whose agent has something to tell of it."""
    found = ((broker, each) for broker, loaded in loads.items() if loaded.load for each in loaded.load.report.handovers)
    return [_handover_at(broker, each) for broker, each in found if each.topic == topic]


def show_handover(handover: HandoverAt) -> str:
    """One line; empty where there is nothing to tell."""
    if not (handover.forwarded or handover.notices):
        return ""
    size = f" ({handover.forwarded_bytes / 1e6:,.1f} MB)" if handover.forwarded else ""
    empty = "" if handover.emptied_s is None else f", empty after {handover.emptied_s:.1f} s"
    return f"forwarded {handover.forwarded:,}{size}, {handover.notices:,} notices{empty}"


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


def _handover_at(broker: str, each: Handover) -> HandoverAt:
    emptied_s = None if each.emptied_s is None else round(each.emptied_s, 3)
    return HandoverAt(broker, each.forwarded, each.forwarded_bytes, each.notices, emptied_s)


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
