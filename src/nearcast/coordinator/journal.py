"""Decisions in the store: one key per topic, the newest of each, kept apart from what a new leader reads. And what
operators ordered, the newest of it in one key.

Whoever decided adds to it, whether it leads still or not: what was decided is so, and is never taken back.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from nearcast.domain.decision import Decision, merged
from nearcast.domain.errors import Conflict, StoreError
from nearcast.domain.task import Task, newest
from nearcast.store.store import ABSENT, Store

BUCKET = "nearcast_decisions"
"""Where a NATS store has them."""

_KEYS = "decision/"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(tuple[Decision, ...])
_TASKS = "tasks"
_task_decoder = msgspec.json.Decoder(tuple[Task, ...])


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

    async def note(self, task: Task) -> None:
        """What an operator ordered; one that is there already becomes what it is here."""
        while True:
            entry = await self._store.get(_TASKS)
            known, revision = ((), ABSENT) if entry is None or entry.value is None else (entry.value, entry.revision)
            tasks = newest((*(_tasks(known) if known else ()), task))
            try:
                await self._store.put(_TASKS, _encoder.encode(tasks), revision)
            except Conflict:
                continue
            return

    async def watch(self) -> AsyncGenerator[tuple[Decision, ...] | tuple[Task, ...], None]:
        """First what is there, then what changes: all decisions of one topic, or all tasks, at a time."""
        async with aclosing(self._store.watch("")) as entries:
            async for entry in entries:
                if entry.value is None:
                    continue
                if entry.key == _TASKS:
                    yield _tasks(entry.value)
                elif entry.key.startswith(_KEYS):
                    yield _decisions(entry.key.removeprefix(_KEYS), entry.value)

    async def _read(self, topic: str) -> tuple[tuple[Decision, ...], int]:
        entry = await self._store.get(_KEYS + topic)
        if entry is None or entry.value is None:
            return (), ABSENT
        return _decisions(topic, entry.value), entry.revision


def _decisions(topic: str, value: bytes) -> tuple[Decision, ...]:
    try:
        return _decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise StoreError(f"store: the decisions of topic {topic!r} are not readable: {error}") from error


def _tasks(value: bytes) -> tuple[Task, ...]:
    try:
        return _task_decoder.decode(value)
    except msgspec.MsgspecError as error:
        raise StoreError(f"store: what operators ordered is not readable: {error}") from error
