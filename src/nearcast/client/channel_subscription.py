"""A subscription to a channel as the application holds it: an async iterator of notifications, and how far it is."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

import msgspec

from nearcast.brokers.pool import LinkPool
from nearcast.control.channel_subscriber import Begun, ChannelSubscriber, Miss, Over, Take
from nearcast.control.instructions import Attach, Detach, Instruction, Say
from nearcast.domain.channel import Missed, Notification, Subscription
from nearcast.domain.errors import ChannelError, LinkClosed, NearcastError
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.wire.channels import Follow, Following, Near, Notice, Refusal, Result, channel_subject
from nearcast.wire.control import AGENT_SUBJECT, seal, unseal
from nearcast.wire.dialect import Dialect
from nearcast.wire.rejects import Rejects

OnMissed = Callable[[Missed], None]

_rows = msgspec.json.Decoder(tuple[dict[str, object], ...])
_MOST_IN_PARTS = 16


class ChannelSubscription:
    """Made by `Client.subscribe_channel`. Iterate over it; leave it with `unsubscribe()`, `close()` or `async with`.

    Each notification is delivered once and in order, whatever is killed or moved; nothing is dropped: when `buffer`
    notifications wait, further ones are left where they are. `position` is the last one that the application is done
    with: give it as `after` to go on from there, also in another process. A notification is done with when the next one
    is asked for, or, with `acknowledge` alone, when that is said.
    """

    def __init__(
        self,
        machine: ChannelSubscriber,
        pool: LinkPool,
        clock: Clock,
        *,
        dialect: Dialect,
        rejects: Rejects,
        on_missed: OnMissed | None,
        buffer: int,
        automatic: bool,
        closed: Callable[[str], None],
        near: Callable[[], Near] = tuple,
    ) -> None:
        self.machine = machine
        self.id = f"{machine.client}/{machine.key}"
        self._pool = pool
        self._clock = clock
        self._dialect = dialect
        self._rejects = rejects
        self._on_missed = on_missed
        self._size = buffer
        self._automatic = automatic
        self._closed = closed
        self._near = near
        self._alarm = Alarm(clock, self._tick)
        self._buffer: deque[Notification] = deque()
        self._parts: dict[int, dict[int, Notice]] = {}
        self._takers: list[asyncio.Future[None]] = []
        self._begun = asyncio.Event()
        self._done_with = machine.position
        self._given: Notification | None = None  # what the application has, and may not be done with
        self._over = False
        self._why: NearcastError | None = None

    @property
    def subscription(self) -> Subscription:
        """The channel and the values of its parameters."""
        return self.machine.subscription

    @property
    def home(self) -> str:
        """The broker where it is, or is about to be."""
        return self.machine.home

    @property
    def position(self) -> int:
        """The execution up to which the application has everything, and is done with it."""
        if not self._buffer and self._given is None and self.machine.position is not None:
            return self.machine.position  # nothing is on its way to the application: it has what we have
        return self._done_with or 0

    def acknowledge(self, notification: Notification) -> None:
        """The application is done with it, and with all before it."""
        self._done_with = max(self._done_with or 0, notification.execution)
        if self._given is not None and notification.execution >= self._given.execution:
            self._given = None

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self

    async def __anext__(self) -> Notification:
        if self._automatic and self._given is not None:
            self.acknowledge(self._given)
        while not self._buffer:
            if self._why is not None:
                raise self._why
            if self._over:
                raise StopAsyncIteration
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(news)
            await news
        self._given = self._buffer.popleft()
        if self.machine.full and len(self._buffer) <= self._size // 2:
            self._do(self.machine.room(self._clock.now()))
        return self._given

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Goes offline: results are made on for as long as was asked for, and `after=position` brings them."""
        self._end(over=False)

    def unsubscribe(self, *, everybody: bool = False) -> None:
        """For good. What has been taken in can still be iterated over.

        `everybody`: for others too who have the same subscription and are away: nothing is made for them any more.
        """
        self._end(over=True, everybody=everybody)

    # For the client

    async def start(self) -> None:
        """Returns when nothing is missed from now on. Raises ChannelError when it is refused."""
        self._do(self.machine.start(self._clock.now()))
        await self._begun.wait()
        if self._why is not None:
            raise self._why
        if self._over:
            raise LinkClosed(f"subscription {self.id}: closed before it began")

    def move(self, broker: str) -> None:
        """To another home: it leaves the one where it is when it has arrived there."""
        self._do(self.machine.rehome(broker, self._clock.now()))

    def answered(self, message: Following | Refusal | Notice, broker: str) -> None:
        now = self._clock.now()
        match message:
            case Following():
                self._do(self.machine.following(message, broker, now))
            case Refusal():
                self._do(self.machine.refused(message, broker, now))
            case Notice():
                self._noticed(message)

    def link_changed(self, broker: str, up: bool) -> None:
        now = self._clock.now()
        if up:
            self._do(self.machine.restored(broker, now))
        else:
            self.machine.lost(broker, now)
            self._do([])

    # Within

    def _tick(self) -> None:
        self._do(self.machine.tick(self._clock.now()))

    def _do(self, instructions: list[Instruction]) -> None:
        for each in instructions:
            match each:
                case Say(broker, message):
                    if isinstance(message, Follow) and (near := self._near()):
                        message = msgspec.structs.replace(message, near=near)
                    self._pool.publish(broker, AGENT_SUBJECT, seal(message, self._dialect))
                case Attach(broker):
                    self._attach(broker)
                case Detach(broker):
                    self._pool.detach(broker, channel_subject(self.machine.key))
                case Take(result):
                    self._take(result)
                case Miss(after, until):
                    if self._on_missed is not None:
                        self._on_missed(Missed(self.machine.key, after, until))
                case Begun(after):
                    self._done_with = after if self._done_with is None else self._done_with
                    self._begun.set()
                case Over(reason):
                    self._why = ChannelError(reason)
                    self._end(over=True)
                case _:
                    raise AssertionError(f"a subscription does not {each}")
        if not self._over:
            self._alarm.set(self.machine.wake_s())

    def _take(self, result: Result) -> None:
        try:
            rows = _rows.decode(result.rows)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            where = f"channel {self.subscription.channel}, execution {result.execution}"
            self._why = ChannelError(f"{where}: its rows are not readable: {error}")
            self._end(over=False)
            return
        previous = result.previous or None
        self._buffer.append(Notification(self.machine.key, result.execution, previous, rows, result.at_s))
        self.machine.full = len(self._buffer) >= self._size
        self._wake()

    def _attach(self, broker: str) -> None:
        def receive(data: bytes) -> None:
            message = self._rejects.read(lambda: unseal(data, self._dialect), f"channel {self.subscription.channel}")
            if isinstance(message, Notice) and message.key == self.machine.key:
                self._noticed(message)

        def attached() -> None:
            self._do(self.machine.attached(broker, self._clock.now()))

        self._pool.attach(broker, channel_subject(self.machine.key), receive, attached)

    def _noticed(self, message: Notice) -> None:
        whole = self._whole(message)
        if whole is not None:
            self._do(self.machine.notice(whole, self._clock.now()))

    def _whole(self, message: Notice) -> Notice | None:
        if message.parts <= 1:
            return message
        execution = message.result.execution
        parts = self._parts.setdefault(execution, {})
        parts[message.part] = message
        if len(parts) < message.parts:
            if len(self._parts) > _MOST_IN_PARTS:
                del self._parts[min(self._parts)]  # it is asked for again
            return None
        del self._parts[execution]
        rows = b"".join(parts[number].result.rows for number in sorted(parts))
        return Notice(message.key, msgspec.structs.replace(message.result, rows=rows))

    def _end(self, *, over: bool, everybody: bool = False) -> None:
        if not self._over:
            self._do(self.machine.close(self._clock.now(), over=over, everybody=everybody))
            self._over = True
            self._alarm.cancel()
            self._begun.set()
            self._wake()
            self._closed(self.machine.key)

    def _wake(self) -> None:
        takers, self._takers = self._takers, []
        for taker in takers:
            if not taker.done():
                taker.set_result(None)
