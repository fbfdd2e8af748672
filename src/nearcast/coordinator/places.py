"""Where every broker and its clients are, as its agent said last. A new leader knows nothing until they do so again."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from nearcast.domain.whereabouts import BrokerPlace, TopicPlace
from nearcast.wire.places import Placed

FRESH_S = 15.0
"""Agents report every five seconds: who missed three of them is not known to be where it was."""


@dataclass(slots=True)
class _Told:
    """One round, complete when all its parts have come."""

    round: int
    left: int
    topics: dict[str, TopicPlace] = field(default_factory=dict)


@dataclass(slots=True)
class _Broker:
    place: BrokerPlace
    at_s: float
    whole: _Told
    coming: _Told | None = None


class BrokerPlaces:
    def __init__(self) -> None:
        self._newest: dict[str, _Broker] = {}

    def heard(self, placed: Placed, now: float) -> None:
        """Parts of one round are put together; until all have come, the round before them holds."""
        place = placed.place
        known = self._newest.get(place.broker)
        if known is None:
            known = self._newest[place.broker] = _Broker(place, now, _Told(placed.round, 0))
        known.place, known.at_s = place, now
        named = {each.topic: each for each in place.topics}
        if not placed.parts or placed.round == known.whole.round:
            known.whole.topics.update(named)
            return
        coming = known.coming
        if coming is None or coming.round != placed.round:
            coming = known.coming = _Told(placed.round, placed.parts)
        coming.topics.update(named)
        coming.left -= 1
        if not coming.left:
            known.whole, known.coming = coming, None

    def forget(self, broker: str) -> None:
        """Its agent is lost."""
        self._newest.pop(broker, None)

    def fresh_places(self, now: float) -> tuple[BrokerPlace, ...]:
        """By name, each with all its topics."""
        return tuple(replace(each.place, topics=tuple(each.whole.topics.values())) for each in self._fresh(now))

    def topics(self, now: float) -> list[str]:
        """All that anybody has told of, by name."""
        return sorted({topic for each in self._fresh(now) for topic in each.whole.topics})

    def brokers(self, now: float) -> tuple[BrokerPlace, ...]:
        """By name, without topics: as many as there are, this is cheap."""
        return self.with_topic("", now)

    def with_topic(self, topic: str, now: float) -> tuple[BrokerPlace, ...]:
        """By name, each with this one topic, if it has it."""
        fresh = ((each.place, each.whole.topics.get(topic)) for each in self._fresh(now))
        return tuple(replace(place, topics=() if found is None else (found,)) for place, found in fresh)

    def of(self, topic: str, now: float) -> list[tuple[str, TopicPlace, float]]:
        """(broker, what its agent said of the topic, when), by broker: several while it moves."""
        fresh = [(each.place.broker, each.whole.topics.get(topic), each.at_s) for each in self._fresh(now)]
        return [(broker, place, at_s) for broker, place, at_s in fresh if place is not None]

    def apart(self, topics: Collection[str], now: float) -> set[str]:
        """Those of them that several brokers have clients of."""
        wanted, found, seen = set(topics), set[str](), set[str]()
        for each in self._fresh(now) if wanted else ():
            told = each.whole.topics
            here = {topic for topic in wanted & told.keys() if told[topic].publishers or told[topic].subscribers}
            found |= seen & here
            seen |= here
        return found

    def _fresh(self, now: float) -> list[_Broker]:
        return [each for _, each in sorted(self._newest.items()) if now < each.at_s + FRESH_S]
