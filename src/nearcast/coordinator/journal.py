"""Decisions in the store: one key per topic, the newest of each, kept apart from what a new leader reads.

Whoever decided adds to it, whether it leads still or not: what was decided is so, and is never taken back.
"""

import msgspec

from nearcast.domain.decision import Decision, merged
from nearcast.domain.errors import Conflict, StoreError
from nearcast.store.store import ABSENT, Store

BUCKET = "nearcast_decisions"
"""Where a NATS store has them."""

_KEYS = "decision/"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[Decision, ...])


class Journal:
    """Every method raises StoreDown when the store cannot be reached."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, topic: str) -> tuple[Decision, ...]:
        """The oldest first. Raises StoreError for what another version wrote and this one cannot read."""
        return (await self._read(topic))[0]

    async def add(self, topic: str, decisions: tuple[Decision, ...]) -> None:
        """A decision that is there already becomes what it is here."""
        while True:
            known, revision = await self._read(topic)
            try:
                await self._store.put(_KEYS + topic, _encoder.encode(merged(known, decisions)), revision)
            except Conflict:
                continue  # another has added one meanwhile
            return

    async def _read(self, topic: str) -> tuple[tuple[Decision, ...], int]:
        entry = await self._store.get(_KEYS + topic)
        if entry is None or entry.value is None:
            return (), ABSENT
        try:
            return _decoder.decode(entry.value), entry.revision
        except msgspec.MsgspecError as error:
            raise StoreError(f"store: the decisions of topic {topic!r} are not readable: {error}") from error
