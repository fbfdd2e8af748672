"""How commands reach the control plane: the leader by the bus, the records in the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearcast.brokers.connect import connector
from nearcast.client.open import unique_name
from nearcast.coordinator import Operator
from nearcast.coordinator.records import Records
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.config import BUS, Config


def operator_of(config: Config) -> Operator:
    name = unique_name("operator")
    return Operator(name, connector(config.endpoints(), name=name), bus=BUS, dialect=config.dialect)


@asynccontextmanager
async def records_of(config: Config) -> AsyncIterator[Records]:
    """Raises StoreDown when the store cannot be reached."""
    store = NatsKvStore(config.control, name=unique_name("operator"))
    await store.open()
    try:
        yield Records(store)
    finally:
        await store.close()
