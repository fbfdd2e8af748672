"""What the store of a running deployment comes to hold."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager

from nearcast.coordinator.journal import BUCKET, Journal
from nearcast.coordinator.records import Records
from nearcast.domain.decision import Decision
from nearcast.domain.errors import NearcastError
from nearcast.domain.record import TopicRecord
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.access import Role
from nearcast.transport.config import Config


@asynccontextmanager
async def watched_records(config: Config, seen: Callable[[TopicRecord], None]) -> AsyncIterator[None]:
    """Meanwhile `seen` is told of every topic's record that is written, by whomever."""
    store = NatsKvStore(config.acting(Role.COORDINATOR).control, name="watcher")
    await store.open()

    async def watch() -> None:
        async with aclosing(Records(store).watch()) as records:
            async for record in records:
                seen(record)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        if watching.done() and (error := watching.exception()) is not None:
            raise NearcastError("the store could not be watched") from error
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await store.close()


async def decisions_on(config: Config, topics: Iterable[str]) -> list[Decision]:
    """Why each of them was moved, as far as that is kept."""
    store = NatsKvStore(config.acting(Role.COORDINATOR).control, name="reader", bucket=BUCKET)
    await store.open()
    try:
        return [each for topic in topics for each in await Journal(store).read(topic)]
    finally:
        await store.close()
