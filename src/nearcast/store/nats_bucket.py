"""Values by compare-and-set in one key-value bucket of a NATS server, as its other clients write and read them."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, RawStreamMsg, StorageType
from nats.js.errors import APIError, BadRequestError, NotFoundError

from nearcast.domain.errors import Conflict, StoreDown, StoreError
from nearcast.store.nats_keys import encoded
from nearcast.store.nats_reader import OPERATION, Reader, is_deletion
from nearcast.store.store import ABSENT, Entry, must_fit
from nearcast.transport.clock import Clock
from nearcast.transport.nats_session import RETRY_S, Session

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_NO_SUCH_KEY = 10037
_NAME_IN_USE = 10058
_WRONG_REVISION = {10071, 10164}


class Bucket:
    """Not promised: what a write at the revision of a deletion does. It is ABSENT that stands for a deleted key."""

    def __init__(self, session: Session, name: str, clock: Clock) -> None:
        self._session = session
        self._name = name
        self._stream = f"KV_{name}"
        self._clock = clock

    async def create(self) -> None:
        """If it is absent; several may do it at once. One that is there is left as it is."""
        async with self._session.asking(f"open bucket {self._name!r}") as connection:
            config = KeyValueConfig(self._name, history=1, storage=StorageType.FILE, direct=False)
            try:
                await connection.js.create_key_value(config)
            except BadRequestError as error:
                if error.err_code != _NAME_IN_USE:
                    raise

    async def get(self, key: str) -> Entry | None:
        subject = self._subject(key)
        async with self._session.asking(f"get {key!r}") as connection:
            found = await self._last(connection.js, subject)
        if found is None or is_deletion(found.headers):
            return None
        return Entry(key, found.data or b"", found.seq or 0)

    async def put(self, key: str, value: bytes, expected: int) -> int:
        must_fit(key, value)
        subject, last = self._subject(key), expected
        async with self._session.asking(f"put {key!r}") as connection:
            while True:
                written = await self._write(connection.js, subject, value, {_EXPECTED: str(last)})
                if written is not None:
                    return written
                # For the server a deleted key is at the revision of its deletion.
                found = await self._last(connection.js, subject) if expected == ABSENT else None
                if found is None or not is_deletion(found.headers):
                    raise _conflict(key, expected)
                last = found.seq or 0

    async def delete(self, key: str, expected: int) -> None:
        if expected == ABSENT:
            if await self.get(key) is not None:
                raise _conflict(key, expected)
            return
        async with self._session.asking(f"delete {key!r}") as connection:
            headers = {_EXPECTED: str(expected), OPERATION: "DEL"}
            if await self._write(connection.js, self._subject(key), b"", headers) is None:
                raise _conflict(key, expected)

    async def list(self, prefix: str) -> list[Entry]:
        async with self._reader(prefix, 0) as reader:
            return await reader.present()

    async def watch(self, prefix: str) -> AsyncGenerator[Entry, None]:
        async with self._reader(prefix, 0) as reader:
            present = await reader.present()
        for entry in present:
            yield entry
        revision = reader.revision
        while True:
            try:
                async with self._reader(prefix, revision) as reader:
                    while True:
                        change = await reader.next(wait=True)
                        revision = reader.revision
                        if change is not None:
                            yield change
            except StoreDown:
                if self._session.closed:
                    raise
                await self._clock.sleep(RETRY_S)

    async def _last(self, js: JetStreamContext, subject: str) -> RawStreamMsg | None:
        try:
            # Asked of the stream's leader: any replica may answer a `direct` question, with what it knows.
            return await js.get_last_msg(self._stream, subject, direct=False)
        except NotFoundError as error:
            if error.err_code != _NO_SUCH_KEY:
                raise
            return None

    async def _write(self, js: JetStreamContext, subject: str, value: bytes, headers: dict[str, str]) -> int | None:
        try:
            ack = await js.publish(subject, value, headers=headers)
        except APIError as error:
            if error.err_code not in _WRONG_REVISION:
                raise
            return None
        return ack.seq

    def _subject(self, key: str) -> str:
        return f"$KV.{self._name}.{encoded(key)}"

    @contextlib.asynccontextmanager
    async def _reader(self, prefix: str, after: int) -> AsyncIterator[Reader]:
        """Of what has a revision above `after`. When it breaks, with StoreDown, another may be made."""
        what = f"read {prefix!r}"
        async with self._session.asking(what) as connection:
            if after:
                newest = (await connection.js.stream_info(self._stream)).state.last_seq
                if newest < after:
                    raise StoreError(f"{what}: the store went from revision {after} back to {newest}: it lost data")
            reader = await Reader.make(connection, self._name, prefix, after)
        try:
            yield reader
        finally:
            await reader.close()


def _conflict(key: str, expected: int) -> Conflict:
    return Conflict(f"{key!r} is not at revision {expected}: read it again and decide again")
