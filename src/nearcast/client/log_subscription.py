"""A subscription to a persistent topic: what the log has from a position on, and what comes."""

import asyncio
import contextlib
from collections.abc import Callable

from nearcast.brokers.log import LogSite, LogSites, SegmentReader, Stored
from nearcast.brokers.pool import LinkPool
from nearcast.client.subscription import OnMessage, OnReport, Subscription
from nearcast.control.instructions import Instruction, Say
from nearcast.control.log_reader import LogReader, Look, Waits
from nearcast.control.log_route import LogRoute
from nearcast.domain.errors import ConfigError, LogDown, LogRefused, WireError
from nearcast.domain.log import Position, Segment
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.control import AGENT_SUBJECT, ToClient, Unsure, Welcome, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.record import Record, decode_record
from nearcast.wire.rejects import Rejects

Since = Position | float | str
"""A message's position, a time (seconds since 1970), "first" or "new"."""

FIRST, NEW = "first", "new"
_RETRY_S = 0.2


def parse_since(text: str) -> Since:
    """As people write it. Raises ConfigError."""
    if text in {FIRST, NEW}:
        return text
    try:
        return Position.parse(text) if "~" in text else float(text)
    except ValueError:
        raise ConfigError(f"since is {text!r}; expected {FIRST}, {NEW}, seconds since 1970, or a position") from None


class LogSubscription(Subscription):
    """It waits for the application: nothing is dropped, and at most `buffer` messages are held."""

    def __init__(
        self,
        route: LogRoute,
        pool: LinkPool,
        sites: LogSites,
        clock: Clock,
        crew: Crew,
        *,
        since: Since,
        dialect: Dialect,
        rejects: Rejects,
        on_message: OnMessage | None,
        on_report: OnReport | None,
        buffer: int,
        closed: Callable[[str], None],
    ) -> None:
        super().__init__(route.lease.topic, on_message=on_message, on_report=on_report, buffer=buffer, closed=closed)
        self.machine = LogReader(self.topic, since if isinstance(since, Position) else None)
        self._route = route
        self._pool = pool
        self._sites = sites
        self._clock = clock
        self._crew = crew
        self._since = since
        self._dialect = dialect
        self._rejects = rejects
        self._alarm = Alarm(clock, self._tick)
        self._reading: dict[int, None] = {}  # epochs that have a task
        self._progress = asyncio.Condition()
        self._started = False
        self._crowded = False  # whether reading waits for room

    # For the client

    @property
    def brokers(self) -> tuple[str, ...]:
        return (self._route.broker,)

    async def start(self) -> None:
        """Returns when every message published from now on will be read."""
        self._do(self._route.moved(self._clock.now()))
        assert self._route.log is not None
        self._tell(self.machine.learn(self._route.log, self._clock.wall()))
        if not isinstance(self._since, Position) and self._since != FIRST:
            for segment in self._route.log.segments:
                await self._begin(segment)
        self._started = True
        self._read_active()

    def answered(self, message: ToClient, _broker: str) -> None:
        match message:
            case Welcome():
                moved = self._route.welcome(message)
                if self._started and self._route.log is not None:
                    self._tell(self.machine.learn(self._route.log, self._clock.wall()))
                    self._read_active()
                    self._crew.start(self._progressed(), f"progress of {self.topic}")
                self._do(self._route.moved(self._clock.now()) if moved else [])
            case Unsure():
                self._route.unsure(message)
                self._do([])
            case _:
                pass

    def link_changed(self, broker: str, up: bool) -> None:
        if up:
            self._do(self._route.restored(broker, self._clock.now()))
        else:
            self._route.lost(broker)

    # Within

    def _leave(self) -> None:
        self._alarm.cancel()
        self._follow(self._route.close())
        self._crew.start(self._progressed(), f"end of {self.topic}")  # who waits for a turn, or for room, sees it

    def _tick(self) -> None:
        self._do(self._route.tick(self._clock.now()))

    def _do(self, instructions: list[Instruction]) -> None:
        self._follow(instructions)
        if not self._over:
            self._alarm.set(self._route.wake_s())

    def _follow(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            assert isinstance(instruction, Say)
            self._pool.publish(instruction.broker, AGENT_SUBJECT, seal(instruction.message, self._dialect))

    def _tell(self, reports: list[Gap | Discontinuity]) -> None:
        for report in reports:
            if self._on_report is not None:
                self._on_report(report)

    async def _begin(self, segment: Segment) -> None:
        """Where reading begins in a segment that was there before us: at its end, or at a time."""
        if segment.empty:
            return
        if segment.end is not None and self._since == NEW:
            self.machine.skip(segment.epoch, segment.end)
            return
        last: int | None = None
        while last is None:
            try:
                last = await self._last_unwanted(segment)
            except LogDown:
                await self._clock.sleep(_RETRY_S)
        self.machine.skip(segment.epoch, last)

    async def _last_unwanted(self, segment: Segment) -> int:
        site, name = self._site(segment)
        state = await site.state(name)
        if state is None:
            return 0
        first = await site.first_since(name, self._since) if isinstance(self._since, float) else None
        return state.last if first is None else first - 1

    def _read_active(self) -> None:
        for segment in self.machine.active():
            if segment.epoch not in self._reading and not self._over:
                self._reading[segment.epoch] = None
                self._crew.start(self._read(segment.epoch), f"segment {segment.epoch} of {self.topic}")

    async def _read(self, epoch: int) -> None:
        """Until the segment is over, however often its servers die."""
        try:
            while (segment := self._segment(epoch)) is not None:
                reader: SegmentReader | None = None
                try:
                    site, name = self._site(segment)
                    reader = await site.read(name, after=self.machine.after(epoch))
                    while self._segment(epoch) is not None:
                        stored = await reader.next()
                        if stored is not None:
                            await self._take(epoch, stored)
                        elif await self._nothing_left(epoch):
                            break
                except (LogDown, LogRefused, ConfigError):
                    await self._clock.sleep(_RETRY_S)
                    with contextlib.suppress(LogDown):
                        await self._nothing_left(epoch)
                finally:
                    if reader is not None:
                        await reader.close()
        finally:
            self._reading.pop(epoch, None)
        if not self._over:
            self._read_active()
            await self._progressed()

    def _segment(self, epoch: int) -> Segment | None:
        """As it is known now; None when it is not to be read any more."""
        if self._over:
            return None
        return next((each for each in self.machine.active() if each.epoch == epoch), None)

    async def _nothing_left(self, epoch: int) -> bool:
        """Of a sealed segment whose end was removed nothing more comes. One that is not there at all is waited for:
        if it was removed by retention, an agent will say so.
        """
        segment = self._segment(epoch)
        if segment is None or segment.end is None:
            return False
        site, name = self._site(segment)
        state = await site.state(name)
        if state is None or (state.last > self.machine.after(epoch) and state.records):
            return False
        self._tell(self.machine.cut_short(epoch, self._clock.wall()))
        return True

    async def _take(self, epoch: int, stored: Stored) -> None:
        self._tell(self.machine.arrived(epoch, stored.seq, stored.at_s))
        if not stored.publisher:
            self.machine.ended(epoch, stored.seq)
            await self._progressed()
            return
        record = self._record(stored)
        if record is not None:
            await self._until_its_turn(epoch, stored.publisher, record)
            messages, gaps = self.machine.take(epoch, stored.seq, stored.publisher, record)
            self._tell([*gaps])
            for message in messages:
                await self._room()
                if self._over:
                    return
                position = self.machine.taken(epoch, stored.seq, stored.publisher, record, message)
                sent_ns, payload = message.sent_ns, message.payload
                self._hand_over(Message(self.topic, payload, stored.publisher, message.seq, sent_ns, position))
        self.machine.passed(epoch, stored.seq)
        await self._progressed()

    def _record(self, stored: Stored) -> Record | None:
        try:
            return decode_record(stored.data)
        except WireError as error:
            self._rejects.note(error, f"log of {self.topic}")
            return None

    async def _until_its_turn(self, epoch: int, publisher: int, record: Record) -> None:
        while not self._over and (why := self.machine.waits_for(epoch, publisher, record)) is not None:
            match why:
                case Waits():
                    async with self._progress:
                        await self._progress.wait()
                case Look(_, epochs):
                    self.machine.learnt(publisher, epoch, await self._look(publisher, epochs))

    async def _look(self, publisher: int, epochs: tuple[int, ...]) -> list[tuple[int, int, int]]:
        assert self.machine.log is not None
        out: list[tuple[int, int, int]] = []
        for epoch in epochs:
            segment = self.machine.log.segment(epoch)
            if segment is None:
                continue
            site, name = self._site(segment)
            found = await site.last(name, publisher)
            if found is not None and (segment.end is None or found.seq <= segment.end):
                out.append((epoch, found.seq, decode_record(found.data).last))
        return out

    def _site(self, segment: Segment) -> tuple[LogSite, str]:
        assert self.machine.log is not None
        return self._sites.at(segment.broker), self.machine.log.name(segment.epoch)

    async def __anext__(self) -> Message:
        message = await super().__anext__()
        if self._crowded and len(self._buffer) <= self._size // 2:
            self._crowded = False
            await self._progressed()
        return message

    async def _room(self) -> None:
        while self._on_message is None and len(self._buffer) >= self._size and not self._over:
            self._crowded = True
            async with self._progress:
                await self._progress.wait()

    def _hand_over(self, message: Message) -> None:
        if self._on_message is not None:
            self._on_message(message)
        else:
            self._buffer.append(message)
            self._wake()

    async def _progressed(self) -> None:
        async with self._progress:
            self._progress.notify_all()
