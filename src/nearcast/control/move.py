"""The move of one topic, as its coordinator sees it.

    Preparing --all acknowledged--> Told --all acknowledged--> Draining --all quiet--> Done

Rule 1: nobody is told before everybody is prepared. Rule 10: forward only; each phase is written before it is acted
on, so that the next leader finds where to go on, and to cancel is a further move, back, with a new epoch. While the
old brokers drain, the next move may begin: its transition takes their agents in.

An agent whose lease ran out is not waited for. Its broker is `lost` to the topic: subscribers are told so, until the
agent is back, has caught up, and its own clients have had a lease's time to hear of it.
"""

from __future__ import annotations

import enum
import math
from dataclasses import replace

from nearcast.control.instructions import Command, Instruction
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.timing import Timing
from nearcast.domain.broker import NO_BOOK, Book, addresses_in
from nearcast.domain.errors import MoveRefused
from nearcast.domain.log import TopicLog
from nearcast.domain.processor import Processor
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.route import Delegation, Route, Strategy, brokers_of, route
from nearcast.wire.control import Ack, Prepare, Quiet, Release, Tell


class Same(enum.Enum):
    """Unlike None, which says that there is to be none."""

    SAME = enum.auto()


SAME = Same.SAME


class Save(Instruction, frozen=True):
    """Write this record by compare-and-set; then call `saved`."""

    record: TopicRecord


class OpenSegment(Instruction, frozen=True):
    """Make the segment of this epoch, if it is not there; then call `opened`, or `unopened` when it cannot be made."""

    log: TopicLog
    epoch: int


class SealSegment(Instruction, frozen=True):
    """Nobody writes to this epoch's segment any more: find out where it ends; then call `sealed`."""

    log: TopicLog
    epoch: int


class Move:
    __slots__ = (
        "_back_s",
        "_catching_up",
        "_ends",
        "_lost_are_quiet",
        "_quiet",
        "_saving",
        "_sealing",
        "_sent_s",
        "_told_s",
        "_unopened",
        "_waiting",
        "book",
        "cancelled",
        "directory",
        "record",
        "refusal",
        "rules",
        "timing",
    )

    def __init__(
        self, record: TopicRecord, directory: str, timing: Timing, rules: Rules = ALL_ON, book: Book = NO_BOOK
    ) -> None:
        """`directory`: the ring's owner of the topic, whose agent answers those who know nothing.

        `book`: the addresses, as they are now, of brokers that came later than the files which processes have.
        """
        self.record = record
        self.book = book
        self.directory = directory
        self.timing = timing
        self.rules = rules
        self.cancelled: int | None = None  # the epoch last taken back
        self.refusal = ""  # why, when it was not for an agent
        self._unopened = record.log is not None  # the newest segment may have to be made
        self._sealing: dict[int, None] = {}
        self._ends: dict[int, int] = {}  # of segments, found and not yet written
        self._saving = False
        self._sent_s = -math.inf
        self._told_s = math.inf
        self._lost_are_quiet = False  # told so long ago that nobody beside a lost agent can still use an old route
        self._waiting: dict[str, None] = {}
        self._quiet: dict[str, None] = {}
        self._catching_up: dict[str, None] = {}
        self._back_s: dict[str, float] = {}  # a lost broker's agent is back since

    @property
    def draining(self) -> bool:
        return self.record.phase is Phase.TOLD and not self._waiting and not self._saving

    @property
    def finished(self) -> bool:
        return self.record.phase is Phase.DONE and not self._waiting and not self._saving

    @property
    def participants(self) -> tuple[str, ...]:
        return tuple(sorted({*brokers_of(self.record.routes), *self.record.leaving, self.directory}))

    @property
    def _present(self) -> tuple[str, ...]:
        """Whose agents answer: also those that are back and still `lost` to subscribers, or they would be left out."""
        lost = [broker for broker in self.record.lost if broker not in self._back_s]
        return tuple(broker for broker in self.participants if broker not in lost)

    # Orders

    def begin(
        self,
        strategy: Strategy,
        brokers: tuple[str, ...],
        *,
        eager: bool = True,
        log: TopicLog | None = None,
        processor: Processor | Same | None = SAME,
        delegation: Delegation | Same | None = SAME,
    ) -> list[Instruction]:
        """Starts the next transition. One unfinished transition per topic: the one before must at least be draining.

        With `log`, the topic is persistent from the new epoch on. With `processor`, it is processed like that, or not.
        Of a homed route, `delegation` says who publishes elsewhere than at home. Raises MoveRefused, ConfigError.
        """
        target, log = self.target(strategy, brokers, log, processor, delegation)
        routes = (*self.record.routes, target)
        leaving = tuple(broker for broker in self.record.leaving if broker in self.record.lost)
        return self._save(
            replace(self.record, phase=Phase.PREPARING, routes=routes, leaving=leaving, eager=eager, log=log)
        )

    def target(
        self,
        strategy: Strategy,
        brokers: tuple[str, ...],
        log: TopicLog | None = None,
        processor: Processor | Same | None = SAME,
        delegation: Delegation | Same | None = SAME,
    ) -> tuple[Route, TopicLog | None]:
        """Where the next transition would lead; nothing begins. Raises MoveRefused."""
        if not (self.draining or self.finished):
            raise MoveRefused(
                f"topic {self.record.topic!r} is still being moved to epoch {self.record.newest.epoch}"
                f" ({self.record.phase}); wait until it is draining"
            )
        kept = self.record.newest.processor if processor is SAME else processor
        if delegation is SAME:
            delegation = self._delegation(strategy, brokers)
        target = route(self.record.newest.epoch + 1, strategy, brokers, kept, delegation)
        lost = [broker for broker in target.brokers if broker in self.record.lost]
        if lost:
            raise MoveRefused(f"topic {self.record.topic!r} cannot move to {lost[0]!r}: its agent does not answer")
        log = log or self.record.log
        if log is not None:
            if kept is not None:
                raise MoveRefused(
                    f"topic {self.record.topic!r} is persistent: its messages are written to its log and read from"
                    " there, and nobody processes them in between"
                )
            if strategy is not Strategy.SINGLE:
                raise MoveRefused(
                    f"topic {self.record.topic!r} is persistent: its log is written at one broker, and {strategy} has"
                    " several"
                )
            log = log.opened(target.epoch, target.brokers[0])
        return target, log

    def _delegation(self, strategy: Strategy, brokers: tuple[str, ...]) -> Delegation | None:
        """What is left of the present one on these brokers."""
        now = self.record.newest.delegation
        if now is None or strategy is not Strategy.HOMED or now.cloud not in brokers:
            return None
        homes = tuple(home for home in now.homes if home in brokers)
        return Delegation(now.cloud, homes) if homes else None

    def resume(self, term: int) -> list[Instruction]:
        """A new leader goes on where the one before stopped."""
        return self._save(replace(self.record, term=term))

    def saved(self, now: float) -> list[Instruction]:
        """The record is durable: act on it."""
        self._saving = False
        if self._hopeless:
            return self._cancel()
        if self.record.phase is Phase.TOLD:
            self._told_s, self._lost_are_quiet = now, False
        self._quiet.clear()
        self._waiting = dict.fromkeys(self._present)
        out = [*self._see_to_log(), *map(self._prepare, self._catching_up), *self._command_waiting(now)]
        if self.record.phase is Phase.PREPARING and not self.rules.prepare_first:
            return out + self._advance(force=True)
        return out + self._advance()

    # The log of a persistent topic

    def opened(self, epoch: int) -> list[Instruction]:
        """The segment is there: clients may learn of it."""
        if epoch == self.record.newest.epoch:
            self._unopened = False
        return self._advance()

    def unopened(self, epoch: int, why: str) -> list[Instruction]:
        """It cannot be made at the new broker: back, as when its agent is lost."""
        if epoch != self.record.newest.epoch or self.record.phase is not Phase.PREPARING or self._saving:
            return []
        self.refusal = why
        return self._cancel()

    def sealed(self, epoch: int, end: int) -> list[Instruction]:
        self._ends[epoch] = end
        return self._write_ends()

    def rewrite(self, log: TopicLog) -> list[Instruction]:
        """Segments were removed, or are kept for another time. Call only when `finished`."""
        return self._save(replace(self.record, log=log))

    def _see_to_log(self) -> list[Instruction]:
        """What a segment needs: to be made before anybody is told of it, and an end once its epoch is over."""
        log, record = self.record.log, self.record
        if log is None:
            return []
        out: list[Instruction] = []
        if self._unopened and record.phase is Phase.PREPARING:
            out.append(OpenSegment(log, record.newest.epoch))
        over = [each.epoch for each in log.segments if each.end is None and each.epoch < record.routes[0].epoch]
        for epoch in [epoch for epoch in over if epoch not in self._sealing]:
            self._sealing[epoch] = None
            out.append(SealSegment(log, epoch))
        return out

    def _write_ends(self) -> list[Instruction]:
        """At once when nothing moves; else with the next step that is written."""
        return self._save(self.record) if self._ends and self.finished else []

    # What agents say

    def ack(self, message: Ack, now: float) -> list[Instruction]:
        if message.epoch != self.record.newest.epoch or self._saving:
            return []
        out: list[Instruction] = []
        if message.of == "prepare" and message.broker in self._catching_up:
            out += self._caught_up(message.broker, now)
        if message.of == {Phase.PREPARING: "prepare", Phase.TOLD: "tell", Phase.DONE: "release"}[self.record.phase]:
            self._waiting.pop(message.broker, None)
        return out + self._advance() + self._write_ends()

    def quiet(self, message: Quiet) -> list[Instruction]:
        if message.epoch == self.record.newest.epoch and self.record.phase is Phase.TOLD:
            self._quiet[message.broker] = None
        return self._advance()

    def agent_lost(self, broker: str) -> list[Instruction]:
        """The agent's lease is out: go on without it, and say so."""
        if broker not in self.participants:
            return []
        self._catching_up.pop(broker, None)
        self._back_s.pop(broker, None)
        self._waiting.pop(broker, None)
        out: list[Instruction] = []
        if broker not in self.record.lost:
            self.record = replace(self.record, lost=tuple(sorted((*self.record.lost, broker))))
            out += self._announce_lost()
        if self._hopeless and not self._saving:
            return out + self._cancel()
        return out + self._advance()

    def agent_back(self, broker: str) -> list[Instruction]:
        """It starts from nothing, or has slept: it is prepared again and told what it missed.

        Rule 1: what it acknowledged before, it may have forgotten, and nobody is told until it has said so again.
        """
        if broker in self.participants and self.record.phase is Phase.PREPARING and not self._saving:
            self._waiting[broker] = None
        return self._catch_up(broker)

    def _catch_up(self, broker: str) -> list[Instruction]:
        if broker not in self.participants:
            return []
        self._catching_up[broker] = None
        return [] if self._saving else [self._prepare(broker)]

    def redirect(self, directory: str) -> list[Instruction]:
        """The ring gives the topic to another now: its agent is prepared, the one before is not waited for."""
        before, self.directory = self.directory, directory
        if before == directory:
            return []
        if before not in self.participants:
            self._waiting.pop(before, None)
            self._catching_up.pop(before, None)
        return [*self._catch_up(directory), *self._advance()]

    def forget(self, broker: str) -> None:
        """It has left the fleet, and the topic before that: nobody waits for its agent again."""
        if broker not in brokers_of(self.record.routes) and broker != self.directory:
            leaving, lost = (tuple(b for b in each if b != broker) for each in (self.record.leaving, self.record.lost))
            self.record = replace(self.record, leaving=leaving, lost=lost)
            self._waiting.pop(broker, None)
            self._catching_up.pop(broker, None)
            self._back_s.pop(broker, None)

    def catching_up(self, broker: str) -> bool:
        return broker in self._catching_up

    # Time

    def wake_s(self) -> float:
        wake_s = min(self._back_s.values(), default=math.inf) + self.timing.lease_s
        if self._unanswered:
            wake_s = min(wake_s, self._sent_s + self.timing.retry_s)
        if self._waits_for_lost:
            wake_s = min(wake_s, self._told_s + self.timing.quiet_s)
        return wake_s

    @property
    def _waits_for_lost(self) -> bool:
        return self.record.phase is Phase.TOLD and bool(self.record.lost) and not self._lost_are_quiet

    def tick(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        if self._waits_for_lost and now >= self._told_s + self.timing.quiet_s:
            self._lost_are_quiet = True
            out += self._advance()
        if self._unanswered and now >= self._sent_s + self.timing.retry_s:
            out += [*map(self._prepare, self._catching_up), *self._command_waiting(now)]
        for broker, back_s in list(self._back_s.items()):
            if now >= back_s + self.timing.lease_s:
                del self._back_s[broker]
                self.record = replace(self.record, lost=tuple(b for b in self.record.lost if b != broker))
                out += self._announce_lost()
        return out

    @property
    def _unanswered(self) -> bool:
        return not self._saving and bool(self._waiting or self._catching_up)

    # Steps

    def _command_waiting(self, now: float) -> list[Instruction]:
        """A command or its acknowledgement may be lost with a connection: said again until it is acknowledged."""
        self._sent_s = now
        commands = {Phase.PREPARING: self._prepare, Phase.TOLD: self._tell, Phase.DONE: self._release}
        return [commands[self.record.phase](broker) for broker in self._waiting]

    def _advance(self, *, force: bool = False) -> list[Instruction]:
        if self._saving or (self._waiting and not force):
            return []
        record = self.record
        if record.phase is Phase.PREPARING:
            if record.log is not None and self._unopened:
                return []
            return self._save(replace(record, phase=Phase.TOLD, told=record.newest.epoch))
        if record.phase is Phase.TOLD and self._all_quiet():
            leaving = tuple(b for b in self.participants if b not in record.newest.brokers)
            return self._save(replace(record, phase=Phase.DONE, routes=(record.newest,), leaving=leaving))
        return []

    @property
    def _hopeless(self) -> bool:
        """Nobody has been told yet, and an agent that only the new route needs is lost."""
        record = self.record
        new = [broker for broker in record.newest.brokers if broker not in record.current.brokers]
        return record.phase is Phase.PREPARING and any(broker in record.lost for broker in new)

    def _all_quiet(self) -> bool:
        members = brokers_of(self.record.routes)
        lost = self.record.lost if self._lost_are_quiet else ()
        return all(broker in self._quiet or broker in lost for broker in members)

    def _save(self, record: TopicRecord) -> list[Instruction]:
        ends, self._ends = self._ends, {}
        log = record.log
        for epoch, end in ends.items():
            log = log and log.ended(epoch, end)
        if record.newest.epoch != self.record.newest.epoch:
            self._unopened = log is not None
        self.record = record = replace(record, log=log)
        self._saving = True
        return [Save(record)]

    def _cancel(self) -> list[Instruction]:
        """Rule 10: back is forward too. The route that clients know becomes the newest, under a new epoch."""
        record = self.record
        self.cancelled = record.newest.epoch
        current = record.current
        back = route(record.newest.epoch + 1, current.strategy, current.brokers, current.processor, current.delegation)
        was_persistent = record.log is not None and record.log.segment(record.told) is not None
        log = None
        if record.log is not None and was_persistent:  # nobody was told of the segment that is given up
            log = record.log.ended(record.newest.epoch, 0).opened(back.epoch, back.brokers[0])
        return self._save(replace(record, routes=(*record.routes, back), log=log))

    def _announce_lost(self) -> list[Instruction]:
        if self.record.phase is Phase.PREPARING or self._saving:
            return []
        return [self._tell(broker) for broker in self._present]

    def _caught_up(self, broker: str, now: float) -> list[Instruction]:
        del self._catching_up[broker]
        out: list[Instruction] = []
        if self.record.phase is not Phase.PREPARING:
            out.append(self._tell(broker))
        if self.record.phase is Phase.DONE:
            out.append(self._release(broker))
        if broker in self.record.lost:
            self._back_s[broker] = now
        return out

    def _prepare(self, broker: str) -> Command:
        r = self.record
        addresses = addresses_in(self.book, brokers_of(r.routes))
        return Command(broker, Prepare(r.topic, r.term, r.newest.epoch, r.routes, r.told, r.lost, addresses, r.log))

    def _tell(self, broker: str) -> Command:
        r = self.record
        return Command(broker, Tell(r.topic, r.term, r.newest.epoch, r.lost, r.eager))

    def _release(self, broker: str) -> Command:
        r = self.record
        return Command(broker, Release(r.topic, r.term, r.newest.epoch, r.log))
