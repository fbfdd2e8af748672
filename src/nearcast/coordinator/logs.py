"""The logs of persistent topics: segments are made before a topic is there, sealed when it has left, and removed."""

import logging
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nearcast.brokers.log import LogSite, LogSites, SegmentState
from nearcast.control.instructions import Instruction
from nearcast.control.move import Move, OpenSegment, SealSegment
from nearcast.coordinator.leader import Leader
from nearcast.domain.errors import ConfigError, LogDown, LogRefused, MoveRefused
from nearcast.domain.log import LogSpec, Segment, TopicLog
from nearcast.domain.route import Strategy
from nearcast.domain.topic import validate_topic
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.logs import KeepOrder

TEND_S = 30.0  # how often it is looked what retention removes
_RETRY_S = 0.5
_log = logging.getLogger(__name__)


class Logs:
    """Of this leader. Everything it does may be done twice: a leader that dies in between is followed by another.

    Not promised: that a stream which no record names any more is removed, when the leader died before it did so.
    """

    def __init__(self, leader: Leader, sites: LogSites | None, clock: Clock, crew: Crew) -> None:
        """`sites` None: this fleet keeps no logs."""
        self._leader = leader
        self._sites = sites
        self._clock = clock
        self._crew = crew

    def start(self) -> None:
        if self._sites is not None:
            self._crew.start(self._tend(), "retention")

    async def carry_out(self, order: KeepOrder) -> int:
        """The epoch since which the topic is persistent. Raises LogRefused, MoveRefused, TopicNameError, LeaseLost."""
        topic, spec = order.topic, order.spec
        move, broker = self._checked(order)
        if move is not None and move.record.log is not None:
            return await self._change(move, spec)
        epoch = 0 if move is None else move.record.newest.epoch
        log = TopicLog(secrets.token_hex(8), spec)
        # What cannot be kept is refused before anything is written.
        await self._site(broker).open_segment(log.name(epoch + 1), topic, spec)
        return await self._leader.move(topic, Strategy.SINGLE, (broker,), stay=True, log=log)

    def foreseen(self, order: KeepOrder) -> str:
        """What carrying it out would do. Raises as that does, but for what only the servers can refuse."""
        move, broker = self._checked(order)
        if move is not None and move.record.log is not None:
            return f"it is persistent already: how long messages are kept changes, at {broker} and wherever it was"
        spec = order.spec
        return f"kept at {broker}: a message is acknowledged when {spec.quorum} of {spec.replicas} replicas have it"

    def must_take(self, topic: str, broker: str) -> None:
        """Raises MoveRefused for a persistent topic and a broker that keeps none."""
        move = self._leader.moves.get(topic)
        if move is not None and move.record.log is not None:
            try:
                self._site(broker)
            except LogRefused as error:
                raise MoveRefused(f"topic {topic!r} cannot move to {broker!r}: {error}") from error

    def see_to(self, topic: str, move: Move, instruction: OpenSegment | SealSegment) -> None:
        if isinstance(instruction, OpenSegment):
            work = self._open(topic, move, instruction)
        else:
            work = self._seal(topic, move, instruction)
        self._crew.start(work, f"segment {instruction.epoch} of {topic}")

    # Within

    def _checked(self, order: KeepOrder) -> tuple[Move | None, str]:
        """The topic's move, if it has one, and the broker where it is."""
        leader, topic = self._leader, validate_topic(order.topic)
        leader.must_lead()
        move = leader.moves.get(topic)
        if move is None:
            broker = leader.ring.owner(topic)
        elif move.record.newest.strategy is not Strategy.SINGLE:
            raise LogRefused(
                f"topic {topic!r} is {move.record.newest.strategy} on several brokers; move it to one, then make it"
                " persistent"
            )
        else:
            broker = move.record.newest.brokers[0]
        if move is not None and move.record.log is not None:
            self._must_be_changeable(move, order.spec)
        self._site(broker)
        return move, broker

    def _must_be_changeable(self, move: Move, spec: LogSpec) -> None:
        """Retention can be changed; where replicas are is decided when a segment is made."""
        topic, log = move.record.topic, move.record.log
        assert log is not None
        if spec.replicas != log.spec.replicas:
            raise LogRefused(f"topic {topic!r} has {log.spec.replicas} replicas; their number cannot be changed")
        if not move.finished:
            raise MoveRefused(f"topic {topic!r} is being moved; change how long it is kept when that is over")

    async def _change(self, move: Move, spec: LogSpec) -> int:
        topic, log = move.record.topic, move.record.log
        assert log is not None
        for segment in [each for each in log.segments if not each.empty]:
            await self._site(segment.broker).limit(log.name(segment.epoch), topic, spec)
        self._leader.do(topic, move.rewrite(replace(log, spec=spec)))
        return move.record.newest.epoch

    async def _open(self, topic: str, move: Move, order: OpenSegment) -> None:
        segment = order.log.segment(order.epoch)
        assert segment is not None
        name, given_up_s = order.log.name(order.epoch), self._clock.now() + self._leader.timing.quiet_s
        stays = segment.broker in move.record.current.brokers
        while self._acts(topic, move) and move.record.newest.epoch == order.epoch:
            try:
                await self._site(segment.broker).open_segment(name, topic, order.log.spec)
            except (LogDown, LogRefused) as error:
                if not stays and (isinstance(error, LogRefused) or self._clock.now() > given_up_s):
                    self._do(topic, move, partial(move.unopened, order.epoch, str(error)))
                    return
                _log.warning("topic %r: segment %d cannot be made now: %s", topic, order.epoch, error)
                await self._clock.sleep(_RETRY_S)
            else:
                self._do(topic, move, partial(move.opened, order.epoch))
                return

    async def _seal(self, topic: str, move: Move, order: SealSegment) -> None:
        segment = order.log.segment(order.epoch)
        assert segment is not None
        # Whoever was given a lease on the epoch by an agent that was cut off has lost it by then.
        await self._clock.sleep(self._leader.timing.quiet_s)
        pause_s = _RETRY_S
        while self._acts(topic, move):
            try:
                end = await self._site(segment.broker).seal(order.log.name(order.epoch))
            except (LogDown, LogRefused) as error:
                _log.warning("topic %r: segment %d cannot be sealed now: %s", topic, order.epoch, error)
                await self._clock.sleep(pause_s)
                pause_s = min(2 * pause_s, TEND_S)
            else:
                self._do(topic, move, partial(move.sealed, order.epoch, end))
                return

    async def _tend(self) -> None:
        while True:
            await self._clock.sleep(TEND_S)
            for topic, move in list(self._leader.moves.items()):
                if self._acts(topic, move) and move.record.log is not None and move.finished:
                    try:
                        await self.tend(topic, move)
                    except (LogDown, LogRefused) as error:
                        _log.warning("topic %r: retention cannot be seen to now: %s", topic, error)

    async def tend(self, topic: str, move: Move) -> None:
        """Removes what the topic's limits no longer keep: whole segments here, the rest is the servers' affair."""
        log = move.record.log
        assert log is not None
        states = [await self._state(log, segment) for segment in log.segments]
        over = droppable(log, states)
        if over and move.finished and self._acts(topic, move):
            self._leader.do(topic, move.rewrite(log.without(over)))
            await self._until_finished(topic, move)
        for segment in log.segments:
            if self._acts(topic, move) and (segment.empty or segment.epoch in over):
                await self._site(segment.broker).remove(log.name(segment.epoch))

    async def _until_finished(self, topic: str, move: Move) -> None:
        """What is not written yet may not be removed."""
        while self._acts(topic, move) and not move.finished:
            await self._clock.sleep(_RETRY_S)

    async def _state(self, log: TopicLog, segment: Segment) -> SegmentState | None:
        return None if segment.empty else await self._site(segment.broker).state(log.name(segment.epoch))

    def _site(self, broker: str) -> LogSite:
        if self._sites is None:
            raise LogRefused("this fleet keeps no logs: its coordinators were started without a way to its brokers")
        try:
            return self._sites.at(broker)
        except ConfigError as error:
            raise LogRefused(f"broker {broker!r} keeps no logs: {error}") from error

    def _acts(self, topic: str, move: Move) -> bool:
        return self._leader.leading and self._leader.moves.get(topic) is move

    def _do(self, topic: str, move: Move, step: Callable[[], list[Instruction]]) -> None:
        if self._acts(topic, move):
            self._leader.do(topic, step())


def droppable(log: TopicLog, states: list[SegmentState | None]) -> tuple[int, ...]:
    """The oldest segments that the limits do not keep: sealed, and all of it removed by age or outnumbered by newer."""
    spec, out = log.spec, []
    for at, (segment, state) in enumerate(zip(log.segments, states, strict=True)):
        newer = [each for each in states[at + 1 :] if each is not None]
        if segment.end is None or at == len(log.segments) - 1:
            break
        aged = spec.retain_s is not None and state is not None and not state.records
        many = spec.retain_messages is not None and sum(each.records for each in newer) >= spec.retain_messages
        large = spec.retain_bytes is not None and sum(each.size_bytes for each in newer) >= spec.retain_bytes
        if not (segment.empty or aged or many or large):
            break
        out.append(segment.epoch)
    return tuple(out)
