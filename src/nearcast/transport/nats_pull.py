"""Reading a JetStream stream from a message on, at the pace of whoever reads."""

import asyncio
import contextlib
import json
from datetime import UTC, datetime

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from nearcast.domain.errors import NearcastError
from nearcast.transport.nats_session import PATIENCE_S, Connection

# So much is asked for at a time, and is in memory at most.
_BATCH = 256
_BATCH_BYTES = 8_000_000
_PULL_S = 5.0
_INACTIVE_S = 10.0  # after which the server forgets a reader that has gone away

_HEARTBEAT, _NOTHING, _TIME_IS_OVER = "100", "404", "408"
_FULL = {"Message Size Exceeds MaxBytes", "Batch Completed"}


class Puller:
    """In the order of the stream, none twice.

    Every method raises `down` when the connection it was made on has broken, or the server has forgotten it. With
    `heartbeat_s`, a server that has died behind the one we are connected to is noticed in little more than that.
    """

    def __init__(
        self, connection: Connection, stream: str, what: str, *, down: type[NearcastError], heartbeat_s: float = 0.0
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._what = what
        self._down = down
        self._heartbeat_s = heartbeat_s
        self._inbox = connection.new_inbox()
        self._subscription: Subscription | None = None
        self._name = ""
        self._received: asyncio.Queue[Msg] = asyncio.Queue()
        self._orders = 0
        self._asked = ""  # where the newest order is answered
        self._due = 0  # of what it ordered

    async def make(self, subjects: str, *, after: int = 0, since_s: float | None = None) -> None:
        """From the message after this one on, or from the first that is not older than this time."""
        policy = DeliverPolicy.BY_START_SEQUENCE if since_s is None else DeliverPolicy.BY_START_TIME
        made = await self._connection.js.add_consumer(
            self._stream,
            ConsumerConfig(
                filter_subject=subjects,
                deliver_policy=policy,
                opt_start_seq=after + 1 if since_s is None else None,
                opt_start_time=None if since_s is None else datetime.fromtimestamp(since_s, UTC),
                ack_policy=AckPolicy.NONE,
                inactive_threshold=_INACTIVE_S,
                num_replicas=1,
                mem_storage=True,
            ),
        )
        self._name = made.name
        self._subscription = await self._connection.subscribe(f"{self._inbox}.*", cb=self._receive)

    async def close(self) -> None:
        if self._subscription is not None and not self._connection.broken:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._subscription.unsubscribe()
                await self._connection.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}")

    async def next(self, *, wait: bool) -> Msg | None:
        """None when there is nothing more; with `wait`, when there was nothing for a while: then ask again."""
        while True:
            if self._due == 0:
                await self._ask(wait=wait)
            message = await self._answer(self._patience_s(wait=wait))
            headers = message.headers or {}
            status, reason = headers.get("Status"), headers.get("Description", "")
            if status is None:
                self._due -= 1
                return message
            if message.subject != self._asked or status == _HEARTBEAT:
                continue  # a sign of life, or of an earlier order, all of which has come
            self._due = 0
            if status in {_NOTHING, _TIME_IS_OVER}:
                return None
            if reason not in _FULL:
                raise self._down(f"{self._what}: the server knows this reader no more ({status} {reason})")

    def _patience_s(self, *, wait: bool) -> float:
        if not wait:
            return PATIENCE_S
        return PATIENCE_S + (self._heartbeat_s or _PULL_S)

    async def _receive(self, message: Msg) -> None:
        self._received.put_nowait(message)

    async def _ask(self, *, wait: bool) -> None:
        order: dict[str, object] = {"batch": _BATCH, "max_bytes": _BATCH_BYTES}
        order |= {"expires": int(_PULL_S * 1e9)} if wait else {"no_wait": True}
        if wait and self._heartbeat_s:
            order["idle_heartbeat"] = int(self._heartbeat_s * 1e9)
        self._orders += 1
        self._asked = f"{self._inbox}.{self._orders}"
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        try:
            await self._connection.publish(subject, json.dumps(order).encode(), reply=self._asked)
        except (nats.errors.Error, OSError) as error:
            raise self._down(f"{self._what}: {error}") from error
        self._due = _BATCH

    async def _answer(self, patience_s: float) -> Msg:
        try:
            async with asyncio.timeout(patience_s) as limit:
                with self._connection.waiting(limit):
                    return await self._received.get()
        except TimeoutError:
            raise self._down(f"{self._what}: the server does not answer") from None
