"""How records of topics and brokers, promises and the ring are written in the store: by compare-and-set (rule 10)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeVar

import msgspec

from nearcast.domain.broker import BrokerRecord
from nearcast.domain.errors import ConfigError, Conflict, StoreError
from nearcast.domain.record import TopicRecord
from nearcast.domain.ring import Ring
from nearcast.domain.slo import Slo
from nearcast.store.store import ABSENT, Store

_T = TypeVar("_T")
_TOPICS = "topic/"
_BROKERS = "broker/"
_PROMISES = "promise/"
_RING = "ring"

_encoder = msgspec.json.Encoder()
_topic_decoder = msgspec.json.Decoder(TopicRecord)
_broker_decoder = msgspec.json.Decoder(BrokerRecord)
_slo_decoder = msgspec.json.Decoder(Slo)


class _StoredRing(msgspec.Struct, frozen=True):
    version: int
    brokers: tuple[str, ...]


_ring_decoder = msgspec.json.Decoder(_StoredRing)


class Records:
    """Remembers the revision of every key it has read or written, so that a write of another is found out."""

    def __init__(self, store: Store, *, fenced: bool = True) -> None:
        self.brokers: tuple[BrokerRecord, ...] = ()  # as they were when the topics were loaded
        self.promises: dict[str, Slo] = {}  # likewise, by topic
        self._store = store
        self._revisions: dict[str, int] = {}
        self._fenced = fenced  # False only to show what rule 10 is for

    async def load(self) -> list[TopicRecord]:
        """Every topic's, and the brokers' and the promises of the same moment."""
        records: list[TopicRecord] = []
        brokers: list[BrokerRecord] = []
        promises: dict[str, Slo] = {}
        self._revisions.clear()
        for entry in await self._store.list(""):
            if entry.value is not None and entry.key.startswith(_TOPICS):
                records.append(_decoded(_topic_decoder, entry.key, entry.value))
            elif entry.value is not None and entry.key.startswith(_BROKERS):
                brokers.append(_decoded(_broker_decoder, entry.key, entry.value))
            elif entry.value is not None and entry.key.startswith(_PROMISES):
                topic = entry.key.removeprefix(_PROMISES)
                promises[topic] = _decoded(_slo_decoder, entry.key, entry.value)
            else:
                continue
            self._revisions[entry.key] = entry.revision
        self.brokers, self.promises = tuple(brokers), promises
        return records

    async def watch(self) -> AsyncGenerator[TopicRecord, None]:
        """Every record that is there, and then every one that is written. Close it when it is left."""
        async with aclosing(self._store.watch(_TOPICS)) as entries:
            async for entry in entries:
                if entry.value is not None:
                    yield _decoded(_topic_decoder, entry.key, entry.value)

    async def save(self, record: TopicRecord) -> None:
        """Raises Conflict when another has written the topic since it was read."""
        await self._put(_TOPICS + record.topic, _encoder.encode(record))

    async def save_broker(self, record: BrokerRecord) -> None:
        """Raises Conflict as `save` does."""
        await self._put(_BROKERS + record.name, _encoder.encode(record))

    async def save_promise(self, topic: str, slo: Slo | None) -> None:
        """None: nothing is promised any more. Raises Conflict as `save` does."""
        key = _PROMISES + topic
        if slo is not None:
            await self._put(key, _encoder.encode(slo))
        elif key in self._revisions:
            try:
                await self._store.delete(key, self._revisions[key])
            except Conflict:
                if await self._store.get(key) is not None:  # else ours: a deletion whose answer was lost
                    raise
            del self._revisions[key]

    async def load_ring(self) -> Ring | None:
        entry = await self._store.get(_RING)
        if entry is None or entry.value is None:
            return None
        self._revisions[_RING] = entry.revision
        stored = _decoded(_ring_decoder, _RING, entry.value)
        return Ring(stored.brokers, stored.version)

    async def save_ring(self, ring: Ring) -> None:
        await self._put(_RING, _encoder.encode(_StoredRing(ring.version, ring.brokers)))

    async def _put(self, key: str, value: bytes) -> None:
        try:
            self._revisions[key] = await self._store.put(key, value, self._revisions.get(key, ABSENT))
        except Conflict:
            entry = await self._store.get(key)
            if entry is not None and entry.value == value:  # ours: a write whose answer was lost
                self._revisions[key] = entry.revision
            elif self._fenced:
                raise
            else:
                self._revisions[key] = await self._store.put(key, value, entry.revision if entry else ABSENT)


def _decoded(decoder: msgspec.json.Decoder[_T], key: str, value: bytes) -> _T:
    try:
        return decoder.decode(value)
    except (msgspec.MsgspecError, ConfigError) as error:
        raise StoreError(f"store: the value of {key!r} is not readable: {error}") from error
