"""Metrics in Prometheus' format, gathered when they are asked for from what is counted anyway.

Names begin with `nearcast_`, units are base units, and no label names a client or a topic: there may be a million.
"""

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from nearcast.agent.complaints import Complaints
from nearcast.domain.decision import Decision
from nearcast.domain.load import Handover
from nearcast.domain.sketch import value_of
from nearcast.web.lookout import Lookout
from nearcast.web.models import ChannelTold, Processor
from nearcast.wire.rejects import Rejects

_MOVE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
_DOWN_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ERROR_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


HandedOver = Callable[[], tuple[Handover, int]]
"""(what moves cost the agent, all topics together; how many topics it sees to)"""


def text_of(registry: CollectorRegistry) -> bytes:
    return generate_latest(registry)


class MoveMetrics:
    """Counts decisions since `since_s`: what is older was counted by whoever ran then, or by nobody."""

    def __init__(self, registry: CollectorRegistry, since_s: float) -> None:
        self._since_s = since_s
        self._moves = Counter(
            "nearcast_moves", "Moves of topics, by what wanted them.", ("policy", "result"), registry=registry
        )
        self._told = Histogram(
            "nearcast_move_told_seconds",
            "From the order of a move until every client was being told.",
            registry=registry,
            buckets=_MOVE_S,
        )
        self._done = Histogram(
            "nearcast_move_done_seconds",
            "From the order of a move until nobody used the old route any more.",
            registry=registry,
            buckets=_MOVE_S,
        )
        self._error = Histogram(
            "nearcast_prediction_error_seconds",
            "How far what was measured after a move was from what had been predicted, either way.",
            registry=registry,
            buckets=_ERROR_S,
        )

    def decided(self, before: Decision | None, now: Decision) -> None:
        """What is new of a decision."""
        if now.at_s < self._since_s:
            return
        if now.refused and not (before and before.refused):
            self._moves.labels(now.policy, "refused").inc()
        if now.told_s is not None and (before is None or before.told_s is None):
            self._moves.labels(now.policy, "done").inc()
            self._told.observe(now.told_s)
        if now.done_s is not None and (before is None or before.done_s is None):
            self._done.observe(now.done_s)
        if now.error_ms is not None and (before is None or before.error_ms is None):
            self._error.observe(abs(now.error_ms) / 1e3)


class FleetMetrics(Collector):
    """The whole as the last look had it; nothing while nobody leads."""

    def __init__(self, lookout: Lookout) -> None:
        self._lookout = lookout

    def collect(self) -> Iterator[Metric]:
        view = self._lookout.view
        yield _gauge("nearcast_leader_seen", "1 while a leader answers.", 0.0 if self._lookout.trouble else 1.0)
        if view is None or self._lookout.trouble:
            return
        promised = view.promises
        states = (("kept", promised.kept), ("broken", promised.broken), ("unknown", promised.unknown))
        yield _gauges("nearcast_promises", "Topics with a promise, by how it stands.", "state", states)
        known = promised.kept + promised.broken
        if known:
            yield _gauge(
                "nearcast_promise_attainment_ratio", "Of promises that are known, those kept.", promised.kept / known
            )
        yield _gauge("nearcast_topics", "Topics that are used or have a route.", len(view.snapshot.topics))
        yield _gauge("nearcast_topics_moving", "Topics whose move is not over.", len(view.status.moving))
        if view.balancedness is not None:
            yield _gauge("nearcast_balancedness_ratio", "Mean load ratio over the highest.", view.balancedness)
        brokers = [each for each in view.brokers if each.load_ratio is not None]
        yield _gauges(
            "nearcast_broker_load_ratio",
            "Outgoing bandwidth over capacity.",
            "broker",
            ((each.name, each.load_ratio or 0.0) for each in brokers),
        )
        yield _gauges(
            "nearcast_broker_agent_present",
            "1 while the broker's agent is heard.",
            "broker",
            ((each.name, float(each.agent == "present")) for each in view.brokers),
        )
        yield from _processing(view.processors)
        roles = (
            ("publisher", sum(each.publishers for each in view.brokers)),
            ("subscriber", sum(each.subscribers for each in view.brokers)),
        )
        yield _gauges("nearcast_clients", "Clients of topics, by what they do.", "role", roles)


def _processing(found: Iterable[Processor]) -> Iterator[Metric]:
    """By broker, of all its topics that are processed together."""
    sums: dict[str, list[int]] = {}
    for each in found:
        of = sums.setdefault(each.broker, [0, 0, 0])
        of[:] = of[0] + each.queue, of[1] + each.failed, of[2] + each.dropped
    waiting, failed, dropped = ([(broker, of[at]) for broker, of in sums.items()] for at in range(3))
    yield _gauges("nearcast_processor_queue_messages", "Messages that wait to be processed.", "broker", waiting)
    text = "Messages whose processor raised, hung or died with them."
    yield _counters("nearcast_processor_failed_messages", text, "broker", failed)
    text = "Messages that were left out, because a queue was full."
    yield _counters("nearcast_processor_dropped_messages", text, "broker", dropped)


class HandoverMetrics(Collector):
    """What moves cost one agent since it started."""

    def __init__(self, broker: str, handed_over: HandedOver) -> None:
        self._broker = broker
        self._handed_over = handed_over

    def collect(self) -> Iterator[Metric]:
        cost, topics = self._handed_over()
        at = self._broker
        yield _counter("nearcast_forwarded_messages", "Messages carried to other brokers.", at, cost.forwarded)
        yield _counter("nearcast_forwarded_bytes", "Their size.", at, cost.forwarded_bytes)
        yield _counter("nearcast_notices", "Notices of where a topic is now.", at, cost.notices)
        if cost.emptied_s is not None:
            yield _gauges(
                "nearcast_emptied_seconds",
                "The longest time from when clients were told of a move until this broker was empty of the topic.",
                "broker",
                ((at, cost.emptied_s),),
            )
        yield _gauges("nearcast_agent_topics", "Topics that this agent sees to.", "broker", ((at, float(topics)),))


class ComplaintMetrics(Collector):
    """What subscribers at one broker missed, as they said themselves, since its agent started."""

    def __init__(self, broker: str, complaints: Complaints) -> None:
        self._broker = broker
        self._complaints = complaints

    def collect(self) -> Iterator[Metric]:
        of, at = self._complaints, self._broker
        yield _counter("nearcast_gaps", "Gaps that subscribers were told of.", at, of.gaps)
        yield _counter("nearcast_gap_messages", "Messages in those gaps, once for each subscriber.", at, of.missed)
        text = "Times that nobody knew what a subscriber had missed."
        yield _counter("nearcast_discontinuities", text, at, of.discontinuities)
        text = "For how long a subscriber could not receive when it changed brokers, or had lost its own; 0 mostly."
        downtime = HistogramMetricFamily("nearcast_downtime_seconds", text, labels=["broker"])
        values = [(0.0 if bucket == 0 else value_of(bucket), count) for bucket, count in of.pauses.items()]
        bounds = [(bound, sum(n for value, n in values if value <= bound)) for bound in (*_DOWN_S, math.inf)]
        buckets = [("+Inf" if bound == math.inf else str(bound), float(count)) for bound, count in bounds]
        downtime.add_metric([at], buckets, sum(value * count for value, count in values))
        yield downtime


class RejectMetrics(Collector):
    """Messages that a process could not read."""

    def __init__(self, rejects: Rejects) -> None:
        self._rejects = rejects

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "nearcast_rejected_messages", "Control messages that were not readable.", value=self._rejects.count
        )


class ChannelMetrics(Collector):
    """Channels as they were last read."""

    def __init__(self, channels: Callable[[], Iterable[ChannelTold]]) -> None:
        self._channels = channels

    def collect(self) -> Iterator[Metric]:
        found = list(self._channels())
        yield _counters(
            "nearcast_channel_executions", "Executions.", "channel", ((each.name, each.executions) for each in found)
        )
        yield _counters(
            "nearcast_channel_failures", "Failures that are kept.", "channel", ((e.name, e.failures) for e in found)
        )
        yield _gauges(
            "nearcast_channel_lag_seconds",
            "By how much the last execution was behind its period.",
            "channel",
            ((each.name, each.late_s) for each in found if each.late_s is not None),
        )
        yield _gauges(
            "nearcast_channel_execution_seconds",
            "How long the last execution took.",
            "channel",
            ((each.name, each.took_s) for each in found if each.took_s is not None),
        )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _gauges(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    found = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values:
        found.add_metric([key], value)
    return found


def _counter(name: str, text: str, broker: str, value: float) -> Metric:
    found = CounterMetricFamily(name, text, labels=["broker"])
    found.add_metric([broker], value)
    return found


def _counters(name: str, text: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
    found = CounterMetricFamily(name, text, labels=[label])
    for key, value in values:
        found.add_metric([key], value)
    return found
