"""What operators ask whoever leads, and what they are answered."""

from collections.abc import Callable
from typing import Protocol

from nearcast.coordinator.agents import Agents
from nearcast.coordinator.brokers import Brokers
from nearcast.coordinator.leader import Leader
from nearcast.coordinator.rebalancer import Rebalancer
from nearcast.coordinator.reports import Reports
from nearcast.domain.errors import NearcastError
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.brokers import BrokerOrder
from nearcast.wire.control import Answered, LoadOrder, MoveOrder, Order, Outcome, Status, StatusOrder
from nearcast.wire.rebalancing import RebalanceOrder

Answer = Callable[[str, Answered], None]
"""To this asker."""


class Asked(Leader, Protocol):
    """The coordinator, as its operators see it."""

    name: str
    agents: Agents
    brokers: Brokers
    reports: Reports
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
            case MoveOrder() | BrokerOrder():
                self._crew.start(self._carry_out(order), f"order {order.number} of {order.asker}")
            case LoadOrder():
                self._answer(order.asker, leader.reports.answer(order, self._clock.now()))
            case RebalanceOrder():
                self._answer(order.asker, leader.rebalancer.answer(order))
            case StatusOrder():
                self._answer(order.asker, self._status(order.number))

    async def _carry_out(self, order: MoveOrder | BrokerOrder) -> None:
        epoch = 0
        try:
            if isinstance(order, MoveOrder):
                epoch = await self._leader.move(order.topic, order.strategy, order.brokers, eager=order.eager)
            else:
                await self._leader.brokers.carry_out(order)
        except NearcastError as error:
            self._answer(order.asker, Outcome(order.number, 0, str(error)))
        else:
            self._answer(order.asker, Outcome(order.number, epoch))

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
