"""Public helpers for tests of code that uses nearcast: real servers, each for as long as a test needs it.

    async with run_nats(jetstream=True) as server:
        ...  # server.endpoint, server.kill(), server.restart(), server.pause()

A server that cannot be started is an error that says what to install: no test passes because something is missing.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from nearcast.fleet.cluster import Cluster
from nearcast.fleet.ports import free_port
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.testing.processors import busy
from nearcast.transport.endpoint import NATS, REDIS, Tls

__all__ = ["Server", "busy", "run_nats", "run_nats_cluster", "run_redis"]


def run_nats(
    name: str = "nats",
    *,
    port: int = 0,
    jetstream: bool = False,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | None = None,
) -> AbstractAsyncContextManager[Server]:
    """A NATS server on the loopback interface, by default on a free port; it and its data are gone afterwards.

    Raises FleetError when it does not start.
    """
    return _run(ServerSpec(NATS, name, port, jetstream, user, password, tls))


def run_redis(
    name: str = "redis",
    *,
    port: int = 0,
    user: str | None = None,
    password: str | None = None,
    tls: Tls | None = None,
) -> AbstractAsyncContextManager[Server]:
    """A Redis server, as `run_nats`. It keeps nothing on disk."""
    return _run(ServerSpec(REDIS, name, port, user=user, password=password, tls=tls))


@asynccontextmanager
async def _run(spec: ServerSpec) -> AsyncIterator[Server]:
    with tempfile.TemporaryDirectory(prefix="nearcast-test-") as state:
        server = await Server.start(spec, Path(state))
        try:
            yield server
        finally:
            await server.kill()


@asynccontextmanager
async def run_nats_cluster(
    name: str = "nats", *, servers: int = 3, racks: int | None = None
) -> AsyncIterator[list[Server]]:
    """NATS servers that keep streams together, each on a rack of its own, or on so many racks in turn.

    Raises FleetError when one does not start.
    """
    ports = tuple(free_port() for _ in range(servers))
    with tempfile.TemporaryDirectory(prefix="nearcast-test-") as state:
        started: list[Server] = []
        try:
            for number, port in enumerate(ports):
                cluster = Cluster(name, port, ports, f"rack{number % (racks or servers) + 1}")
                spec = ServerSpec(NATS, f"{name}-{number + 1}", jetstream=True, cluster=cluster)
                started.append(await Server.start(spec, Path(state)))
            yield started
        finally:
            for server in started:
                await server.kill()
