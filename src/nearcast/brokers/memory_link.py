"""The client side of the in-memory broker: a Link that confirms, drains and reconnects as the protocol says."""

import asyncio
import random
from collections import deque
from functools import partial
from typing import Protocol

from nearcast.brokers.link import OnState, Receive
from nearcast.brokers.memory_server import FRAME_BYTES, PONG, ClientEnd, Connection, Delivery, Frame, Op
from nearcast.brokers.patience import Patience
from nearcast.domain.errors import LinkClosed, LinkDown, LinkError
from nearcast.transport.clock import Cancellable, Clock


class Dial(Protocol):
    """Makes a connection to a link's broker, or raises LinkDown."""

    def __call__(self, client: ClientEnd) -> Connection: ...


class _Subscription:
    __slots__ = ("confirmed", "receive", "sid", "topic")

    def __init__(self, sid: int, topic: str, receive: Receive, *, confirmed: bool) -> None:
        self.sid = sid
        self.topic = topic
        self.receive = receive
        self.confirmed = confirmed


class MemoryLink:
    """A `nearcast.brokers.link.Link` to a MemoryBroker.

    With `confirm=False`, `subscribe()` returns without waiting for the server: for showing what goes wrong then.
    """

    def __init__(
        self,
        broker: str,
        dial: Dial,
        on_state: OnState,
        clock: Clock,
        rng: random.Random,
        *,
        confirm: bool = True,
        patience: Patience | None = None,
    ) -> None:
        self.broker = broker
        self.up = False
        self._dial = dial
        self._end = ClientEnd(self._deliver, self._on_lost)
        self._on_state = on_state
        self._clock = clock
        self._rng = rng
        self._confirm = confirm
        self._patience = patience or Patience()
        self._closed = False
        self._connection: Connection | None = None
        self._pongs: deque[asyncio.Future[None]] = deque()
        self._by_topic: dict[str, _Subscription] = {}
        self._by_sid: dict[int, _Subscription] = {}
        self._sids = 0
        self._attempt = 0
        self._timer: Cancellable | None = None

    async def open(self) -> "MemoryLink":
        """Connect for the first time; LinkDown when there is no answer."""
        self._connection = self._dial(self._end)
        self._timer = self._clock.call_later(self._patience.answer_s, self._fail_first_attempt)
        try:
            await self._ping(self._connection)
        except BaseException:
            await self.close()
            raise
        finally:
            self._timer.cancel()
        if self._connection is None:
            raise LinkDown(f"the link to {self.broker!r} broke as soon as it was made")
        self.up = True
        return self

    def publish(self, topic: str, data: bytes) -> None:
        if not self.up:
            raise self._reason_down("publish")
        assert self._connection is not None
        self._connection.up.send(Frame(Op.PUB, topic, data), len(topic) + len(data) + FRAME_BYTES)

    async def subscribe(self, topic: str, receive: Receive) -> None:
        connection = self._connection_up("subscribe")
        if topic in self._by_topic:
            raise ValueError(f"this link to {self.broker!r} is subscribed to {topic!r} already: unsubscribe first")
        self._sids += 1
        subscription = _Subscription(self._sids, topic, receive, confirmed=not self._confirm)
        self._by_topic[topic] = self._by_sid[self._sids] = subscription
        _send(connection, Frame(Op.SUB, topic, sid=subscription.sid))
        if not self._confirm:
            return
        try:
            await self._ping(connection)
        except BaseException:
            self._forget(subscription)
            if self._connection is connection:
                _send(connection, Frame(Op.UNSUB, sid=subscription.sid))
            raise
        if self._connection is not connection:  # Confirmed, and lost again before this task could run.
            raise LinkDown(f"subscribe: the link to {self.broker!r} broke")
        subscription.confirmed = True

    async def unsubscribe(self, topic: str) -> None:
        subscription = self._by_topic.pop(topic, None)
        if subscription is None:
            return
        try:
            if self._connection is not None:
                _send(self._connection, Frame(Op.UNSUB, sid=subscription.sid))
                await self._ping(self._connection)
        except LinkError:
            pass  # The server forgets a subscription with its connection: there is nothing left to drain.
        finally:
            self._by_sid.pop(subscription.sid, None)

    async def flush(self) -> None:
        await self._ping(self._connection_up("flush"))

    async def rtt(self) -> float:
        asked_s = self._clock.now()
        await self._ping(self._connection_up("rtt"))
        return self._clock.now() - asked_s

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.up = False
        if self._timer is not None:
            self._timer.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            _send(connection, Frame(Op.BYE))
        self._by_topic.clear()
        self._by_sid.clear()
        self._fail_waiting(LinkClosed, f"the link to {self.broker!r} was closed")

    # What comes from the server

    def _deliver(self, delivery: Delivery) -> None:
        sid, data = delivery
        if sid != PONG:
            subscription = self._by_sid.get(sid)
            if subscription is not None:
                subscription.receive(data)
        elif self._pongs:
            waiting = self._pongs.popleft()
            if not waiting.done():
                waiting.set_result(None)

    def _on_lost(self, reason: str) -> None:
        # The news takes the way of the wire, and a stopped process learns it when it goes on. Until then the link
        # looks up, and what is published is lost.
        connection = self._connection
        if connection is not None:
            self._clock.call_later(connection.up.wire.delay_s, self._break, connection, reason)

    def _break(self, connection: Connection, reason: str) -> None:
        if self._connection is not connection:
            return
        self._connection = None
        was_up, self.up = self.up, False
        for subscription in list(self._by_topic.values()):
            if not subscription.confirmed:
                self._forget(subscription)
        self._fail_waiting(LinkDown, f"the link to {self.broker!r} broke: {reason}")
        if was_up:
            self._attempt = 0
            self._try_later()
            self._on_state(False)
        elif self._attempt:
            self._try_later()

    # Reconnecting

    def _try_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = self._patience.before_attempt_s(self._attempt, self._rng)
        self._attempt += 1
        self._timer = self._clock.call_later(delay_s, self._try)

    def _try(self) -> None:
        try:
            connection = self._dial(self._end)
        except LinkDown:
            self._try_later()
            return
        self._connection = connection
        self._timer = self._clock.call_later(self._patience.answer_s, self._give_up, connection)
        for subscription in self._by_topic.values():
            _send(connection, Frame(Op.SUB, subscription.topic, sid=subscription.sid))
        self._ping(connection).add_done_callback(partial(self._on_answer, connection))

    def _on_answer(self, connection: Connection, answered: "asyncio.Future[None]") -> None:
        if answered.exception() is None and self._connection is connection:
            assert self._timer is not None
            self._timer.cancel()
            self.up = True
            self._on_state(True)

    def _give_up(self, connection: Connection) -> None:
        connection.abandon()
        self._break(connection, "no answer in time")

    def _fail_first_attempt(self) -> None:
        if self._connection is not None:
            self._give_up(self._connection)

    # Shared

    def _connection_up(self, wanted: str) -> Connection:
        if not self.up:
            raise self._reason_down(wanted)
        assert self._connection is not None
        return self._connection

    def _reason_down(self, wanted: str) -> LinkError:
        if self._closed:
            return LinkClosed(f"{wanted}: the link to {self.broker!r} was closed")
        return LinkDown(f"{wanted}: the link to {self.broker!r} is not up now; wait for on_state(True)")

    def _ping(self, connection: Connection) -> "asyncio.Future[None]":
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(answered)
        _send(connection, Frame(Op.PING))
        return answered

    def _fail_waiting(self, error: type[LinkError], message: str) -> None:
        waiting, self._pongs = self._pongs, deque()
        for answered in waiting:
            if not answered.done():
                answered.set_exception(error(message))

    def _forget(self, subscription: _Subscription) -> None:
        self._by_sid.pop(subscription.sid, None)
        if self._by_topic.get(subscription.topic) is subscription:
            del self._by_topic[subscription.topic]


def _send(connection: Connection, frame: Frame) -> None:
    connection.up.send(frame, len(frame.topic) + FRAME_BYTES)
