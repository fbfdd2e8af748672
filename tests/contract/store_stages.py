"""What the suites over stores share, and their stage with a real server."""

import asyncio
import contextlib
import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.wan import WanEmulator
from nearcast.store.nats_kv import NatsKvStore
from nearcast.store.store import Entry, Store
from nearcast.transport.endpoint import NATS
from tests.contract.link_stages import stopped


class StoreStage(Protocol):
    """One store, and processes that use it."""

    async def store(self, process: str) -> Store: ...

    # For all processes. What was written is not lost.
    async def stop_store(self) -> None: ...
    async def start_store(self) -> None: ...
    async def freeze_store(self) -> None: ...
    async def thaw_store(self) -> None: ...

    # For one.
    async def cut_off(self, process: str) -> None: ...
    async def reconnect(self, process: str) -> None: ...


Run = Callable[[Callable[[StoreStage], Awaitable[None]]], None]


async def observe(store: Store, prefix: str, seen: list[Entry], last: bytes) -> None:
    """Watch until a key gets the value `last`."""
    async with asyncio.timeout(30), aclosing(store.watch(prefix)) as changes:
        async for entry in changes:
            seen.append(entry)
            if entry.value == last:
                return


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # A state of another process has no event to wait for.
            await asyncio.sleep(0.005)


class NatsKvStage:
    """Every process reaches the server by a way of its own, which can be cut."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ways = WanEmulator(random.Random(1))
        self._stores: dict[str, NatsKvStore] = {}

    async def store(self, process: str) -> NatsKvStore:
        if process not in self._stores:
            way = await self._ways.open(process, self._server.name, self._server.endpoint, Shape(0.0))
            store = self._stores[process] = NatsKvStore(way, name=process)
            await store.open()
        return self._stores[process]

    async def stop_store(self) -> None:
        await self._server.kill()

    async def start_store(self) -> None:
        await self._server.restart()

    async def freeze_store(self) -> None:
        self._server.pause()
        await until(lambda: stopped(self._server.pid))  # a thread may still answer for a moment

    async def thaw_store(self) -> None:
        self._server.resume()

    async def cut_off(self, process: str) -> None:
        self._ways.cut(process, self._server.name)

    async def reconnect(self, process: str) -> None:
        await self._ways.heal(process, self._server.name)

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()
        await self._ways.close()


@contextlib.asynccontextmanager
async def nats_kv_stage() -> AsyncIterator[NatsKvStage]:
    with tempfile.TemporaryDirectory() as state:
        server = await Server.start(ServerSpec(NATS, "store", jetstream=True), Path(state))
        stage = NatsKvStage(server)
        try:
            yield stage
        finally:
            await stage.close()
            server.resume()
            await server.kill()


def nats_kv(scenario: Callable[[NatsKvStage], Awaitable[None]]) -> None:
    async def on_nats_kv() -> None:
        async with asyncio.timeout(90), nats_kv_stage() as stage:
            await scenario(stage)

    asyncio.run(on_nats_kv())
