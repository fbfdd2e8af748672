"""What operators ask whoever leads, and what they are answered. What changes something is written down, and why."""

import logging
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from nearcast.coordinator.agents import Agents
from nearcast.coordinator.decisions import Why
from nearcast.coordinator.foresight import Foreseeing, Foresight
from nearcast.coordinator.homes import SubscriberHomes
from nearcast.coordinator.journal import Journal
from nearcast.coordinator.reports import Reports
from nearcast.domain.decision import OPERATOR
from nearcast.domain.errors import NearcastError, StoreDown, StoreError
from nearcast.domain.snapshot_json import write_snapshot
from nearcast.domain.task import MOST_TASKS, Task
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.brokers import BrokerOrder
from nearcast.wire.control import Answered, Change, DryRun, LoadOrder, MoveOrder, Order, Outcome, Status, StatusOrder
from nearcast.wire.homes import HomesOrder
from nearcast.wire.logs import KeepOrder
from nearcast.wire.places import PlacesOrder, PlacesTold
from nearcast.wire.processors import ProcessOrder
from nearcast.wire.promises import PART_BYTES, PromiseOrder, SnapshotOrder, SnapshotPart, StandingOrder
from nearcast.wire.rebalancing import RebalanceOrder

Answer = Callable[[str, Answered], None]
"""To this asker."""

_log = logging.getLogger(__name__)


def task_id(asker: str, number: int) -> str:
    """What an order is written down as; names of askers are unique."""
    return f"{asker}.{number}"


def described(order: Change) -> tuple[str, str]:
    """What is ordered, in words, and of what."""
    match order:
        case MoveOrder():
            delegated = f", delegated from {', '.join(order.delegation.homes)}" if order.delegation else ""
            return f"move to {order.strategy.value} on {', '.join(order.brokers)}{delegated}", f"topic {order.topic}"
        case BrokerOrder():
            return f"{order.do} broker" if order.do != "cancel" else "cancel the drain", f"broker {order.broker}"
        case PromiseOrder():
            return f"promise {order.slo or 'nothing'}", f"topic {order.topic}"
        case KeepOrder():
            return "keep messages", f"topic {order.topic}"
        case ProcessOrder():
            return f"process by {order.processor}" if order.processor else "process no more", f"topic {order.topic}"
        case RebalanceOrder():
            return f"{order.do} rebalance", f"plan {order.plan}" if order.plan else "plan"


def over(task: Task, now_s: float, refused: str = "", *, outcome: str = "", epoch: int = 0) -> Task:
    """As it is when it has been carried out, or refused."""
    took_s = round(max(0.0, now_s - task.at_s), 3)
    if refused:
        return replace(task, state="refused", outcome=refused, took_s=took_s)
    return replace(task, state="done", outcome=f"epoch {epoch}" if epoch else outcome, took_s=took_s, epoch=epoch)


class Asked(Foreseeing, Protocol):
    """The coordinator, as its operators see it."""

    name: str
    agents: Agents
    reports: Reports
    homes: SubscriberHomes


class Orders:
    def __init__(self, leader: Asked, answer: Answer, journal: Journal, clock: Clock, crew: Crew) -> None:
        self._leader = leader
        self._answer = answer
        self._journal = journal
        self._clock = clock
        self._crew = crew
        self._foresight = Foresight(leader, clock)
        self._unwritten: deque[Task] = deque(maxlen=MOST_TASKS)
        self._writing = False

    def take(self, order: Order) -> None:
        leader = self._leader
        match order:
            case MoveOrder() | BrokerOrder() | PromiseOrder() | KeepOrder() | ProcessOrder():
                self._crew.start(self._carry_out(order), f"order {order.number} of {order.asker}")
            case LoadOrder():
                self._answer(order.asker, leader.reports.answer(order, self._clock.now()))
            case RebalanceOrder():
                found = leader.rebalancer.answer(order)
                self._answer(order.asker, found)
                if order.do in {"apply", "stop"}:
                    self._note_soon(over(self._task(order), self._clock.wall(), found.refused))
            case DryRun():
                self._answer(order.asker, self._foresight.answer(order))
            case StatusOrder():
                self._answer(order.asker, self._status(order.number))
            case StandingOrder():
                self._answer(order.asker, leader.promises.answer(order, leader.places, self._clock.now()))
            case PlacesOrder():
                places = leader.places.with_topic(order.topic, self._clock.now())
                self._answer(order.asker, PlacesTold(order.number, places))
            case HomesOrder():
                self._answer(order.asker, leader.homes.answer(order))
            case SnapshotOrder():
                for part in self._snapshot(order.number):
                    self._answer(order.asker, part)

    async def _carry_out(self, order: MoveOrder | BrokerOrder | PromiseOrder | KeepOrder | ProcessOrder) -> None:
        epoch, task = 0, self._task(order)
        self._note_soon(task)
        try:
            match order:
                case MoveOrder():
                    why = Why(OPERATOR, f"asked for by operator {order.asker}" + (order.reason and f": {order.reason}"))
                    decided = self._leader.decisions.move
                    epoch = await decided(
                        order.topic, order.strategy, order.brokers, why, eager=order.eager, delegation=order.delegation
                    )
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
            self._note_soon(over(task, self._clock.wall(), str(error)))
        else:
            self._answer(order.asker, Outcome(order.number, epoch))
            goes_on = "written; it goes on by itself" if isinstance(order, BrokerOrder) else ""
            self._note_soon(over(task, self._clock.wall(), outcome=goes_on, epoch=epoch))

    def _task(self, order: Change) -> Task:
        what, subject = described(order)
        at_s = round(self._clock.wall(), 3)
        return Task(task_id(order.asker, order.number), at_s, order.asker, what, subject, order.reason)

    def _note_soon(self, task: Task) -> None:
        """In the order in which they came; nobody waits for it."""
        self._unwritten.append(task)
        if not self._writing:
            self._writing = True
            self._crew.start(self._write_all(), "orders are written down")

    async def _write_all(self) -> None:
        try:
            while self._unwritten:
                task = self._unwritten[0]
                try:
                    await self._journal.note(task)
                except StoreDown:
                    await self._clock.sleep(self._leader.timing.retry_s)
                    continue
                except StoreError as error:
                    _log.error("an order is not written down: %s", error)
                if self._unwritten and self._unwritten[0] is task:  # else so many came meanwhile that it was dropped
                    self._unwritten.popleft()
        finally:
            self._writing = False

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
