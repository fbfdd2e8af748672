"""How commands that look reach the control plane: the leader by the bus, the records in the store. See also `api`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nearcast.brokers.connect import connector
from nearcast.client.open import unique_name
from nearcast.coordinator import Operator
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
    store = NatsKvStore(config.acting(Role.COORDINATOR).control, name=unique_name("operator"), bucket="nearcast")
    await store.open()
    try:
        yield Records(store)
    finally:
        await store.close()
