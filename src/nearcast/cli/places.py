"""Where brokers and clients are, as commands ask the leader for it and show it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from nearcast.cli.connect import operator_of
from nearcast.domain.errors import LeaseLost, LinkError
from nearcast.domain.whereabouts import BrokerPlace, TopicPlace, distance_s
from nearcast.transport.config import Config


@dataclass(frozen=True, slots=True)
class Between:
    """The round trip from one broker to another, by their coordinates and as the agent of either measured it."""

    broker: str
    predicted_ms: float
    measured_ms: float | None


@dataclass(frozen=True, slots=True)
class PlaceAt:
    """One topic at one broker: see `TopicPlace`, here in milliseconds. `latencies_ms` are from publish to receipt."""

    broker: str
    publishers: tuple[float, ...] | None
    subscribers: tuple[float, ...] | None
    deviation_ms: float
    worst_ms: float
    samples: int
    latencies_ms: Mapping[str, float] | None
    uncertainty_ms: float | None


async def places_of(config: Config, topic: str = "") -> dict[str, BrokerPlace]:
    """By broker, each with this topic alone; empty when nobody leads who could say, or in a fleet without."""
    if not config.counts:
        return {}
    try:
        async with asyncio.timeout(10), operator_of(config) as operator:
            return {each.broker: each for each in (await operator.places(topic)).places}
    except (LeaseLost, LinkError, TimeoutError):
        return {}


def between(one: str, others: tuple[str, ...], places: Mapping[str, BrokerPlace]) -> tuple[Between, ...]:
    known = [other for other in others if other != one and one in places and other in places]
    return tuple(_between(places[one], places[other]) for other in known)


def topic_places(places: Mapping[str, BrokerPlace]) -> tuple[PlaceAt, ...]:
    return tuple(_place_at(broker, each) for broker, place in places.items() for each in place.topics)


def show_place(place: PlaceAt) -> str:
    text = f"at {place.broker}: round trips of its clients up to {place.worst_ms:.1f} ms together"
    if place.latencies_ms is None:
        return text
    values = ", ".join(f"{name} {value:.1f}" for name, value in place.latencies_ms.items())
    return f"{text}; measured {values} ms ± {place.uncertainty_ms:.1f} on {place.samples} messages"


def _between(one: BrokerPlace, other: BrokerPlace) -> Between:
    measured = [dict(a.rtts_s).get(b.broker) for a, b in ((one, other), (other, one))]
    found = [each for each in measured if each is not None]
    predicted_ms = round(1e3 * distance_s(one.at, other.at), 3)
    return Between(other.broker, predicted_ms, round(1e3 * sum(found) / len(found), 3) if found else None)


def _place_at(broker: str, place: TopicPlace) -> PlaceAt:
    found = place.latencies
    return PlaceAt(
        broker,
        None if place.publishers is None else (*place.publishers.vec, place.publishers.height),
        None if place.subscribers is None else (*place.subscribers.vec, place.subscribers.height),
        round(1e3 * place.deviation_s, 3),
        round(1e3 * place.worst_s, 3),
        0 if found is None else found.samples,
        None if found is None else {f"p{each}": round(1e3 * found.at(each), 3) for each in (50, 90, 95, 99)},
        None if found is None else round(1e3 * found.uncertainty_s, 3),
    )
