"""Datasets, feeds, channels and procedures by name, in the store, and what depends on what.

All of it is one value, changed by compare-and-set: a dataset cannot be dropped at the moment in which something that
reads it is created. Names and queries are small; a value holds 1 MB.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec

from nearcast.domain.channel import Channel
from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.errors import CatalogRefused, Conflict, PipelineError, StoreError
from nearcast.domain.procedure import Procedure
from nearcast.store.store import ABSENT, MAX_VALUE_BYTES, Store

BUCKET = "nearcast_pipeline"
"""Where a NATS store has it, and the tables' pointers: apart from what a new leader reads."""

_KEY = "catalog"

_Named = TypeVar("_Named", bound=Dataset | Feed | Channel | Procedure)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Of each kind by name, sorted. Changes make a new one, or raise CatalogRefused."""

    datasets: tuple[Dataset, ...] = ()
    feeds: tuple[Feed, ...] = ()
    channels: tuple[Channel, ...] = ()
    procedures: tuple[Procedure, ...] = ()

    def dataset(self, name: str) -> Dataset:
        """Whatever the case of its letters, as in SQL. Raises CatalogRefused, with those there are."""
        return _found("dataset", self.datasets, name)

    def feed(self, name: str) -> Feed:
        return _found("feed", self.feeds, name)

    def channel(self, name: str) -> Channel:
        return _found("channel", self.channels, name)

    def procedure(self, name: str) -> Procedure:
        return _found("procedure", self.procedures, name)

    def readers(self, dataset: str) -> tuple[str, ...]:
        """What would be left without its dataset: (`feed orders fills it`, `channel late reads it`)."""
        wanted = dataset.lower()
        feeds = [f"feed {each.name} fills it" for each in self.feeds if each.dataset.lower() == wanted]
        reading = [each.name for each in self.channels if wanted in map(str.lower, each.datasets)]
        using = [each.name for each in self.procedures if wanted in map(str.lower, (*each.datasets, each.target or ""))]
        return (
            *feeds,
            *(f"channel {name} reads it" for name in reading),
            *(f"procedure {name} uses it" for name in using),
        )

    def with_dataset(self, dataset: Dataset) -> Catalog:
        return replace(self, datasets=_added("dataset", self.datasets, dataset))

    def without_dataset(self, name: str) -> Catalog:
        gone = self.dataset(name)
        if readers := self.readers(gone.name):
            raise CatalogRefused(f"cannot drop dataset {gone.name}: {', '.join(readers)}; drop that first")
        return replace(self, datasets=tuple(each for each in self.datasets if each != gone))

    def with_feed(self, feed: Feed) -> Catalog:
        into = self.dataset(feed.dataset)
        return replace(self, feeds=_added("feed", self.feeds, replace(feed, dataset=into.name)))

    def without_feed(self, name: str) -> Catalog:
        gone = self.feed(name)
        return replace(self, feeds=tuple(each for each in self.feeds if each != gone))

    def with_channel(self, channel: Channel) -> Catalog:
        """Raises CatalogRefused also when a dataset that it reads is gone, since it was tried out."""
        read = tuple(self.dataset(name).name for name in channel.datasets)
        return replace(self, channels=_added("channel", self.channels, replace(channel, datasets=read)))

    def without_channel(self, name: str) -> Catalog:
        gone = self.channel(name)
        return replace(self, channels=tuple(each for each in self.channels if each != gone))

    def with_procedure(self, procedure: Procedure) -> Catalog:
        for name in (*procedure.datasets, *filter(None, [procedure.target])):
            self.dataset(name)
        return replace(self, procedures=_added("procedure", self.procedures, procedure))

    def without_procedure(self, name: str) -> Catalog:
        gone = self.procedure(name)
        return replace(self, procedures=tuple(each for each in self.procedures if each != gone))


class CatalogStore:
    """The catalog in the store. Every method raises StoreDown when that cannot be reached."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self) -> Catalog:
        return (await self._read())[0]

    async def change(self, change: Callable[[Catalog], Catalog]) -> Catalog:
        """What `change` makes of it as it is now. What `change` raises is raised, and nothing has been changed."""
        while True:
            catalog, revision = await self._read()
            changed = change(catalog)
            value = msgspec.json.encode(changed)
            if len(value) > MAX_VALUE_BYTES:
                raise CatalogRefused(f"the catalog would have {len(value)} bytes; at most {MAX_VALUE_BYTES} are kept")
            try:
                await self._store.put(_KEY, value, revision)
            except Conflict:
                continue  # another has changed it meanwhile
            return changed

    async def watch(self) -> AsyncGenerator[Catalog, None]:
        """As it is, and whenever it has changed. Close it when it is left."""
        yield await self.read()
        async with aclosing(self._store.watch(_KEY)) as entries:
            async for entry in entries:
                if entry.value is not None:
                    yield _decoded(entry.value)

    async def _read(self) -> tuple[Catalog, int]:
        entry = await self._store.get(_KEY)
        if entry is None or entry.value is None:
            return Catalog(), ABSENT
        return _decoded(entry.value), entry.revision


def _decoded(value: bytes) -> Catalog:
    try:
        return _decoder.decode(value)
    except (msgspec.MsgspecError, PipelineError) as error:
        raise StoreError(f"store: the catalog is not readable: {error}") from error


_decoder = msgspec.json.Decoder(Catalog)


def _found(kind: str, among: tuple[_Named, ...], name: str) -> _Named:
    for each in among:
        if each.name.lower() == name.lower():
            return each
    known = f"{kind}s are {', '.join(each.name for each in among)}" if among else f"there is no {kind} yet"
    raise CatalogRefused(f"no {kind} {name!r}; {known}")


def _added(kind: str, among: tuple[_Named, ...], new: _Named) -> tuple[_Named, ...]:
    for each in among:
        if each.name.lower() == new.name.lower():
            raise CatalogRefused(f"{kind} {each.name} is there already; drop it first, or choose another name")
    found: list[_Named] = [*among, new]
    return tuple(sorted(found, key=lambda each: each.name))
