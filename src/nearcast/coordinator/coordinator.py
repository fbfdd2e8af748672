"""The coordinator: leader by lease, the moves of all topics, the leases of all agents.

Any number may run; one leads. A leader writes before it acts, and acts only while its own lease holds; a new one
reads the records and rolls every unfinished move forward (rule 10).
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable

from nearcast.brokers.link import Connect
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.control.instructions import Command, Instruction
from nearcast.control.loop import LoopSettings
from nearcast.control.move import Move, Save
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.timing import Timing
from nearcast.coordinator.agents import Agents
from nearcast.coordinator.rebalancer import Rebalancer
from nearcast.coordinator.records import Records
from nearcast.coordinator.reports import Reports
from nearcast.domain.errors import Conflict, LeaseLost, MoveRefused, NearcastError, StoreDown, StoreError
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.topic import validate_topic
from nearcast.store.store import Store
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.control import (
    COORDINATOR_SUBJECT,
    Ack,
    Alive,
    Answered,
    Frozen,
    LoadOrder,
    MoveOrder,
    Outcome,
    Quiet,
    Renew,
    RingChange,
    Status,
    StatusOrder,
    ToAgent,
    agent_bus_subject,
    client_subject,
    seal,
    unseal,
)
from nearcast.wire.dialect import Dialect
from nearcast.wire.loads import Load
from nearcast.wire.rebalancing import RebalanceOrder
from nearcast.wire.rejects import Rejects

_LEADER = "leader"
_log = logging.getLogger(__name__)

OnMove = Callable[[str, int, str], None]


class Coordinator:
    """`on_move(topic, epoch, phase)` is told of every phase that is written."""

    def __init__(
        self,
        name: str,
        connect: Connect,
        store: Store,
        ring: Ring,
        *,
        bus: str,
        dialect: Dialect,
        clock: Clock,
        timing: Timing | None = None,
        rules: Rules = ALL_ON,
        on_move: OnMove | None = None,
        loop: LoopSettings | None = None,
    ) -> None:
        self.name = name
        self.rejects = Rejects()
        self.ring = ring
        self.term: int | None = None  # None while another leads
        self.moves: dict[str, Move] = {}
        self.reports = Reports()
        self._store = store
        self._bus = bus
        self._dialect = dialect
        self._clock = clock
        self._timing = timing or Timing()
        self._rules = rules
        self._on_move = on_move
        self._records = Records(store, fenced=rules.terms)  # of this term: what is late of an earlier one has its own
        self._agents = Agents(self._timing)
        self._crew = Crew()
        self._pool = LinkPool(connect, clock, self._crew, inbox=self._inbox, on_state=lambda _broker, _up: None)
        self._alarm = Alarm(clock, self._tick)
        self._lead_until_s = -math.inf
        self._frozen: dict[str, Frozen] = {}  # who has answered the ring that is announced
        self._changed: list[asyncio.Future[None]] = []
        settle_s = self._timing.retry_s + self._timing.linger_s
        self.rebalancer = Rebalancer(self, loop or LoopSettings(), clock, self._crew, settle_s)

    def start(self) -> None:
        self._pool.reach(self._bus)
        self._crew.start(self._lead(), f"leadership of {self.name}")
        self.rebalancer.start()

    async def close(self) -> None:
        """Steps down, so that another need not wait for the lease to run out."""
        self._alarm.cancel()
        await self._crew.close()
        if self.leading:
            await self._resign()
        await self._pool.close()

    async def abandon(self) -> None:
        """Ends at once, without a goodbye: what a crash looks like from outside."""
        self._alarm.cancel()
        await self._crew.close()

    @property
    def connected(self) -> bool:
        return self._pool.up(self._bus)

    @property
    def leading(self) -> bool:
        if self.term is None:
            return False
        return self._clock.now() < self._lead_until_s or not self._rules.terms

    # Orders

    def begin(self, topic: str, strategy: Strategy, brokers: tuple[str, ...], *, eager: bool = True) -> None:
        """Starts a move and returns at once. Raises MoveRefused, or LeaseLost when this coordinator does not lead."""
        self._must_lead()
        validate_topic(topic)
        for broker in brokers:
            self._agents.must_answer(broker, self._clock.now())
        move = self._move(topic)
        begun = move.begin(strategy, brokers, eager=eager)
        self.moves[topic] = move
        self._do(topic, begun)

    async def move(self, topic: str, strategy: Strategy, brokers: tuple[str, ...], *, eager: bool = True) -> int:
        """Moves a topic and returns its epoch when every agent has been told; clients follow by themselves.

        Raises as `begin` does; also MoveRefused when a new broker's agent was lost before anybody was told, and
        LeaseLost when this coordinator stopped leading meanwhile.
        """
        self.begin(topic, strategy, brokers, eager=eager)
        move = self.moves[topic]
        epoch = move.record.newest.epoch
        while self.moves.get(topic) is move and not (move.draining or move.finished):
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._changed.append(waiting)
            await waiting
        if self.moves.get(topic) is not move:
            raise LeaseLost(f"topic {topic!r}: another coordinator leads now, and goes on with the move")
        if move.cancelled == epoch:
            raise MoveRefused(
                f"topic {topic!r} is back where it was: while it moved to {', '.join(brokers)}, an agent there was lost"
            )
        return epoch

    def snapshot(self, planned_s: float | None) -> Snapshot:
        """What a policy may see now."""
        now = self._clock.now()
        routes = {topic: move.record.newest for topic, move in self.moves.items()}
        return Snapshot.of(self.reports.fresh(now), routes, self.ring, at_s=now, planned_s=planned_s)

    def unheard(self) -> list[str]:
        """Brokers whose agent is there and has not reported lately."""
        heard = {report.broker for report in self.reports.fresh(self._clock.now())}
        return [broker for broker in self._agents.present() if broker not in heard]

    def movable(self, topic: str) -> bool:
        move = self.moves.get(topic)
        return move is None or move.draining or move.finished

    async def change_ring(self, brokers: tuple[str, ...]) -> None:
        """Rule 11: topics in use that would change owner get an explicit route where they are; then the ring changes.

        Agents that are given up are not waited for: without a lease they can grant nothing, and the clients they had
        report that they were left alone.
        """
        self._must_lead()
        records, ring = self._records, Ring(brokers, self.ring.version + 1)
        if self._rules.pin_ring:
            for topic in await self._announce(ring):
                owner = self.ring.owner(topic)
                if topic not in self.moves and owner in self._agents.present():
                    await self.move(topic, Strategy.SINGLE, (owner,))
        await self._write_ring(records, ring)
        self.ring = ring
        for topic, move in self.moves.items():
            move.directory = ring.owner(topic)
            self._do(topic, move.agent_back(move.directory))
        self._tell_ring(ring, self._agents.known(), made=True)

    async def _announce(self, ring: Ring) -> list[str]:
        """Returns, when every agent has frozen them, the topics in use that no route names and that change owner."""
        self._frozen = {}
        while True:
            waiting = [broker for broker in self._agents.present() if broker not in self._frozen]
            if not waiting:
                return sorted({topic for frozen in self._frozen.values() for topic in frozen.topics})
            self._tell_ring(ring, waiting, made=False)
            await self._clock.sleep(self._timing.retry_s)
            self._must_lead()

    async def _write_ring(self, records: Records, ring: Ring) -> None:
        """Until it is known to be written: a ring that only the next leader learns of comes as a surprise to all."""
        written = False
        while not written:
            self._must_lead(records)
            try:
                await records.save_ring(ring)
                written = True
            except Conflict:
                if self._records is records:
                    self._step_down()
            except StoreDown:
                await self._clock.sleep(self._timing.retry_s)
        self._must_lead(records)

    def _tell_ring(self, ring: Ring, brokers: list[str], *, made: bool) -> None:
        assert self.term is not None
        for broker in brokers:
            self._say(broker, RingChange(self.term, ring.version, ring.brokers, made))

    # Leadership

    async def _lead(self) -> None:
        """Holds the leader's lease, or tries to get it, for ever."""
        ttl_s = self._timing.lease_s
        while True:
            asked_s = self._clock.now()
            try:
                term = await self._store.acquire(_LEADER, self.name, ttl_s)
                if term != self.term or not self.leading:
                    # Others may have led since, or we did nothing about what we heard and wrote, the lease being out.
                    self._step_down()
                if term is not None:
                    self._lead_until_s = asked_s + ttl_s
                    if term != self.term:
                        await self._take_over(term)
                    self._alarm.set(self._wake_s())
            except (StoreDown, Conflict):
                pass  # nothing moves; when our lease runs out we stop acting
            except StoreError:
                # Nobody moves a topic whose record it cannot read; a coordinator of another version may.
                _log.exception("coordinator %r cannot lead", self.name)
                await self._resign()
            await self._clock.sleep(ttl_s / 4)

    async def _take_over(self, term: int) -> None:
        records = Records(self._store, fenced=self._rules.terms)
        loaded = await records.load()
        stored = await records.load_ring()
        if stored is not None and stored.version > self.ring.version:
            self.ring = stored
        # Written anew, as every topic's record is: a write of an earlier leader that is still on its way is refused.
        await records.save_ring(self.ring)
        self._records = records
        self.term = term
        self._agents.forget(self._clock.now())
        self.moves = {}
        for record in loaded:
            self.moves[record.topic] = Move(record, self.ring.owner(record.topic), self._timing, self._rules)
        for topic, move in list(self.moves.items()):
            for broker in move.participants:
                self._agents.expect(broker, self._clock.now())
            self._do(topic, move.resume(term))
        self._alarm.set(self._wake_s())

    def _step_down(self) -> None:
        if self.term is not None and self._rules.terms:
            self.term = None
            self.moves = {}
            self.reports = Reports()
            self.rebalancer.forget()
            self._wake()

    async def _resign(self) -> None:
        with contextlib.suppress(StoreDown):  # then the lease runs out by itself
            await self._store.release(_LEADER, self.name)

    def _must_lead(self, records: Records | None = None) -> None:
        """With `records`: and has done so since they were read."""
        if not self.leading or records not in {None, self._records}:
            raise LeaseLost(f"coordinator {self.name!r} does not lead now; ask the one that does")

    # What agents say

    def _inbox(self, broker: str) -> Inbox:
        assert broker == self._bus
        return Inbox(COORDINATOR_SUBJECT, self._receive)

    def _receive(self, data: bytes) -> None:
        message = self.rejects.read(lambda: unseal(data, self._dialect), "agents")
        if not self.leading:
            return
        now = self._clock.now()
        match message:
            case Ack() if message.topic in self.moves:
                self._do(message.topic, self.moves[message.topic].ack(message, now))
            case Quiet() if message.topic in self.moves:
                self._do(message.topic, self.moves[message.topic].quiet(message))
            case Frozen() if message.version == self.ring.version + 1:
                self._frozen[message.broker] = message
            case Alive():
                self._heard(message, now)
            case MoveOrder():
                self._crew.start(self._carry_out(message), f"order {message.number} of {message.asker}")
            case Load():
                self.reports.heard(message, now)
            case LoadOrder():
                self._answer(message.asker, self.reports.answer(message, now))
            case RebalanceOrder():
                self._answer(message.asker, self.rebalancer.answer(message))
            case StatusOrder():
                self._answer(message.asker, self._status(message.number))
            case _:
                pass

    def _heard(self, message: Alive, now: float) -> None:
        """Rule 9: an agent gets its lease when it knows all it should; a new or returning one is caught up first."""
        broker = message.broker
        if self._agents.heard(message, now):
            for topic, move in list(self.moves.items()):
                self._do(topic, move.agent_back(broker))
        if any(move.catching_up(broker) for move in self.moves.values()):
            return
        assert self.term is not None
        ring = self.ring
        self._say(broker, Renew(self.term, message.asked_s, self._timing.lease_s, ring.version, ring.brokers))

    # What operators ask

    async def _carry_out(self, order: MoveOrder) -> None:
        try:
            epoch = await self.move(order.topic, order.strategy, order.brokers, eager=order.eager)
        except NearcastError as error:
            self._answer(order.asker, Outcome(order.number, 0, str(error)))
        else:
            self._answer(order.asker, Outcome(order.number, epoch))

    def _status(self, number: int) -> Status:
        assert self.term is not None
        moving = tuple(sorted(topic for topic, move in self.moves.items() if not move.finished))
        agents = self._agents.states(self._clock.now())
        return Status(
            number, self.name, self.term, agents, len(self.moves), moving, self.ring.version, self.ring.brokers
        )

    def _answer(self, asker: str, message: Answered) -> None:
        self._pool.publish(self._bus, client_subject(asker), seal(message, self._dialect))

    # Time

    def _wake_s(self) -> float:
        if not self.leading:
            return math.inf
        moves_s = min((move.wake_s() for move in self.moves.values()), default=math.inf)
        return min(moves_s, self._agents.next_loss_s())

    def _tick(self) -> None:
        if not self.leading:
            return
        now = self._clock.now()
        if not self._pool.up(self._bus):
            self._agents.deaf(now)
        for broker in self._agents.lost(now):
            self.reports.forget(broker)
            for topic, move in list(self.moves.items()):
                self._do(topic, move.agent_lost(broker))
        for topic, move in list(self.moves.items()):
            if now >= move.wake_s():
                self._do(topic, move.tick(now))
        self._alarm.set(self._wake_s())

    # Instructions

    def _move(self, topic: str) -> Move:
        move = self.moves.get(topic)
        if move is None:
            owner = self.ring.owner(topic)
            assert self.term is not None
            self._agents.expect(owner, self._clock.now())
            lost = (owner,) if self._agents.away(owner) else ()
            implied = TopicRecord(topic, Phase.DONE, (Route(0, Strategy.SINGLE, (owner,)),), 0, self.term, lost)
            move = Move(implied, owner, self._timing, self._rules)
        return move

    def _do(self, topic: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Save(record):
                    self._crew.start(self._save(self._records, self.moves[topic], record), f"save {topic}")
                case Command(broker, message):
                    self._say(broker, message)
                case _:
                    raise AssertionError(f"a coordinator does not {instruction}")
        self._alarm.set(self._wake_s())
        self._wake()

    async def _save(self, records: Records, move: Move, record: TopicRecord) -> None:
        while self.leading and self.moves.get(record.topic) is move:
            try:
                await records.save(record)
            except Conflict:
                if self.moves.get(record.topic) is move:
                    self._step_down()  # another leads, or wrote late what it began when it did
                return
            except StoreDown:
                await self._clock.sleep(self._timing.retry_s)
                continue
            if self._on_move is not None:
                self._on_move(record.topic, record.newest.epoch, record.phase)
            self._saved(move, record.topic)
            return

    def _saved(self, move: Move, topic: str) -> None:
        """Written, but while we waited another may have taken over: then it acts on what we wrote."""
        if self.leading and self.moves.get(topic) is move:
            self._do(topic, move.saved(self._clock.now()))

    def _say(self, broker: str, message: ToAgent) -> None:
        if self.leading:
            self._pool.publish(self._bus, agent_bus_subject(broker), seal(message, self._dialect))

    def _wake(self) -> None:
        changed, self._changed = self._changed, []
        for each in changed:
            if not each.done():
                each.set_result(None)
