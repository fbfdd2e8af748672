"""The control loop around the flow model: reports, snapshot, a policy, and its plan carried out after a while.

The policy is the production one and is given what production gives it: averaged reports, routes, the ring. What the
loop adds is time: a plan takes a while to take effect, a rented server to start, and a released one leaves when empty.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.plan import Plan
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.sim.flow import FlowModel, FlowSettings, Tick
from nearcast.sim.flow_load import Crowd

# A policy with its settings already given.
Planner = Callable[[Snapshot], Plan]

_EMPTY_BYTES = 1.0


@dataclass(frozen=True, slots=True)
class Second:
    """What one step was like. `load_ratios` are those of the servers that were up, in their order.

    `offered_hz` are the copies that clients asked for, `messages_hz` those that brokers sent.
    """

    at_s: float
    clients: int
    response_ms: float
    offered_hz: float
    messages_hz: float
    servers: int
    load_ratios: tuple[float, ...]
    backlog_bytes: float
    disconnected: float
    plan: Plan | None

    @property
    def rebalanced(self) -> bool:
        """Whether routes were decided to change in it."""
        return self.plan is not None and bool(self.plan.steps)


class FlowLoop:
    """A fleet that begins with `first` servers and may have as many as it has names."""

    def __init__(
        self, topics: Sequence[str], servers: Sequence[str], planner: Planner, settings: FlowSettings, *, first: int = 1
    ) -> None:
        self.model = FlowModel(topics, servers, settings)
        self.settings = settings
        self.up: list[str] = list(servers[:first])
        self.ring = Ring(tuple(self.up))
        self.routes: dict[str, Route] = {}
        self._planner = planner
        self._starting: deque[tuple[float, str]] = deque()
        self._draining: set[str] = set()
        self._pending: tuple[float, Plan] | None = None
        self._planned_s: float | None = None
        self._empty_from_s = 0.0
        self._recent: deque[Tick] = deque(maxlen=max(1, round(settings.average_s / settings.step_s)))
        self.model.reroute(self._all_routes(), 0.0)

    def run(self, crowds: Iterator[tuple[float, Crowd]]) -> list[Second]:
        """A step for each moment and the crowd in it; moments are `step_s` apart."""
        return [self.step(now_s, crowd) for now_s, crowd in crowds]

    def step(self, now_s: float, crowd: Crowd) -> Second:
        """What is due takes effect, the crowd publishes, and the policy looks at what was measured."""
        self._take_effect(now_s)
        tick = self.model.step(crowd, now_s)
        self._recent.append(tick)
        plan = self._decide(now_s + self.settings.step_s)
        sent = tick.sent_bytes.sum(axis=0) / self.settings.step_s
        ratios = dict(zip(self.model.brokers, (sent / self.settings.capacity_bytes_per_s).tolist(), strict=True))
        return Second(
            at_s=now_s,
            clients=len(crowd.topic),
            response_ms=tick.response_ms,
            offered_hz=float(tick.load.deliveries_hz.sum()),
            messages_hz=float(sent.sum()) / self.settings.message_bytes,
            servers=len(self.up),
            load_ratios=tuple(ratios[name] for name in self.up),
            backlog_bytes=float(self.model.queues.backlog_bytes.sum()),
            disconnected=tick.disconnected,
            plan=plan if plan.changes else None,
        )

    def reports(self, now_s: float) -> list[BrokerReport]:
        """A report of every server that is up, averaged over the last steps; who is there, as of the last one."""
        ticks, size = self._recent, self.settings.message_bytes
        sent_per_s = np.mean([tick.sent_bytes for tick in ticks], axis=0) / self.settings.step_s
        published_hz = np.mean([tick.load.publications_hz for tick in ticks], axis=0)
        publishers, subscribers = ticks[-1].load.publishers, ticks[-1].load.subscribers
        counted = (sent_per_s > 0.0) | (published_hz > 0.0) | (subscribers > 0.0)
        reports = []
        for name in self.up:
            at = self.model.brokers.index(name)
            loads = tuple(
                TopicLoad(
                    self.model.topics[row],
                    float(published_hz[row, at]),
                    float(sent_per_s[row, at]) / size,
                    float(published_hz[row, at]) * size,
                    float(sent_per_s[row, at]),
                    round(publishers[row, at]),
                    round(subscribers[row, at]),
                )
                for row in np.flatnonzero(counted[:, at]).tolist()
            )
            total = float(sent_per_s[:, at].sum())
            reports.append(BrokerReport(name, now_s, total, self.settings.capacity_bytes_per_s, loads))
        return reports

    def _decide(self, now_s: float) -> Plan:
        if self._pending is not None:
            return Plan("", now_s)  # One plan at a time: what it will change is not in the reports yet.
        plan = self._planner(
            Snapshot.of(
                self.reports(now_s),
                self.routes,
                self.ring,
                at_s=now_s,
                draining=self._draining,
                planned_s=self._planned_s,
                renting=len(self._starting),
            )
        )
        self._rent(plan.rent, now_s)
        if plan.steps or plan.ring is not None or plan.release:
            self._pending = (now_s + self.settings.reconfiguration_s, plan)
            self._planned_s = now_s
            self._draining |= set(plan.release)
        return plan

    def _rent(self, wanted: int, now_s: float) -> None:
        taken = {*self.up, *(name for _, name in self._starting)}
        free = [name for name in self.model.brokers if name not in taken]
        self._starting.extend((now_s + self.settings.start_up_s, name) for name in free[:wanted])

    def _take_effect(self, now_s: float) -> None:
        while self._starting and self._starting[0][0] <= now_s:
            self.up.append(self._starting.popleft()[1])
        if self._pending is not None and self._pending[0] <= now_s:
            self._apply(self._pending[1], now_s)
            self._pending = None
        self._let_go(now_s)

    def _apply(self, plan: Plan, now_s: float) -> None:
        for step in plan.steps:
            before = self.routes.get(step.topic)
            self.routes[step.topic] = step.route(before.epoch + 1 if before else 1)
        if plan.ring is not None:
            self.ring = Ring(plan.ring, self.ring.version + 1)
        self.model.reroute(self._all_routes(), now_s)
        self._empty_from_s = now_s + self.settings.linger_s

    def _let_go(self, now_s: float) -> None:
        """Servers that are to leave do so once nothing is routed to them and nothing waits there."""
        if not self._draining or self._pending is not None or now_s < self._empty_from_s:
            return
        used = {name for route in self._all_routes().values() for name in route.brokers}
        for name in sorted(self._draining - used):
            at = self.model.brokers.index(name)
            if self.model.queues.backlog_bytes[:, at].sum() < _EMPTY_BYTES:
                self._draining.discard(name)
                self.up.remove(name)

    def _all_routes(self) -> dict[str, Route]:
        owners = self.ring.owners(self.model.topics)
        return {
            topic: self.routes.get(topic) or Route(0, Strategy.SINGLE, (owner,))
            for topic, owner in zip(self.model.topics, owners, strict=True)
        }
