"""One persistent topic that a client publishes on: the machine with the site that keeps the topic's log."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from nearcast.brokers.log import LogSites
from nearcast.brokers.pool import LinkPool
from nearcast.control.instructions import Instruction, Say
from nearcast.control.log_publisher import LogPublisher, Write
from nearcast.domain.errors import LinkClosed, LogDown, LogRefused, MessageTooLarge, Unconfirmed
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.control import AGENT_SUBJECT, ToClient, Unsure, Welcome, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import MOST_PAYLOAD_BYTES
from nearcast.wire.record import decode_record, encode_record

MOST_UNCONFIRMED = 65_536
_AT_ONCE = 16_384  # messages that are published together
_RETRY_S = 0.1


class LogPublication:
    def __init__(  # noqa: PLR0917  # made in one place, by the client
        self,
        machine: LogPublisher,
        pool: LinkPool,
        sites: LogSites,
        clock: Clock,
        crew: Crew,
        dialect: Dialect,
        time_ns: Callable[[], int],
        rests: Callable[[], None],
    ) -> None:
        """`rests` is called when nothing has been published for so long that this is closed; another may be opened."""
        self.machine = machine
        self.topic = machine.route.lease.topic
        self._pool = pool
        self._sites = sites
        self._clock = clock
        self._crew = crew
        self._dialect = dialect
        self._time_ns = time_ns
        self._rests = rests
        self._used_s = clock.now()
        self._alarm = Alarm(clock, self._tick)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # for the confirmation of this number
        self._writing = False
        self._over = False
        self._trouble = ""
        self._do(machine.route.moved(self._used_s))

    async def publish(self, payload: bytes, *, timeout_s: float, begun: Callable[[int], None] | None = None) -> int:
        """Returns the message's number when the topic's quorum has written it. Many may wait at once.

        Raises Unconfirmed when that is not known in time, MessageTooLarge, or LinkClosed.
        """
        _must_fit(payload, self.topic)
        self._must_be_open()
        if self.machine.unconfirmed >= MOST_UNCONFIRMED:
            raise Unconfirmed(
                f"topic {self.topic!r}: {MOST_UNCONFIRMED} messages are not confirmed yet, and this one was not taken"
            )
        self._used_s = self._clock.now()
        if begun is not None:
            begun(self.machine.last + 1)
        seq = self.machine.publish(payload, self._time_ns())
        await self._until_confirmed(seq, timeout_s)
        return seq

    async def publish_all(self, payloads: Sequence[bytes], *, timeout_s: float) -> None:
        """The same for many at once, of which only the last is waited for: they are written in their order."""
        for payload in payloads:
            _must_fit(payload, self.topic)
        for begin in range(0, len(payloads), _AT_ONCE):
            self._must_be_open()
            self._used_s = self._clock.now()
            for payload in payloads[begin : begin + _AT_ONCE]:
                self.machine.publish(payload, self._time_ns())
            await self._until_confirmed(self.machine.last, timeout_s)

    async def _until_confirmed(self, seq: int, timeout_s: float) -> None:
        confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((seq, confirmed))
        self._write()
        try:
            async with asyncio.timeout(timeout_s):
                await confirmed
        except TimeoutError:
            why = self._trouble or "no agent has confirmed where the topic is"
            raise Unconfirmed(
                f"topic {self.topic!r}: message {seq} is not known to be written after {timeout_s:g} s ({why});"
                " it is tried on"
            ) from None

    def answered(self, message: ToClient) -> None:
        match message:
            case Welcome():
                self._do(self.machine.welcome(message, self._clock.now()))
                self._confirm()
            case Unsure():
                self.machine.route.unsure(message)
                self._do([])
            case _:
                pass

    def link_opened(self) -> None:
        pass

    def link_changed(self, broker: str, up: bool) -> None:
        if up:
            self._do(self.machine.route.restored(broker, self._clock.now()))
        else:
            self.machine.route.lost(broker)

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._alarm.cancel()
            self._follow(self.machine.route.close())
            for _, confirmed in self._waiting:
                if not confirmed.done():
                    confirmed.set_exception(self._closed())

    # Within

    def _must_be_open(self) -> None:
        if self._over:
            raise self._closed()

    def _closed(self) -> LinkClosed:
        return LinkClosed(f"topic {self.topic!r}: the client is closed; what it had not confirmed may not be written")

    def _tick(self) -> None:
        now = self._clock.now()
        rested = now >= self._used_s + self.machine.route.lease.timing.forget_s
        if rested and not self.machine.unconfirmed:
            self.close()
            self._rests()
        else:
            self._do(self.machine.route.tick(now))

    def _do(self, instructions: list[Instruction]) -> None:
        self._follow(instructions)
        if not self._over:
            self._alarm.set(self.machine.route.wake_s())
            self._write()

    def _follow(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            assert isinstance(instruction, Say)
            self._pool.publish(instruction.broker, AGENT_SUBJECT, seal(instruction.message, self._dialect))

    def _write(self) -> None:
        if not self._writing and not self._over:
            self._writing = True
            self._crew.start(self._write_all(), f"log of {self.topic}")

    async def _write_all(self) -> None:
        """While there is something to write, and a lease to write it under."""
        try:
            while not self._over and (write := self.machine.write(self._clock.now())) is not None:
                try:
                    await self._append(write)
                except (LogDown, LogRefused) as error:
                    self._trouble = str(error)
                    self.machine.failed()
                    await self._clock.sleep(_RETRY_S)
                self._confirm()
        finally:
            self._writing = False

    async def _append(self, write: Write) -> None:
        log, publisher = self.machine.route.log, self.machine.route.publisher
        assert log is not None
        site, name = self._sites.at(write.broker), log.name(write.epoch)
        at = await site.append(name, publisher, encode_record(write.record), write.after)
        if at is not None:
            self.machine.written(at, self._clock.now())
            return
        found = await site.last(name, publisher)
        if found is None:
            self.machine.in_the_way(0, None, self._clock.now())
        else:
            self.machine.in_the_way(found.seq, decode_record(found.data), self._clock.now())

    def _confirm(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.machine.confirmed:
            _, confirmed = self._waiting.popleft()
            if not confirmed.done():
                confirmed.set_result(None)


def _must_fit(payload: bytes, topic: str) -> None:
    if len(payload) > MOST_PAYLOAD_BYTES:
        raise MessageTooLarge(
            f"topic {topic!r}: the message has {len(payload)} bytes; at most {MOST_PAYLOAD_BYTES} are taken"
        )
