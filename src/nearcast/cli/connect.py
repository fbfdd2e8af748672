"""How commands reach the control plane: the leader by the bus, the records in the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearcast.brokers.connect import connector
from nearcast.client.open import unique_name
from nearcast.coordinator import Operator
from nearcast.coordinator.journal import BUCKET, Journal
from nearcast.coordinator.records import Records
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.access import Role
from nearcast.transport.config import BUS, Config


def operator_of(config: Config, role: str = "operator") -> Operator:
    name, config = unique_name(role), config.acting(Role.COORDINATOR)
    return Operator(name, connector(config.endpoints(), name=name), bus=BUS, dialect=config.dialect)


@asynccontextmanager
async def records_of(config: Config) -> AsyncIterator[Records]:
    """Raises StoreDown when the store cannot be reached."""
    async with _opened(_store(config, "nearcast")) as store:
        yield Records(store)


@asynccontextmanager
async def journal_of(config: Config) -> AsyncIterator[Journal]:
    """Raises StoreDown when the store cannot be reached."""
    async with _opened(_store(config, BUCKET)) as store:
        yield Journal(store)


def _store(config: Config, bucket: str) -> NatsKvStore:
    return NatsKvStore(config.acting(Role.COORDINATOR).control, name=unique_name("operator"), bucket=bucket)


@asynccontextmanager
async def _opened(store: NatsKvStore) -> AsyncIterator[NatsKvStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()
