"""The distinct subscriptions that are wanted, in the store: some hundred in one value, so that many are few writes."""

from collections.abc import Mapping

import msgspec

from nearcast.control.demand import Demanded
from nearcast.domain.errors import StoreError
from nearcast.store.store import ABSENT, Store

_KEYS = "wanted/"
_SHARD = 2  # hexadecimal digits of the key: 256 values for all channels together

_decoder = msgspec.json.Decoder(dict[str, Demanded])


class DistinctStore:
    """One writer at a time: whoever finds that another has written gets a Conflict, and loads again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shards: dict[str, dict[str, Demanded]] = {}
        self._revisions: dict[str, int] = {}

    async def load(self) -> list[Demanded]:
        """All there are. Raises StoreDown."""
        self._shards, self._revisions = {}, {}
        for entry in await self._store.list(_KEYS):
            if entry.value is None:
                continue
            shard = entry.key.removeprefix(_KEYS)
            try:
                self._shards[shard] = _decoder.decode(entry.value)
            except msgspec.MsgspecError as error:
                raise StoreError(f"store: the value of {entry.key!r} is not readable: {error}") from error
            self._revisions[shard] = entry.revision
        return [each for shard in self._shards.values() for each in shard.values()]

    def find(self, key: str) -> Demanded | None:
        return self._shards.get(key[:_SHARD], {}).get(key)

    async def save(self, changes: Mapping[str, Demanded | None]) -> None:
        """None: it is no longer wanted. Raises StoreDown, or Conflict when another has written meanwhile."""
        for shard in dict.fromkeys(key[:_SHARD] for key in changes):
            kept = dict(self._shards.get(shard, {}))
            for key, change in changes.items():
                if key[:_SHARD] != shard:
                    continue
                if change is None:
                    kept.pop(key, None)
                else:
                    kept[key] = change
            if kept != self._shards.get(shard, {}):
                value, before = msgspec.json.encode(kept), self._revisions.get(shard, ABSENT)
                self._revisions[shard] = await self._store.put(_KEYS + shard, value, before)
                self._shards[shard] = kept
