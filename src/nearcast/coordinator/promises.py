"""What is promised of topics, and how it stands by what agents reported: where clients are, and what was measured."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from nearcast.coordinator.leader import Leader
from nearcast.coordinator.places import BrokerPlaces
from nearcast.domain.decision import Measured
from nearcast.domain.slo import Slo
from nearcast.domain.topic import validate_topic
from nearcast.domain.whereabouts import BrokerPlace, TopicPlace
from nearcast.wire.promises import MOST_STANDINGS, PromiseOrder, PromiseStanding, StandingOrder, Standings

_USUAL = 95  # what is shown of a topic without a promise
_ONE_WAY_MS = 500.0  # of a round trip in seconds


class Promises:
    """Of this leader: read when it took over, and written by nobody else meanwhile."""

    def __init__(self, leader: Leader) -> None:
        self.slos: dict[str, Slo] = {}
        self._leader = leader

    def taken_over(self, slos: Mapping[str, Slo]) -> None:
        self.slos = dict(slos)

    def forget(self) -> None:
        self.slos = {}

    async def carry_out(self, order: PromiseOrder) -> None:
        """Raises ConfigError or TopicNameError for what cannot be promised, or LeaseLost."""
        validate_topic(order.topic)
        slo = Slo.parse(order.slo) if order.slo else None
        records = self._leader.records
        await self._leader.write(records, partial(records.save_promise, order.topic, slo))
        if slo is None:
            self.slos.pop(order.topic, None)
        else:
            self.slos[order.topic] = slo

    def judged(self, place: BrokerPlace) -> Iterator[tuple[str, bool]]:
        """Topics there that have a promise, and whether it is broken."""
        for each in place.topics:
            slo = self.slos.get(each.topic)
            if slo is not None and each.publishers and each.subscribers:
                yield each.topic, _worst_ms(each) > slo.bound_ms

    def answer(self, order: StandingOrder, places: BrokerPlaces, now: float) -> Standings:
        wanted = [order.topic] if order.topic else sorted(self.slos)
        if order.every:
            wanted += [topic for topic in places.topics(now) if topic not in self.slos]
        found = tuple(
            self.standing(topic, [place for _, place, _ in places.of(topic, now)]) for topic in wanted[:MOST_STANDINGS]
        )
        return Standings(order.number, found, max(0, len(wanted) - MOST_STANDINGS))

    def standing(self, topic: str, places: list[TopicPlace]) -> PromiseStanding:
        slo = self.slos.get(topic)
        known = [_worst_ms(each) for each in places if each.publishers and each.subscribers]
        worst_ms = round(max(known), 3) if known else None
        found = measured(places, _USUAL if slo is None else slo.percentile)
        facts = [worst_ms] if found is None else [found.latency_ms, worst_ms or 0.0]
        kept = None if slo is None or facts == [None] else all(each <= slo.bound_ms for each in facts if each)
        if found is None:
            return PromiseStanding(topic, str(slo or ""), worst_ms, kept=kept)
        return PromiseStanding(
            topic, str(slo or ""), worst_ms, found.latency_ms, found.samples, found.uncertainty_ms, kept
        )


def measured(places: Iterable[TopicPlace], percentile: int) -> Measured | None:
    """The worst of a topic's brokers; None when nothing was measured lately."""
    found = [each.latencies for each in places if each.latencies is not None and each.latencies.samples]
    if not found:
        return None
    worst = max(found, key=lambda each: each.at(percentile))
    return Measured(
        percentile, round(1e3 * worst.at(percentile), 3), worst.samples, round(1e3 * worst.uncertainty_s, 3)
    )


def _worst_ms(place: TopicPlace) -> float:
    return _ONE_WAY_MS * place.worst_s
