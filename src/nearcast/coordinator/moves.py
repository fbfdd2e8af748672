"""The moves of all topics: what their machines say is written, then done."""

import asyncio
from collections.abc import Callable, Iterable

from nearcast.control.agenda import Agenda
from nearcast.control.instructions import Command, Instruction
from nearcast.control.move import SAME, Move, OpenSegment, Same, Save, SealSegment
from nearcast.coordinator.leader import Leader
from nearcast.coordinator.records import Records
from nearcast.domain.errors import Conflict, LeaseLost, MoveRefused, StoreDown
from nearcast.domain.log import TopicLog
from nearcast.domain.processor import Processor
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew


class Moves:
    """`saved` is told of every record that is written, `see_to` of segments of logs that a move opens or seals, and
    `changed` that `next_s` may have."""

    def __init__(
        self,
        leader: Leader,
        clock: Clock,
        crew: Crew,
        *,
        saved: Callable[[TopicRecord], None],
        see_to: Callable[[str, Move, OpenSegment | SealSegment], None],
        changed: Callable[[], None],
    ) -> None:
        self.machines: dict[str, Move] = {}
        self._leader = leader
        self._clock = clock
        self._crew = crew
        self._saved = saved
        self._see_to = see_to
        self._changed = changed
        self._agenda = Agenda()  # when each topic's move wants to be woken
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}  # who waits for a topic's move

    # Of a term

    def taken_over(self, records: Iterable[TopicRecord]) -> None:
        self.machines, self._agenda = {}, Agenda()
        for record in records:
            self.machines[record.topic] = self._machine(record, self._leader.ring.owner(record.topic))

    def resume(self, term: int) -> None:
        """Rule 10: every unfinished move is rolled forward."""
        now = self._clock.now()
        for topic, move in list(self.machines.items()):
            for broker in move.participants:
                self._leader.agents.expect(broker, now)
            self.do(topic, move.resume(term))

    def forget(self) -> None:
        self.machines, self._agenda = {}, Agenda()
        for topic in list(self._waiting):
            self._wake(topic)

    # Orders

    def begin(
        self,
        topic: str,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool,
        log: TopicLog | None,
        processor: Processor | Same | None = SAME,
        delegation: Delegation | Same | None = SAME,
    ) -> None:
        """Raises MoveRefused, ConfigError."""
        move = self.machines.get(topic) or self._implied(topic)
        begun = move.begin(strategy, brokers, eager=eager, log=log, processor=processor, delegation=delegation)
        self.machines[topic] = move
        self.do(topic, begun)

    def foreseen(self, topic: str, strategy: Strategy, brokers: tuple[str, ...]) -> tuple[Route, Route]:
        """Where the topic is, and where a move would bring it; nothing begins. Raises MoveRefused."""
        move = self.machines.get(topic) or self._implied(topic)
        return move.record.newest, move.target(strategy, brokers)[0]

    async def told(self, topic: str) -> int:
        """The epoch of the move that was just begun, when every agent has been told.

        Raises MoveRefused when a new broker's agent was lost before anybody was told, and LeaseLost when this
        coordinator stopped leading meanwhile.
        """
        move = self.machines[topic]
        epoch, brokers = move.record.newest.epoch, move.record.newest.brokers
        while self.machines.get(topic) is move and not (move.draining or move.finished):
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(topic, []).append(waiting)
            await waiting
        if self.machines.get(topic) is not move:
            raise LeaseLost(f"topic {topic!r}: another coordinator leads now, and goes on with the move")
        if move.cancelled == epoch:
            lost = f"while it moved to {', '.join(brokers)}, an agent there was lost"
            raise MoveRefused(f"topic {topic!r} is back where it was: {move.refusal or lost}")
        return epoch

    def movable(self, topic: str) -> bool:
        move = self.machines.get(topic)
        return move is None or move.draining or move.finished

    # Time

    def next_s(self) -> float:
        return self._agenda.next_s()

    def tick(self, now: float) -> None:
        for topic in self._agenda.due(now):
            self.do(topic, self.machines[topic].tick(now))

    # Instructions

    def do_all(self, step: Callable[[Move], list[Instruction]]) -> None:
        """What is said to every topic's machine."""
        for topic, move in list(self.machines.items()):
            self.do(topic, step(move))

    def do(self, topic: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Save(record):
                    self._crew.start(self._save(self._leader.records, self.machines[topic], record), f"save {topic}")
                case Command(broker, message):
                    self._leader.say(broker, message)
                case OpenSegment() | SealSegment():
                    self._see_to(topic, self.machines[topic], instruction)
                case _:
                    raise AssertionError(f"a coordinator does not {instruction}")
        self._agenda.set(topic, self.machines[topic].wake_s())
        self._changed()
        self._wake(topic)

    async def _save(self, records: Records, move: Move, record: TopicRecord) -> None:
        while self._is_current(record.topic, move):
            try:
                await records.save(record)
            except Conflict:
                if self.machines.get(record.topic) is move:
                    self._leader.step_down()  # another leads, or wrote late what it began when it did
                return
            except StoreDown:
                await self._clock.sleep(self._leader.timing.retry_s)
                continue
            self._saved(record)
            if self._is_current(record.topic, move):  # else another has taken over, and acts on what we wrote
                self.do(record.topic, move.saved(self._clock.now()))
            return

    def _is_current(self, topic: str, move: Move) -> bool:
        return self._leader.leading and self.machines.get(topic) is move

    def _implied(self, topic: str) -> Move:
        """Of a topic that has no record: it is where the ring says."""
        leader = self._leader
        assert leader.term is not None
        owner = leader.ring.owner(topic)
        leader.agents.expect(owner, self._clock.now())
        lost = (owner,) if leader.agents.away(owner) else ()
        implied = TopicRecord(topic, Phase.DONE, (Route(0, Strategy.SINGLE, (owner,)),), 0, leader.term, lost)
        return self._machine(implied, owner)

    def _machine(self, record: TopicRecord, directory: str) -> Move:
        return Move(record, directory, self._leader.timing, self._leader.rules, self._leader.book)

    def _wake(self, topic: str) -> None:
        for each in self._waiting.pop(topic, ()):
            if not each.done():
                each.set_result(None)
