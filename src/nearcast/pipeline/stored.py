"""The pipeline's store: the catalog, the pointers of tables, and how far channels are."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearcast.client.open import unique_name
from nearcast.pipeline.catalog import BUCKET
from nearcast.store.nats_kv import NatsKvStore
from nearcast.store.store import Store
from nearcast.transport.access import Role
from nearcast.transport.config import Config


@asynccontextmanager
async def pipeline_store_of(config: Config) -> AsyncIterator[Store]:
    """Raises StoreDown when it cannot be reached."""
    store = NatsKvStore(config.acting(Role.COORDINATOR).control, name=unique_name("operator"), bucket=BUCKET)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
