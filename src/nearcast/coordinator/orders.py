"""What operators ask whoever leads, and what they are answered."""

import zlib
from collections.abc import Callable
from typing import Protocol

from nearcast.coordinator.agents import Agents
from nearcast.coordinator.brokers import Brokers
from nearcast.coordinator.decisions import Decisions, Why
from nearcast.coordinator.homes import SubscriberHomes
from nearcast.coordinator.leader import Leader
from nearcast.coordinator.logs import Logs
from nearcast.coordinator.places import BrokerPlaces
from nearcast.coordinator.processors import Processors
from nearcast.coordinator.promises import Promises
from nearcast.coordinator.rebalancer import Rebalancer
from nearcast.coordinator.reports import Reports
from nearcast.domain.decision import OPERATOR
from nearcast.domain.errors import NearcastError
from nearcast.domain.snapshot_json import write_snapshot
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.brokers import BrokerOrder
from nearcast.wire.control import Answered, LoadOrder, MoveOrder, Order, Outcome, Status, StatusOrder
from nearcast.wire.homes import HomesOrder
from nearcast.wire.logs import KeepOrder
from nearcast.wire.places import PlacesOrder, PlacesTold
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PART_BYTES, PromiseOrder, SnapshotOrder, SnapshotPart, StandingOrder
from nearcast.wire.rebalancing import RebalanceOrder

Answer = Callable[[str, Answered], None]
"""To this asker."""


class Asked(Leader, Protocol):
    """The coordinator, as its operators see it."""

    name: str
    agents: Agents
    brokers: Brokers
    reports: Reports
    places: BrokerPlaces
    promises: Promises
    decisions: Decisions
    logs: Logs
    processors: Processors
    homes: SubscriberHomes
    rebalancer: Rebalancer


class Orders:
    def __init__(self, leader: Asked, answer: Answer, clock: Clock, crew: Crew) -> None:
        self._leader = leader
        self._answer = answer
        self._clock = clock
        self._crew = crew

    def take(self, order: Order) -> None:
        leader = self._leader
        match order:
            case MoveOrder() | BrokerOrder() | PromiseOrder() | KeepOrder() | ProcessOrder():
                self._crew.start(self._carry_out(order), f"order {order.number} of {order.asker}")
            case LoadOrder():
                self._answer(order.asker, leader.reports.answer(order, self._clock.now()))
            case RebalanceOrder():
                self._answer(order.asker, leader.rebalancer.answer(order))
            case StatusOrder():
                self._answer(order.asker, self._status(order.number))
            case StandingOrder():
                self._answer(order.asker, leader.promises.answer(order, leader.places, self._clock.now()))
            case PlacesOrder():
                found = leader.places.with_topic(order.topic, self._clock.now())
                self._answer(order.asker, PlacesTold(order.number, found))
            case HomesOrder():
                self._answer(order.asker, leader.homes.answer(order))
            case SnapshotOrder():
                for part in self._snapshot(order.number):
                    self._answer(order.asker, part)

    async def _carry_out(self, order: MoveOrder | BrokerOrder | PromiseOrder | KeepOrder | ProcessOrder) -> None:
        epoch = 0
        try:
            match order:
                case MoveOrder():
                    why = Why(OPERATOR, f"asked for by operator {order.asker}" + (order.reason and f": {order.reason}"))
                    decided = self._leader.decisions.move
                    epoch = await decided(order.topic, order.strategy, order.brokers, why, eager=order.eager)
                case BrokerOrder():
                    await self._leader.brokers.carry_out(order)
                case PromiseOrder():
                    await self._leader.promises.carry_out(order)
                case KeepOrder():
                    epoch = await self._leader.logs.carry_out(order)
                case ProcessOrder():
                    epoch = await self._leader.processors.carry_out(order)
        except NearcastError as error:
            self._answer(order.asker, Outcome(order.number, 0, str(error)))
        else:
            self._answer(order.asker, Outcome(order.number, epoch))

    def _snapshot(self, number: int) -> list[SnapshotPart]:
        try:
            content = zlib.compress(write_snapshot(self._leader.rebalancer.seen()), 1)
        except NearcastError as error:
            return [SnapshotPart(number, 1, 1, b"", str(error))]
        pieces = [content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES)]
        return [SnapshotPart(number, at, len(pieces), piece) for at, piece in enumerate(pieces, 1)]

    def _status(self, number: int) -> Status:
        leader, ring = self._leader, self._leader.ring
        assert leader.term is not None
        return Status(
            number,
            leader.name,
            leader.term,
            leader.agents.states(self._clock.now()),
            len(leader.moves),
            tuple(sorted(topic for topic, move in leader.moves.items() if not move.finished)),
            ring.version,
            ring.brokers,
            leader.brokers.standings(),
        )
