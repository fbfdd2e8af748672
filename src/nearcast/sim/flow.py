"""The flow model: a crowd on topics, brokers with a limited line, and what each message takes. Seconds, not messages.

Its promise is about rates and means: what is offered to each broker follows exactly from who is where and the routes,
and a message's time is the client's round trip, the wait that bursts cause, and the backlog in front of it. It does not
know single messages, losses during a move (there are none in the protocol) or CPU time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nearcast.domain.route import Route
from nearcast.sim.flow_load import Crowd, Floats, Offered, RouteTable, offered
from nearcast.sim.flow_queue import OutputBuffer, Queues, burst_wait_s


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """What every broker is, and how long things take.

    `capacity_bytes_per_s` is what a broker is configured to send, the denominator of load ratios. Its line really takes
    `line_ratio` of that: the paper's servers failed above 1.15. `step_s` is both the model's step and the interval of
    reports, whose averages over `average_s` the policy sees.

    A plan begins `reconfiguration_s` after it was made (agents prepare and acknowledge); from then on, for `linger_s`,
    the brokers that a topic left still carry it too. A rented server reports from `start_up_s` on.
    """

    message_bytes: float
    capacity_bytes_per_s: float
    line_ratio: float = 1.15
    step_s: float = 1.0
    average_s: float = 10.0
    reconfiguration_s: float = 2.0
    linger_s: float = 1.0
    start_up_s: float = 5.0
    buffer: OutputBuffer = field(default_factory=OutputBuffer)

    @property
    def line_bytes_per_s(self) -> float:
        return self.capacity_bytes_per_s * self.line_ratio


@dataclass(frozen=True, slots=True)
class Tick:
    """One step. Arrays are topics x brokers; `load` is what clients asked for, `twice_bytes` what was carried twice.

    `response_ms` is the mean over the publications of clients that hear themselves, NaN when there is none.
    """

    load: Offered
    sent_bytes: Floats
    dropped_bytes: Floats
    twice_bytes: float
    disconnected: float
    response_ms: float


class FlowModel:
    """Brokers and their queues. Who decides about routes is elsewhere; here they are given with `reroute`."""

    def __init__(self, topics: Sequence[str], brokers: Sequence[str], settings: FlowSettings) -> None:
        self.topics = tuple(topics)
        self.brokers = tuple(brokers)
        self.settings = settings
        self.queues = Queues(np.zeros((len(self.topics), len(self.brokers))), settings.buffer)
        self._table: RouteTable | None = None
        self._left: RouteTable | None = None
        self._linger_until_s = 0.0

    def reroute(self, routes: Mapping[str, Route], now_s: float) -> None:
        """From now on topics have these routes; the brokers that a topic leaves carry it a little longer."""
        self._left, self._table = self._table, RouteTable.of(routes, self.topics, self.brokers)
        self._linger_until_s = now_s + self.settings.linger_s

    def step(self, crowd: Crowd, now_s: float) -> Tick:
        """Let the crowd publish for a step that begins now."""
        if self._table is None:
            raise ValueError("no routes yet: call reroute() before the first step")
        settings, line = self.settings, np.full(len(self.brokers), self.settings.line_bytes_per_s)
        load = offered(crowd, self._table)
        carried, lingering = load.deliveries_hz, self._lingering(crowd, now_s)
        if lingering is not None:
            carried = carried + lingering.deliveries_hz
        before_bytes = self.queues.backlog_bytes.sum(axis=0)
        passed = self.queues.step(
            carried * settings.message_bytes * settings.step_s, load.subscribers, line, settings.step_s
        )
        after_bytes = self.queues.backlog_bytes.sum(axis=0) + passed.dropped_bytes.sum(axis=0)
        backlog_s = (before_bytes + after_bytes) / 2.0 / line
        return Tick(
            load,
            passed.sent_bytes,
            passed.dropped_bytes,
            0.0
            if lingering is None
            else float(lingering.deliveries_hz.sum()) * settings.message_bytes * settings.step_s,
            passed.disconnected,
            self._response_ms(crowd, load, lingering, backlog_s, line),
        )

    def _lingering(self, crowd: Crowd, now_s: float) -> Offered | None:
        if self._left is None or now_s >= self._linger_until_s:
            self._left = None
            return None
        assert self._table is not None
        still, gone = offered(crowd, self._left), self._left.member & ~self._table.member
        return Offered(
            still.publications_hz * gone, still.deliveries_hz * gone, still.publishers * gone, still.subscribers * gone
        )

    def _response_ms(
        self, crowd: Crowd, load: Offered, lingering: Offered | None, backlog_s: Floats, line: Floats
    ) -> float:
        assert self._table is not None
        hears_itself = crowd.listens & (crowd.rate_hz > 0.0)
        if not hears_itself.any():
            return float("nan")
        size = self.settings.message_bytes
        wait_s = burst_wait_s(load.publications_hz, load.subscribers, size, line) + backlog_s
        own_s = wait_s[crowd.topic, self._table.sticks_to(crowd)]
        if lingering is not None and self._left is not None:
            # Both brokers deliver, and the first copy counts.
            old_s = burst_wait_s(lingering.publications_hz, lingering.subscribers, size, line) + backlog_s
            old_s = np.where(self._left.member & ~self._table.member, old_s, np.inf)
            own_s = np.minimum(own_s, old_s[crowd.topic, self._left.sticks_to(crowd)])
        response_ms = crowd.rtt_ms + 1000.0 * own_s
        return float(np.average(response_ms[hears_itself], weights=crowd.rate_hz[hears_itself]))
