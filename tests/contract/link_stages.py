"""Real servers as stages of the contract of links."""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Connect, Link, OnState
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.transport.endpoint import NATS, REDIS, Endpoint

Scenario = Callable[["ServerStage"], Awaitable[None]]


class ServerStage:
    """One server process; every process of the scenario reaches it through a relay of its own, which can be cut."""

    broker = "b1"

    def __init__(self, server: Server) -> None:
        self.server = server
        self._relays: dict[str, Relay] = {}
        self._links: list[Link] = []

    def connector(self, process: str) -> Connect:
        async def connect(broker: str, on_state: OnState) -> Link:
            if process not in self._relays:
                self._relays[process] = await Relay.start(self.server.endpoint)
            relay = self._relays[process]
            link = await connector(lambda _broker: relay.endpoint, name=process)(broker, on_state)
            self._links.append(link)
            return link

        return connect

    async def cut(self, process: str) -> None:
        self._relays[process].cut()

    async def stop_broker(self) -> None:
        await self.server.kill()

    async def start_broker(self) -> None:
        await self.server.restart()

    async def freeze_broker(self) -> None:
        self.server.pause()
        while not stopped(self.server.pid):  # noqa: ASYNC110  # A thread that is running stops a moment later.
            await asyncio.sleep(0.001)

    async def thaw_broker(self) -> None:
        self.server.resume()

    async def close(self) -> None:
        if self.server.running:
            self.server.resume()
        try:
            for link in self._links:
                await link.close()
            for relay in self._relays.values():
                await relay.close()
        finally:
            await self.server.kill()


def stopped(pid: int) -> bool:
    states = [task.read_text().rpartition(")")[2].split()[0] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(state == "T" for state in states)


class Relay:
    """Passes bytes on between those who connect to it and one server."""

    def __init__(self, target: Endpoint) -> None:
        self.endpoint = target
        self._target = target
        self._sides: set[_Side] = set()
        self._listening: asyncio.Server | None = None

    @classmethod
    async def start(cls, target: Endpoint) -> "Relay":
        relay = cls(target)
        loop = asyncio.get_running_loop()
        relay._listening = await loop.create_server(lambda: _Side(relay._sides, join=relay._join), "127.0.0.1", 0)
        relay.endpoint = replace(target, port=relay._listening.sockets[0].getsockname()[1])
        return relay

    def cut(self) -> None:
        for side in list(self._sides):
            side.transport.abort()

    async def close(self) -> None:
        assert self._listening is not None
        self._listening.close()
        self.cut()
        await self._listening.wait_closed()
        while self._sides:  # noqa: ASYNC110  # They are gone within a turn of the loop or two.
            await asyncio.sleep(0)

    async def _join(self, near: "_Side") -> None:
        loop = asyncio.get_running_loop()
        try:
            _, far = await loop.create_connection(
                lambda: _Side(self._sides, near), self._target.host, self._target.port
            )
        except OSError:
            near.transport.abort()
            return
        near.peer = far
        far.transport.writelines(near.early)
        if near.transport.is_closing():
            far.transport.abort()


class _Side(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(
        self,
        sides: "set[_Side]",
        peer: "_Side | None" = None,
        join: "Callable[[_Side], Coroutine[Any, Any, None]] | None" = None,
    ) -> None:
        self.peer = peer
        self._sides = sides
        self._join = join
        self._joining: asyncio.Task[None] | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast("asyncio.Transport", transport)  # uvloop's are not, by class.
        self._sides.add(self)
        if self._join is not None:
            self._joining = asyncio.create_task(self._join(self))

    def data_received(self, data: bytes) -> None:
        if self.peer is None:
            self.early.append(data)
        else:
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self._sides.discard(self)
        if self.peer is not None:
            self.peer.transport.close()


async def on_server(kind: str, scenario: Scenario) -> None:
    with tempfile.TemporaryDirectory() as state:
        stage = ServerStage(await Server.start(ServerSpec(kind, ServerStage.broker), Path(state)))
        async with contextlib.AsyncExitStack() as cleanup:
            cleanup.push_async_callback(stage.close)
            async with asyncio.timeout(60):
                await scenario(stage)


def nats(scenario: Scenario) -> None:
    asyncio.run(on_server(NATS, scenario))


def redis(scenario: Scenario) -> None:
    asyncio.run(on_server(REDIS, scenario))
