"""Reading a bucket of a NATS server from a revision on, at the pace of whoever reads."""

import asyncio
import contextlib
import json

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from nearcast.domain.errors import StoreDown
from nearcast.store.nats_keys import below, decoded
from nearcast.store.nats_session import PATIENCE_S, Connection
from nearcast.store.store import Entry

OPERATION = "KV-Operation"  # on a deletion

# So much is asked for at a time, and is in memory at most.
_BATCH = 256
_BATCH_BYTES = 8_000_000
_PULL_S = 5.0
_INACTIVE_S = 10.0  # after which the server forgets a reader that has gone away

_NOTHING, _TIME_IS_OVER = "404", "408"
_FULL = {"Message Size Exceeds MaxBytes", "Batch Completed"}


def is_deletion(headers: dict[str, str] | None) -> bool:
    return headers is not None and OPERATION in headers


class Reader:
    """In the order of revisions: of each key at least the last one, and none twice.

    Every method raises StoreDown when the connection it was made on has broken, or the server has forgotten it.
    """

    def __init__(self, connection: Connection, bucket: str, prefix: str, after: int) -> None:
        self.revision = after  # the newest that has been read
        self._connection = connection
        self._stream = f"KV_{bucket}"
        self._subjects = f"$KV.{bucket}."
        self._prefix = prefix
        self._inbox = connection.new_inbox()
        self._subscription: Subscription | None = None
        self._name = ""
        self._received: asyncio.Queue[Msg] = asyncio.Queue()
        self._orders = 0
        self._asked = ""  # where the newest order is answered
        self._due = 0  # of what it ordered

    @classmethod
    async def make(cls, connection: Connection, bucket: str, prefix: str, after: int) -> "Reader":
        """Reads what begins with `prefix` and has a revision above `after`."""
        reader = cls(connection, bucket, prefix, after)
        await reader._make()
        return reader

    async def close(self) -> None:
        if self._subscription is not None and not self._connection.broken:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._subscription.unsubscribe()
                await self._connection.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{self._name}")

    async def present(self) -> list[Entry]:
        """All that is there, by name, as it was at one moment: `self.revision` says which."""
        found: dict[str, Entry] = {}
        while (entry := await self.next(wait=False)) is not None:
            found[entry.key] = entry
        return sorted((entry for entry in found.values() if entry.value is not None), key=lambda entry: entry.key)

    async def next(self, *, wait: bool) -> Entry | None:
        """None when there is nothing more; with `wait`, when there was nothing for a while: then ask again."""
        while True:
            if self._due == 0:
                await self._ask(wait=wait)
            message = await self._answer(PATIENCE_S + _PULL_S if wait else PATIENCE_S)
            headers = message.headers or {}
            status, reason = headers.get("Status"), headers.get("Description", "")
            if status is None:
                self._due -= 1
                if (entry := self._entry(message)) is not None:
                    return entry
                continue
            if message.subject != self._asked:
                continue  # of an earlier order, all of which has come
            self._due = 0
            if status in {_NOTHING, _TIME_IS_OVER}:
                return None
            if reason not in _FULL:
                raise StoreDown(f"read {self._prefix!r}: the server knows this reader no more ({status} {reason})")

    async def _make(self) -> None:
        made = await self._connection.js.add_consumer(
            self._stream,
            ConsumerConfig(
                filter_subject=self._subjects + below(self._prefix),
                deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
                opt_start_seq=self.revision + 1,
                ack_policy=AckPolicy.NONE,
                inactive_threshold=_INACTIVE_S,
                num_replicas=1,
                mem_storage=True,
            ),
        )
        self._name = made.name
        self._subscription = await self._connection.subscribe(f"{self._inbox}.*", cb=self._receive)

    async def _receive(self, message: Msg) -> None:
        self._received.put_nowait(message)

    async def _ask(self, *, wait: bool) -> None:
        order: dict[str, object] = {"batch": _BATCH, "max_bytes": _BATCH_BYTES}
        order |= {"expires": int(_PULL_S * 1e9)} if wait else {"no_wait": True}
        self._orders += 1
        self._asked = f"{self._inbox}.{self._orders}"
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        try:
            await self._connection.publish(subject, json.dumps(order).encode(), reply=self._asked)
        except (nats.errors.Error, OSError) as error:
            raise StoreDown(f"read {self._prefix!r}: {error}") from error
        self._due = _BATCH

    async def _answer(self, patience_s: float) -> Msg:
        try:
            async with asyncio.timeout(patience_s) as limit:
                with self._connection.waiting(limit):
                    return await self._received.get()
        except TimeoutError:
            raise StoreDown(f"read {self._prefix!r}: the store does not answer") from None

    def _entry(self, message: Msg) -> Entry | None:
        """None for a key that does not begin with the prefix, or that another program has written."""
        self.revision = message.metadata.sequence.stream
        key = decoded(message.subject.removeprefix(self._subjects))
        if key is None or not key.startswith(self._prefix):
            return None
        return Entry(key, None if is_deletion(message.headers) else message.data, self.revision)
