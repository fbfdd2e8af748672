"""The store on a NATS server with JetStream: two key-value buckets, one for values and one for leases.

A put that has returned is on the server's disk if the server runs with `sync_interval: always`; otherwise it may be
lost with the machine. A deleted key leaves a mark of some bytes in its bucket for ever.
"""

import re
from collections.abc import AsyncGenerator

from nearcast.domain.errors import ConfigError, StoreDown
from nearcast.store.cas_leases import CasLeases
from nearcast.store.nats_bucket import Bucket
from nearcast.store.store import MAX_VALUE_BYTES, Entry
from nearcast.transport.clock import Clock, SystemClock
from nearcast.transport.endpoint import NATS, Endpoint
from nearcast.transport.nats_session import Session

_HEADERS_BYTES = 1_000
_BUCKET = re.compile(r"[A-Za-z0-9_-]+")


class NatsKvStore:
    """A `nearcast.store.store.Store`. Within 2 s every method has an answer or raises StoreDown, also when the server
    is frozen; a server that is back is found again without help.
    """

    def __init__(self, endpoint: Endpoint, *, name: str, bucket: str = "nearcast", clock: Clock | None = None) -> None:
        """`name` is shown to the server. Raises ConfigError."""
        if endpoint.kind != NATS:
            raise ConfigError(f"store: {endpoint.url} is not a NATS server, and only that has key-value buckets")
        if not _BUCKET.fullmatch(bucket):
            raise ConfigError(f"store: bucket {bucket!r} is not a name of letters, digits, '_' and '-'")
        clock = clock or SystemClock()
        if endpoint.tls is not None:
            endpoint.tls.client_context()  # a file that cannot be used is told now
        self._session = Session(lambda: (endpoint,), name, clock, what="the store", down=StoreDown)
        self._values = Bucket(self._session, bucket, clock)
        self._lease_values = Bucket(self._session, f"{bucket}_leases", clock)
        self._leases = CasLeases(self._lease_values, clock)

    async def open(self) -> None:
        """Connects, and creates what is absent. Raises StoreDown, and may be called again then; ConfigError."""
        await self._session.open()
        try:
            await self._must_take_values()
            await self._values.create()
            await self._lease_values.create()
        except BaseException:
            await self._session.close()
            raise

    async def close(self) -> None:
        """Whatever is asked, or watched, from now on raises StoreDown."""
        await self._session.close()

    async def get(self, key: str) -> Entry | None:
        return await self._values.get(key)

    async def put(self, key: str, value: bytes, expected: int) -> int:
        return await self._values.put(key, value, expected)

    async def delete(self, key: str, expected: int) -> None:
        await self._values.delete(key, expected)

    async def list(self, prefix: str) -> list[Entry]:
        return await self._values.list(prefix)

    def watch(self, prefix: str) -> AsyncGenerator[Entry, None]:
        return self._values.watch(prefix)

    async def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        return await self._leases.acquire(key, owner, ttl_s)

    async def release(self, key: str, owner: str) -> None:
        await self._leases.release(key, owner)

    async def _must_take_values(self) -> None:
        needed = MAX_VALUE_BYTES + _HEADERS_BYTES
        async with self._session.asking("open") as connection:
            if connection.max_payload < needed:
                raise ConfigError(
                    f"store: the server takes messages of {connection.max_payload} bytes only; "
                    f"set its max_payload to {needed} or more"
                )
