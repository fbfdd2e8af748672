"""What the suites over stores share, and their stage with a real server."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Protocol

from nearcast.fleet.servers import Server, ServerSpec
from nearcast.store.nats_kv import NatsKvStore
from nearcast.store.store import Entry, Store
from nearcast.transport.endpoint import NATS, Endpoint


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


class Relay:
    """Stands between one process and the server, so that the two can be cut off from each other."""

    def __init__(self, server: Server) -> None:
        self.whole = True
        self._server = server
        self._listening: asyncio.Server | None = None
        self._relayed: dict[asyncio.Task[None], None] = {}

    async def open(self) -> Endpoint:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return Endpoint(NATS, "127.0.0.1", self._listening.sockets[0].getsockname()[1])

    async def cut(self) -> None:
        self.whole = False
        for task in list(self._relayed):
            task.cancel()
        await asyncio.gather(*self._relayed, return_exceptions=True)

    async def close(self) -> None:
        await self.cut()
        assert self._listening is not None
        self._listening.close()
        await self._listening.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.whole:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._relay(reader, writer))
        self._relayed[task] = None
        task.add_done_callback(self._relayed.pop)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            endpoint = self._server.endpoint
            onward, back = await asyncio.open_connection(endpoint.host, endpoint.port)
            writers.append(back)
            ways = [asyncio.create_task(copy(reader, back)), asyncio.create_task(copy(onward, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # no server, no connection
        finally:
            for one in writers:
                one.transport.abort()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


def is_stopped(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


class NatsKvStage:
    def __init__(self, server: Server) -> None:
        self._server = server
        self._relays: dict[str, Relay] = {}
        self._stores: dict[str, NatsKvStore] = {}

    async def store(self, process: str) -> NatsKvStore:
        if process not in self._stores:
            relay = self._relays[process] = Relay(self._server)
            store = self._stores[process] = NatsKvStore(await relay.open(), name=process)
            await store.open()
        return self._stores[process]

    async def stop_store(self) -> None:
        await self._server.kill()

    async def start_store(self) -> None:
        await self._server.restart()

    async def freeze_store(self) -> None:
        self._server.pause()
        await until(lambda: is_stopped(self._server.pid))  # a thread may still answer for a moment

    async def thaw_store(self) -> None:
        self._server.resume()

    async def cut_off(self, process: str) -> None:
        await self._relays[process].cut()

    async def reconnect(self, process: str) -> None:
        self._relays[process].whole = True

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()
        for relay in self._relays.values():
            await relay.close()


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
