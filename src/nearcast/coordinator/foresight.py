"""What an order would do, found by the checks and choices that carrying it out makes; nothing is changed."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from nearcast.coordinator.brokers import Brokers
from nearcast.coordinator.decisions import Decisions
from nearcast.coordinator.leader import Leader
from nearcast.coordinator.logs import Logs
from nearcast.coordinator.places import BrokerPlaces
from nearcast.coordinator.processors import Processors
from nearcast.coordinator.promises import Promises
from nearcast.coordinator.rebalancer import Rebalancer
from nearcast.domain.errors import NearcastError
from nearcast.domain.plan import Forecast
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.topic import validate_topic
from nearcast.transport.clock import Clock
from nearcast.wire.brokers import BrokerOrder
from nearcast.wire.control import DryRun, MoveOrder
from nearcast.wire.logs import KeepOrder
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PromiseOrder, PromiseStanding
from nearcast.wire.rebalancing import MOST_STEPS, Foreseen, PlannedStep, RebalanceOrder


class Foreseeing(Leader, Protocol):
    """What is needed of the coordinator that leads."""

    brokers: Brokers
    places: BrokerPlaces
    promises: Promises
    decisions: Decisions
    rebalancer: Rebalancer
    logs: Logs
    processors: Processors

    def foreseen(self, topic: str, strategy: Strategy, brokers: tuple[str, ...]) -> tuple[Route, Route]:
        """Where the topic is, and where a move would bring it. Raises MoveRefused or LeaseLost."""
        ...


class Foresight:
    def __init__(self, leader: Foreseeing, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock

    def answer(self, asked: DryRun) -> Foreseen:
        try:
            match asked.order:
                case MoveOrder() as order:
                    steps, notes = self._move(order)
                case BrokerOrder() as order:
                    steps, notes = self._broker(order)
                case PromiseOrder() as order:
                    steps, notes = [], list(self._promise(order))
                case KeepOrder() as order:
                    steps, notes = [], [self._leader.logs.foreseen(order)]
                case ProcessOrder() as order:
                    steps, notes = [], list(self._leader.processors.foreseen(order))
                case order:
                    steps, notes = self._rebalance(order)
        except NearcastError as error:
            return Foreseen(asked.number, refused=str(error))
        return Foreseen(asked.number, tuple(steps[:MOST_STEPS]), len(steps), tuple(notes))

    def _move(self, order: MoveOrder) -> tuple[list[PlannedStep], list[str]]:
        was, to = self._leader.foreseen(order.topic, order.strategy, order.brokers)
        forecast = self._leader.decisions.forecast(order.topic, to.brokers)
        step = PlannedStep(
            order.topic, to.strategy, to.brokers, was.strategy, was.brokers, order.reason or "asked for by an operator"
        )
        return [step], list(_expected(forecast))

    def _broker(self, order: BrokerOrder) -> tuple[list[PlannedStep], list[str]]:
        leader, name = self._leader, order.broker
        record = leader.brokers.changed(order)
        match order.do:
            case "drain" if record is None:
                return [], [f"{name} is being drained already"]
            case "drain":
                return self._drain(order)
            case "add":
                return [], [f"{name} is {'rented' if not order.url else 'added'}; topics go there when they are moved"]
            case "cancel":
                return [], [f"{name} is kept; what has moved away stays there"]
            case _:
                return [], [f"nothing is left on {name}: it is taken out of the fleet"]

    def _drain(self, order: BrokerOrder) -> tuple[list[PlannedStep], list[str]]:
        leader, name = self._leader, order.broker
        answering = leader.agents.present()
        candidates = [each for each in leader.brokers.present if each in answering and each != name]
        routes = Counter(broker for move in leader.moves.values() for broker in move.record.newest.brokers)
        steps = []
        for topic, move in sorted(leader.moves.items()):
            route = move.record.newest
            if name not in route.brokers:
                continue
            brokers = leader.brokers.where(route, candidates, routes)
            routes.update(brokers)
            reason = f"broker {name!r} is being drained" + (order.reason and f": {order.reason}")
            steps.append(PlannedStep(topic, route.strategy, brokers, route.strategy, route.brokers, reason))
        notes = [] if candidates else [f"no other broker answers: what {name} has stays there until one does"]
        if name in leader.ring.brokers:
            notes.append(f"{name} leaves the ring first: topics there that no route names get one, and move too")
        if people := leader.at_home(name):
            notes.append(f"{people} subscribers of channels get another home")
        return steps, notes

    def _promise(self, order: PromiseOrder) -> Iterator[str]:
        topic, now = validate_topic(order.topic), self._clock.now()
        slo = Slo.parse(order.slo) if order.slo else None
        was = self._leader.promises.slos.get(topic)
        yield f"promised now: {was or 'nothing'}"
        yield f"promised then: {slo or 'nothing'}"
        found = self._leader.promises.standing(topic, [place for _, place, _ in self._leader.places.of(topic, now)])
        if slo is not None:
            yield _against(slo, found)
            yield from _expected(self._leader.decisions.forecast(topic, (), slo))

    def _rebalance(self, order: RebalanceOrder) -> tuple[list[PlannedStep], list[str]]:
        rebalancer = self._leader.rebalancer
        if order.do == "stop":
            counts = rebalancer.must_be_running().counts()
            return [], [f"{counts['waiting']} steps are not begun; {counts['moving']} that have begun end in order"]
        plan = rebalancer.proposed(order.plan)
        rebalancer.must_be_applicable(order.plan, plan)
        steps = [
            PlannedStep(each.topic, each.strategy, each.brokers, each.was_strategy, each.was_brokers, each.reason)
            for each in islice(plan.steps, MOST_STEPS)
        ]
        homes = [f"{len(plan.homes)} subscribers of channels get another home"] if plan.homes else []
        return steps, [*plan.reasons, *homes]


def _expected(forecast: Forecast) -> Iterator[str]:
    """What is known of where the clients are."""
    if forecast.worst_ms is not None:
        yield f"worst case as clients are now: {forecast.worst_ms:.1f} ms"
    if forecast.predicted_ms is not None:
        bound = "" if forecast.bound_ms is None else f", of {forecast.bound_ms:g} ms promised"
        yield f"predicted there: {forecast.predicted_ms:.1f} ms{bound}"
    if forecast.bound_ms is not None and forecast.considered:
        yield f"{forecast.feasible} of {forecast.considered} brokers would keep {forecast.bound_ms:g} ms"
    if not forecast.considered:
        yield "nobody has said yet where its clients are: nothing can be predicted"


def _against(slo: Slo, found: PromiseStanding) -> str:
    known = [each for each in (found.measured_ms, found.worst_ms) if each is not None]
    if not known:
        return "nothing is measured of the topic yet"
    kept = all(each <= slo.bound_ms for each in known)
    return f"it would be {'kept' if kept else 'broken'} as things are now ({max(known):.1f} ms)"
