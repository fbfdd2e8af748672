"""Reading a bucket of a NATS server from a revision on, at the pace of whoever reads."""

from nats.aio.msg import Msg

from nearcast.domain.errors import StoreDown
from nearcast.store.nats_keys import below, decoded
from nearcast.store.store import Entry
from nearcast.transport.nats_pull import Puller
from nearcast.transport.nats_session import Connection

OPERATION = "KV-Operation"  # on a deletion


def is_deletion(headers: dict[str, str] | None) -> bool:
    return headers is not None and OPERATION in headers


class Reader:
    """In the order of revisions: of each key at least the last one, and none twice.

    Every method raises StoreDown when the connection it was made on has broken, or the server has forgotten it.
    """

    def __init__(self, connection: Connection, bucket: str, prefix: str, after: int) -> None:
        self.revision = after  # the newest that has been read
        self._puller = Puller(connection, f"KV_{bucket}", f"read {prefix!r}", down=StoreDown)
        self._subjects = f"$KV.{bucket}."
        self._prefix = prefix

    @classmethod
    async def make(cls, connection: Connection, bucket: str, prefix: str, after: int) -> "Reader":
        """Reads what begins with `prefix` and has a revision above `after`."""
        reader = cls(connection, bucket, prefix, after)
        await reader._puller.make(reader._subjects + below(prefix), after=after)
        return reader

    async def close(self) -> None:
        await self._puller.close()

    async def present(self) -> list[Entry]:
        """All that is there, by name, as it was at one moment: `self.revision` says which."""
        found: dict[str, Entry] = {}
        while (entry := await self.next(wait=False)) is not None:
            found[entry.key] = entry
        return sorted((entry for entry in found.values() if entry.value is not None), key=lambda entry: entry.key)

    async def next(self, *, wait: bool) -> Entry | None:
        """None when there is nothing more; with `wait`, when there was nothing for a while: then ask again."""
        while (message := await self._puller.next(wait=wait)) is not None:
            if (entry := self._entry(message)) is not None:
                return entry
        return None

    def _entry(self, message: Msg) -> Entry | None:
        """None for a key that does not begin with the prefix, or that another program has written."""
        self.revision = message.metadata.sequence.stream
        key = decoded(message.subject.removeprefix(self._subjects))
        if key is None or not key.startswith(self._prefix):
            return None
        return Entry(key, None if is_deletion(message.headers) else message.data, self.revision)
