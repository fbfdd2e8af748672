"""What is counted, as it travels: a client's counts to the agent of a broker, an agent's report to the coordinator.

Both are signed like every control message, and neither is larger than a server takes: counts are split over several
messages, a report names its busiest topics and sums up the rest.
"""

from __future__ import annotations

import math
from dataclasses import astuple, replace

import msgspec

from nearcast.domain.load import BrokerReport, Handover, TopicLoad
from nearcast.domain.sketch import unflat
from nearcast.domain.topic import validate_topic

MOST_COUNTED = 1000
"""Topics in one `Counts`: of at most 200 bytes each and 4 for each bucket of latencies, which together are less than a
NATS server takes in one message."""

MOST_REPORTED = 2000
"""Topics in one `Load`: of at most 200 bytes each, some 700 kB, where a NATS server takes 1 MB."""

MOST_HANDOVERS = 100
"""Topics whose moves are told of in one `Load`: some 25 kB."""

MOST_PROCESSED = 200
"""Topics whose processing is told of in one `Load`: some 100 kB, with their last errors."""

MOST_SECONDS = 3600.0
_MOST_MESSAGES_PER_S = 1e8
_MOST_BYTES_PER_S = 1e11


class TopicCount(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Frames and their bytes, with our header, without the server's own framing.

    `latencies`: how long some of what was received took, as buckets and counts in turn (`domain.sketch`).
    """

    topic: str
    publications: int = 0
    bytes_in: int = 0
    deliveries: int = 0
    bytes_out: int = 0
    latencies: tuple[int, ...] = ()


class Trouble(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a client's subscriptions have been told of: gaps, with so many messages `missed` as is known, and
    discontinuities.

    `pauses`: for how long one could not receive, as buckets and counts in turn; nothing at all where it changed brokers
    without a pause.
    """

    gaps: int = 0
    missed: int = 0
    discontinuities: int = 0
    pauses: tuple[int, ...] = ()


class Counts(msgspec.Struct, frozen=True, tag=True):
    """What one client sent to this broker and got from it in the last `seconds`; of topics without traffic, nothing.

    `trouble`: of its subscriptions at this broker, if there was any.
    """

    client: str
    seconds: float
    topics: tuple[TopicCount, ...]
    trouble: Trouble | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds <= MOST_SECONDS:
            raise ValueError(f"counts over {self.seconds} s; expected more than 0 and at most {MOST_SECONDS:g}")
        if len(self.topics) > MOST_COUNTED:
            raise ValueError(f"counts of {len(self.topics)} topics in one message; at most {MOST_COUNTED}")
        most = math.ceil(_MOST_MESSAGES_PER_S * self.seconds)
        most_bytes = math.ceil(_MOST_BYTES_PER_S * self.seconds)
        for each in self.topics:
            validate_topic(each.topic)
            if not (0 <= each.publications <= most and 0 <= each.deliveries <= most):
                raise ValueError(f"topic {each.topic!r}: no client counts so many messages in {self.seconds} s: {each}")
            if not (0 <= each.bytes_in <= most_bytes and 0 <= each.bytes_out <= most_bytes):
                raise ValueError(f"topic {each.topic!r}: no client counts so many bytes in {self.seconds} s: {each}")
            unflat(each.latencies)
        if self.trouble is not None:
            of = self.trouble
            if not all(0 <= each <= most for each in (of.gaps, of.missed, of.discontinuities)):
                raise ValueError(f"no client misses so much in {self.seconds} s: {of}")
            if sum(unflat(of.pauses).values()) > most:
                raise ValueError(f"no client pauses so often in {self.seconds} s: {of}")


class Load(msgspec.Struct, frozen=True, tag=True):
    """An agent's report. Of `left_out` topics that were too many for one message, the least busy, there is the sum."""

    report: BrokerReport
    left_out: int = 0
    rest: TopicLoad | None = None

    def __post_init__(self) -> None:
        report = self.report
        if len(report.topics) > MOST_REPORTED:
            raise ValueError(f"a report of {len(report.topics)} topics in one message; at most {MOST_REPORTED}")
        _must_be_rates(f"broker {report.broker!r}", report.at_s, report.out_bytes_per_s)
        if not report.capacity_bytes_per_s > 0:
            raise ValueError(f"broker {report.broker!r}: its capacity is {report.capacity_bytes_per_s} bytes/s")
        _must_be_rates(f"broker {report.broker!r}", *(each for each in astuple(report.used) if each is not None))
        if not all(0 < each < math.inf for each in astuple(report.most) if each is not None):
            raise ValueError(f"broker {report.broker!r}: nothing can be at most {report.most}")
        for each in report.topics if self.rest is None else (*report.topics, self.rest):
            rates = (each.publications, each.deliveries, each.bytes_in, each.bytes_out)
            _must_be_rates(f"topic {each.topic!r}", *rates, each.publishers, each.subscribers)
        if len(report.handovers) > MOST_HANDOVERS:
            raise ValueError(f"moves of {len(report.handovers)} topics in one message; at most {MOST_HANDOVERS}")
        for handover in (report.handed_over, *report.handovers):
            _must_be_handover(report.broker, handover)
        if len(report.processed) > MOST_PROCESSED:
            raise ValueError(f"processing of {len(report.processed)} topics in one message; at most {MOST_PROCESSED}")
        for one in report.processed:
            counts = (one.queue, one.processed, one.raised, one.hung, one.died, one.dropped, one.interval_ms or 0.0)
            _must_be_rates(f"broker {report.broker!r}, processing of {one.topic!r}", *counts)


def load_of(report: BrokerReport) -> Load:
    """What fits into one message: the topics are in order, busiest first."""
    report = replace(report, handovers=report.handovers[:MOST_HANDOVERS], processed=report.processed[:MOST_PROCESSED])
    rest = report.topics[MOST_REPORTED:]
    if not rest:
        return Load(report)
    summed = TopicLoad(
        "",
        sum(each.publications for each in rest),
        sum(each.deliveries for each in rest),
        sum(each.bytes_in for each in rest),
        sum(each.bytes_out for each in rest),
        sum(each.publishers for each in rest),
        sum(each.subscribers for each in rest),
    )
    return Load(replace(report, topics=report.topics[:MOST_REPORTED]), len(rest), summed)


def _must_be_handover(broker: str, each: Handover) -> None:
    counts = (each.forwarded, each.forwarded_bytes, each.notices, each.emptied_s or 0.0)
    _must_be_rates(f"broker {broker!r}, moves of {each.topic!r}", *counts)


def _must_be_rates(of: str, *rates: float) -> None:
    for rate in rates:
        if not 0 <= rate < math.inf:
            raise ValueError(f"{of}: {rate} is no rate")
