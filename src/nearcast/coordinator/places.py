"""Where every broker and its clients are, as its agent said last. A new leader knows nothing until they do so again."""

from dataclasses import dataclass, field, replace

from nearcast.domain.whereabouts import BrokerPlace, TopicPlace
from nearcast.wire.places import Placed

FRESH_S = 15.0
"""Agents report every five seconds: who missed three of them is not known to be where it was."""


@dataclass(slots=True)
class _Broker:
    place: BrokerPlace
    at_s: float
    round: int
    topics: dict[str, TopicPlace] = field(default_factory=dict)


class BrokerPlaces:
    def __init__(self) -> None:
        self._newest: dict[str, _Broker] = {}

    def heard(self, placed: Placed, now: float) -> None:
        place = placed.place
        known = self._newest.get(place.broker)
        if known is None or known.round != placed.round:
            known = self._newest[place.broker] = _Broker(place, now, placed.round)
        known.place, known.at_s = place, now
        known.topics.update({each.topic: each for each in place.topics})

    def forget(self, broker: str) -> None:
        """Its agent is lost."""
        self._newest.pop(broker, None)

    def fresh_places(self, now: float) -> tuple[BrokerPlace, ...]:
        """By name, each with all its topics."""
        return tuple(replace(each.place, topics=tuple(each.topics.values())) for each in self._fresh(now))

    def brokers(self, now: float) -> tuple[BrokerPlace, ...]:
        """By name, without topics: as many as there are, this is cheap."""
        return tuple(replace(each.place, topics=()) for each in self._fresh(now))

    def of(self, topic: str, now: float) -> list[tuple[str, TopicPlace, float]]:
        """(broker, what its agent said of the topic, when), by broker: several while it moves."""
        fresh = self._fresh(now)
        return [(each.place.broker, each.topics[topic], each.at_s) for each in fresh if topic in each.topics]

    def _fresh(self, now: float) -> list[_Broker]:
        return [each for _, each in sorted(self._newest.items()) if now < each.at_s + FRESH_S]
