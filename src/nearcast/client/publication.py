"""One topic that a client publishes on: the publisher machine with its connections."""

import asyncio
import contextlib
import math
from collections.abc import Callable, Sequence

from nearcast.brokers.pool import LinkPool
from nearcast.client.log_publication import LogPublication
from nearcast.control.instructions import Instruction, Say, Send
from nearcast.control.publisher import MOST_UNCONFIRMED, Publisher
from nearcast.control.tally import Tally
from nearcast.domain.errors import LeaseLost, LinkClosed, LinkError, MessageTooLarge
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Cancellable, Clock
from nearcast.transport.crew import Crew
from nearcast.wire.control import AGENT_SUBJECT, Hold, ToClient, Unsure, Welcome, inlet_subject, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import MOST_PAYLOAD_BYTES, encode

_CONFIRM_S = 0.1  # how long confirmations are put together, at the price of as much to send again after a break
_MANY = MOST_UNCONFIRMED // 4  # unless there are so many: a fast publisher should not have to wait for them


class Publication:
    def __init__(  # noqa: PLR0917  # made in one place, by the client
        self,
        machine: Publisher,
        pool: LinkPool,
        clock: Clock,
        crew: Crew,
        dialect: Dialect,
        tally: Tally,
        rests: Callable[[], None],
        persistent: Callable[[Welcome], LogPublication],
    ) -> None:
        """`rests` is called when nothing has been published for so long that this is closed; another may be opened.

        `persistent` gives who publishes in our place, when an agent says that the topic has a log.
        """
        self.machine = machine
        self._pool = pool
        self._clock = clock
        self._crew = crew
        self._dialect = dialect
        self._tally = tally
        self._time = tally.time
        self._rests = rests
        self._persistent = persistent
        self._heir: LogPublication | None = None
        self._used_s = clock.now()
        self._count = tally.sent(machine.targets, machine.topic)
        self._alarm = Alarm(clock, self._tick)
        self._waiting: list[asyncio.Future[None]] = []
        self._confirming: dict[str, None] = {}  # brokers that are or will be asked what they have handled
        self._timers: dict[str, Cancellable] = {}  # those that will be
        self._all_asked = False  # each that the next message is sent to is among them
        self._over = False
        self._ready_until_s = -math.inf  # a message can be sent until then, unless something is heard before
        self._senders: list[Callable[[str, bytes], None]] = []  # to those that it goes to
        self._subject = machine.topic  # on which it goes there
        self._tick()

    async def publish(self, payload: bytes, *, timeout_s: float, begun: Callable[[int], None] | None = None) -> int:
        """Hands the message to the connections of its route and returns its sequence number."""
        machine, clock = self.machine, self._clock
        size_bytes = len(payload)
        if size_bytes > MOST_PAYLOAD_BYTES:
            raise MessageTooLarge(
                f"topic {machine.topic!r}: the message has {size_bytes} bytes; at most {MOST_PAYLOAD_BYTES} are taken"
            )
        now = self._used_s = clock.now()
        if now >= self._ready_until_s or len(machine.unconfirmed) >= MOST_UNCONFIRMED:
            if self._heir is None and not self._can_publish(now):
                await self._wait_for_route(timeout_s)
                now = clock.now()
            if self._heir is not None:
                return await self._heir.publish(payload, timeout_s=timeout_s, begun=begun)
            self._time.unknown(clock.wall() - now)
            self._ready_until_s = machine.lease.usable_until_s()
            self._senders = [self._pool.sender(broker) for broker in machine.reachable]
            self._subject = inlet_subject(machine.topic) if machine.inlet else machine.topic
        if begun is not None:
            begun(machine.seq + 1)
        time = self._time
        data = encode(machine.publish(payload, now, int((now + time.ahead_s) * 1e9) | time.mark), self._dialect)
        for send in self._senders:
            send(self._subject, data)
        count = self._count
        count.messages += 1
        count.size_bytes += size_bytes
        if not self._all_asked:
            self._ask_for_confirmations()
            self._all_asked = True
        if len(machine.unconfirmed) >= _MANY and self._timers:
            self._confirm_now()
        return machine.seq

    async def publish_all(self, payloads: Sequence[bytes], *, timeout_s: float) -> None:
        """The same for each in turn."""
        for payload in payloads:
            await self.publish(payload, timeout_s=timeout_s)

    def answered(self, message: ToClient) -> None:
        match message:
            case Welcome() if message.log is not None:
                self._heir = self._persistent(message)
                self.close()
            case Welcome():
                self._do(self.machine.welcome(message, self._clock.now()))
            case Unsure():
                self.machine.unsure(message)
                self._do([])
            case Hold():
                self.machine.hold(message, self._clock.now())
                self._do([])
            case _:
                pass

    def rehome(self, broker: str) -> None:
        self._do(self.machine.rehome(broker, self._clock.now()))

    def link_opened(self) -> None:
        self._do([])

    def link_changed(self, broker: str, up: bool) -> None:
        self._do(self.machine.restored(broker, self._clock.now()) if up else self.machine.lost(broker))

    def close(self) -> None:
        self._over = True
        self._ready_until_s = -math.inf
        self._alarm.cancel()
        self._count.left = True
        self._follow(self.machine.close())
        self._wake()

    # Within

    async def _wait_for_route(self, timeout_s: float) -> None:
        timer = self._clock.call_later(timeout_s, self._wake)
        until_s = self._clock.now() + timeout_s
        try:
            while self._heir is None and not self._can_publish(self._clock.now()):
                if self._over:
                    raise LinkClosed(f"topic {self.machine.topic!r}: client {self.machine.client!r} is closed")
                if self._clock.now() >= until_s:
                    raise LeaseLost(
                        f"topic {self.machine.topic!r}: no agent confirmed a route within {timeout_s:g} s, or too much"
                        " is unconfirmed, or its processor's queue is full; are the brokers and their agents up?"
                    )
                self._tick()
                for broker in self.machine.targets:
                    self._pool.reach(broker)
                waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiting.append(waiting)
                await waiting
        finally:
            timer.cancel()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _tick(self) -> None:
        now = self._clock.now()
        if self._is_idle(now):
            self.close()
            self._rests()
        else:
            self._do(self.machine.tick(now))

    def _is_idle(self, now: float) -> bool:
        """Not used for long, with nothing left to see to: it would only go on renewing leases."""
        machine = self.machine
        rested = now >= self._used_s + machine.timing.forget_s and not self._waiting
        return rested and not machine.unconfirmed and machine.reachable == machine.targets

    def _do(self, instructions: list[Instruction]) -> None:
        self._ready_until_s = -math.inf
        self._follow(instructions)
        for instruction in instructions:
            if type(instruction) is Send:
                self._count_mark(instruction)
        self._all_asked = False  # the route or a connection may have changed
        self._count.left = True
        self._count = self._tally.sent(self.machine.targets, self.machine.topic)
        if not self._over:
            self._ask_for_confirmations()
            self._alarm.set(self.machine.wake_s())
        if self._waiting and self._can_publish(self._clock.now()):
            self._wake()

    def _can_publish(self, now: float) -> bool:
        """A route that may be used, and a connection to hand the message to."""
        machine, up = self.machine, self._pool.up
        if self._over or not machine.can_publish(now):
            return False
        targets = machine.targets
        if len(targets) == 1:
            return up(targets[0])
        return all(map(self._pool.reached, targets)) and any(map(up, targets))

    def _follow(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            if type(instruction) is Send:
                subject = inlet_subject(self.machine.topic) if instruction.inlet else self.machine.topic
                self._pool.publish(instruction.broker, subject, encode(instruction.envelope, self._dialect))
            elif type(instruction) is Say:
                self._pool.publish(instruction.broker, AGENT_SUBJECT, seal(instruction.message, self._dialect))
            else:
                raise AssertionError(f"a publisher does not {instruction}")

    def _count_mark(self, send: Send) -> None:
        """A high-water mark or a repeat: subscribers count it too, and it is not to look like somebody else's."""
        count = self._tally.sent((send.broker,), self.machine.topic)
        count.messages += 1
        count.size_bytes += len(send.envelope.payload)
        count.left = count is not self._count

    def _ask_for_confirmations(self) -> None:
        for broker in self.machine.waits_for():
            if broker not in self._confirming:
                self._confirming[broker] = None
                self._timers[broker] = self._clock.call_later(_CONFIRM_S, self._start_confirming, broker)

    def _confirm_now(self) -> None:
        """Much is unconfirmed: whoever would be asked later is asked at once."""
        for broker in list(self._timers):
            self._start_confirming(broker)

    def _start_confirming(self, broker: str) -> None:
        self._timers.pop(broker).cancel()
        self._crew.start(self._confirm(broker), f"confirmations of {broker}")

    async def _confirm(self, broker: str) -> None:
        """One round trip to the broker; another one follows later for as long as something is unconfirmed."""
        seq = self.machine.seq
        if broker in self.machine.waits_for():
            with contextlib.suppress(LinkError):
                await self._pool.flush(broker)
                self.machine.confirmed(broker, seq)
        del self._confirming[broker]
        self._do([])
