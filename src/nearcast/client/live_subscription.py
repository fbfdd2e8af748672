"""A subscription to a topic that keeps nothing: the subscriber machine with its connections."""

import asyncio
from collections.abc import Callable

from nearcast.brokers.link import LearnAddresses
from nearcast.brokers.pool import LinkPool
from nearcast.client.subscription import OnMessage, OnReport, Overflow, SlowConsumer, Subscription
from nearcast.control.instructions import Attach, Deliver, Detach, Instruction, Learn, Ready, Report, Say
from nearcast.control.subscriber import Subscriber
from nearcast.control.tally import Hardship, Tally
from nearcast.domain.errors import TopicChanged, WireError
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.wire.control import AGENT_SUBJECT, Generation, ToClient, Unsure, Welcome, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import SEVERAL, Envelope, decode, unpack
from nearcast.wire.rejects import Rejects


class LiveSubscription(Subscription):
    def __init__(
        self,
        machine: Subscriber,
        pool: LinkPool,
        clock: Clock,
        *,
        dialect: Dialect,
        rejects: Rejects,
        tally: Tally,
        on_message: OnMessage | None,
        on_report: OnReport | None,
        buffer: int,
        overflow: Overflow,
        closed: Callable[[str], None],
        learn: LearnAddresses,
    ) -> None:
        super().__init__(machine.topic, on_message=on_message, on_report=on_report, buffer=buffer, closed=closed)
        self.machine = machine
        self._pool = pool
        self._clock = clock
        self._dialect = dialect
        self._rejects = rejects
        self._tally = tally
        self._overflow = overflow
        self._learn = learn
        self._alarm = Alarm(clock, self._tick)
        self._opened: dict[tuple[str, float], float] = {}  # open discontinuities, and their start as it was told
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # For the client

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(self.machine.attachments)

    async def start(self) -> None:
        """Returns when the promise holds."""
        self._tick()
        await self._ready

    def answered(self, message: ToClient, broker: str) -> None:
        match message:
            case Welcome() if message.log is not None:
                self._became_persistent(message)
            case Welcome():
                self._do(self.machine.welcome(message, broker, self._clock.now()))
            case Unsure():
                self.machine.unsure(message)
                self._do([])
            case Generation():
                self._do(self.machine.generation(message, self._clock.now()))

    def rehome(self, broker: str) -> None:
        self._do(self.machine.rehome(broker, self._clock.now()))

    def link_changed(self, broker: str, up: bool) -> None:
        now = self._clock.now()
        if not up:
            self._do(self.machine.lost(broker, now))
        elif self._pool.is_attached(broker, self.topic):
            self._do(self.machine.restored(broker, now))

    # Within

    def _became_persistent(self, message: Welcome) -> None:
        self._fail(TopicChanged(f"topic {self.topic!r} is persistent: subscribe to it again", message))

    def _leave(self) -> None:
        self._alarm.cancel()
        self._follow(self.machine.close(self._clock.now()))
        if not self._ready.done():
            self._ready.set_exception(self._why_over())

    def _receive(self, broker: str) -> Callable[[bytes], None]:
        source = f"topic {self.topic} at {broker}"
        dialect, now, machine = self._dialect, self._clock.now, self.machine
        passes, deliver = machine.passes, self._deliver
        count, time = self._tally.received(broker, self.topic), self._tally.time

        def receive(data: bytes) -> None:
            count.messages += 1
            count.size_bytes += len(data)
            try:
                envelope = decode(data, dialect)
            except WireError as error:
                self._rejects.note(error, source)
                return
            if self._over:
                return
            now_s = now()
            if passes(envelope, broker, now_s):
                if now_s >= count.sample_s:
                    count.sample(envelope.sent_ns, now_s, time)
                deliver(envelope)
                return
            out = machine.frame(envelope, broker, now_s)
            if len(out) == 1 and type(out[0]) is Deliver:  # nothing but the message itself: no timer has changed
                if now_s >= count.sample_s:
                    count.sample(out[0].envelope.sent_ns, now_s, time)
                deliver(out[0].envelope)
            elif out or envelope.notice is None or machine.barrier is not None:
                self._do(out)  # else a notice for others, or a beat, which only puts off what was due

        return receive

    def _tick(self) -> None:
        self._do(self.machine.tick(self._clock.now()))

    def _do(self, instructions: list[Instruction]) -> None:
        self._follow(instructions)
        if not self._over:
            self._alarm.set(self.machine.wake_s())
            if self.machine.ready:
                paused_s = self.pause.note(self._clock.now(), receiving=self.machine.receiving)
                if paused_s or any(type(each) is Detach for each in instructions):
                    self._suffered().paused(paused_s)

    def _follow(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Deliver(envelope):
                    self._deliver(envelope)
                case Report(what):
                    self._report(what)
                case Learn(addresses):
                    self._learn(addresses)
                case Say(broker, message):
                    self._pool.publish(broker, AGENT_SUBJECT, seal(message, self._dialect))
                case Attach(broker):
                    self._attach(broker)
                case Detach(broker):
                    self._pool.detach(broker, self.topic)
                    self._tally.received(broker, self.topic).left = True
                case Ready():
                    if not self._ready.done():  # else whoever asked was cancelled at this very instant
                        self._ready.set_result(None)

    def _attach(self, broker: str) -> None:
        def attached() -> None:
            self._do(self.machine.attached(broker, self._clock.now()))

        self._pool.attach(broker, self.topic, self._receive(broker), attached)

    def _deliver(self, envelope: Envelope) -> None:
        if envelope.flags & SEVERAL:
            for payload in unpack(envelope.payload):
                self._hand_over(Message(self.topic, payload, envelope.publisher, envelope.seq, envelope.sent_ns))
        else:
            self._hand_over(Message(self.topic, envelope.payload, envelope.publisher, envelope.seq, envelope.sent_ns))

    def _hand_over(self, message: Message) -> None:
        if self._on_message is not None:
            self._on_message(message)
        elif len(self._buffer) < self._size:
            self._buffer.append(message)
            if self._takers:
                self._wake()
        else:
            self._overflowed(message)

    def _overflowed(self, message: Message) -> None:
        if self._overflow is Overflow.FAIL:
            self._fail(SlowConsumer(f"topic {self.topic!r}: more than {self._size} messages waited to be taken"))
            return
        dropped = message
        if self._overflow is Overflow.DROP_OLDEST:
            dropped = self._buffer.popleft()
            self._buffer.append(message)
        self.dropped_count += 1
        if dropped.sequenced and self._on_report is not None:
            self._on_report(Gap(self.topic, dropped.publisher, dropped.seq, dropped.seq))

    def _report(self, what: Gap | Discontinuity) -> None:
        if isinstance(what, Gap):
            self._suffered().gap(what.last - what.first + 1 if what.first is not None and what.last is not None else 0)
        elif (what.broker, what.from_s) not in self._opened:
            self._suffered().discontinuities += 1
        told = self._on_the_wall(what) if isinstance(what, Discontinuity) else what
        if self._on_report is not None:
            self._on_report(told)

    def _suffered(self) -> Hardship:
        """Told to the agent of a broker where the topic is: who was gone may not listen."""
        return self._tally.suffered(next(reversed(self.machine.attachments), ""))

    def _on_the_wall(self, what: Discontinuity) -> Discontinuity:
        """The machine counts on the process's own clock. What closes a discontinuity repeats how it was opened."""
        ahead_s = self._clock.wall() - self._clock.now()
        opened = (what.broker, what.from_s)
        from_s = self._opened.setdefault(opened, what.from_s + ahead_s)
        if what.to_s is None:
            return Discontinuity(what.topic, what.broker, from_s, None)
        del self._opened[opened]
        return Discontinuity(what.topic, what.broker, from_s, what.to_s + ahead_s)
