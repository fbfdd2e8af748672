"""The processors of topics: to set, change or take one away is a move to where the topic is; and what they take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from nearcast.coordinator.leader import Leader
from nearcast.domain.errors import MoveRefused
from nearcast.domain.load import BrokerReport
from nearcast.domain.processing import Processing
from nearcast.domain.processor import dead_letter_topic
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.topic import validate_topic
from nearcast.domain.whereabouts import BrokerPlace
from nearcast.wire.processors import ProcessOrder

_PERCENTILE = 90  # of the paper's promise, and of what is predicted


class Processors:
    """Of this leader. The processor is part of a topic's route: publishers change to it and from it as they do when a
    topic moves, and so nothing is lost, repeated or put out of order by it.
    """

    def __init__(self, leader: Leader) -> None:
        self._leader = leader

    async def carry_out(self, order: ProcessOrder) -> int:
        """The epoch from which on it is so. Raises MoveRefused, TopicNameError, LeaseLost."""
        leader, topic, now = self._leader, order.topic, self._checked(order)
        if now is None:
            return await leader.move(
                topic, Strategy.SINGLE, (leader.ring.owner(topic),), stay=True, processor=order.processor
            )
        if order.processor == now.processor:
            return now.epoch
        return await leader.move(topic, now.strategy, now.brokers, stay=True, processor=order.processor)

    def foreseen(self, order: ProcessOrder) -> Iterator[str]:
        """What carrying it out would do. Raises as that does."""
        now = self._checked(order)
        was = None if now is None else now.processor
        brokers = (self._leader.ring.owner(order.topic),) if now is None else now.brokers
        yield f"processed now: {'by ' + str(was) if was else 'not at all'}"
        yield f"processed then: {'by ' + str(order.processor) if order.processor else 'not at all'}"
        yield f"at {', '.join(brokers)}, where it stays; publishers change over as they do when a topic moves"

    def _checked(self, order: ProcessOrder) -> Route | None:
        """Its newest route, if it has one."""
        topic = validate_topic(order.topic)
        self._leader.must_lead()
        dead_letter_topic(topic)
        move = self._leader.moves.get(topic)
        now = None if move is None else move.record.newest
        if order.processor is None and (now is None or now.processor is None):
            raise MoveRefused(f"topic {topic!r} has no processor")
        return now


def processing_of(
    topics: Sequence[str], reports: Iterable[BrokerReport], places: Iterable[BrokerPlace], promises: Mapping[str, Slo]
) -> Processing | None:
    """In the order of `topics`; None when none of them is processed. Of a topic at several brokers, the slowest counts.

    A promise for a lower percentile than 90 says nothing of the 90th; one for a higher says at least as much.
    """
    index = {name: at for at, name in enumerate(topics)}
    interval_ms, p90_ms = np.full(len(topics), np.nan), np.full(len(topics), np.nan)
    bound_ms = np.full(len(topics), np.inf)
    for each in (each for report in reports for each in report.processed):
        at = index.get(each.topic)
        if at is not None and each.interval_ms is not None:
            interval_ms[at] = np.fmax(interval_ms[at], max(each.interval_ms, 1e-3))
    processed = ~np.isnan(interval_ms)
    if not processed.any():
        return None
    for topic, slo in promises.items():
        if topic in index and slo.percentile >= _PERCENTILE:
            bound_ms[index[topic]] = slo.bound_ms
    for place in (place for broker in places for place in broker.topics):
        at = index.get(place.topic)
        if at is not None and place.latencies is not None and place.latencies.samples:
            p90_ms[at] = np.fmax(p90_ms[at], 1e3 * place.latencies.at(_PERCENTILE))
    nobody = ~processed
    bound_ms[nobody], p90_ms[nobody] = np.inf, np.nan
    return Processing(interval_ms, bound_ms, p90_ms)
