"""How what the pipeline runs is doing, for who asks: the last failure of each, in the store."""

from dataclasses import dataclass

import msgspec

from nearcast.domain.errors import Conflict
from nearcast.store.store import ABSENT, Store

_KEYS = "status/"


@dataclass(frozen=True, slots=True)
class WorkStatus:
    """Since `at_s` it runs, or has failed with `error` and will be tried again."""

    at_s: float
    error: str | None = None


_decoder = msgspec.json.Decoder(WorkStatus)


class StatusStore:
    """Of no weight: the last writer wins."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, name: str) -> WorkStatus | None:
        entry = await self._store.get(_KEYS + name)
        if entry is None or entry.value is None:
            return None
        return _decoder.decode(entry.value)

    async def write(self, name: str, status: WorkStatus) -> None:
        while True:
            entry = await self._store.get(_KEYS + name)
            try:
                await self._store.put(_KEYS + name, msgspec.json.encode(status), entry.revision if entry else ABSENT)
            except Conflict:
                continue
            return
