"""What a client cannot take from the others at real servers: raw sockets, because a library would stop itself."""

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.domain.errors import ConfigError, LinkDown
from nearcast.fleet.credentials import role_passwords
from nearcast.fleet.permissions import Guard
from nearcast.fleet.quota import Quota
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.transport.access import Role
from nearcast.transport.endpoint import NATS, REDIS, Endpoint
from tests.contract.test_link import until

CONNECTIONS = 20
QUOTA = Quota(CONNECTIONS, 10, 1 << 20, 4 << 20)


@pytest.fixture(params=[NATS, REDIS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(kind: str, state: Path, scenario: Callable[[Endpoint], Awaitable[None]]) -> None:
    """The scenario gets the address with a client's credentials."""

    async def on_server() -> None:
        guard = Guard(role_passwords(state), quota=QUOTA)
        server = await Server.start(ServerSpec(kind, "b1", guard=guard), state)
        try:
            async with asyncio.timeout(60):
                await scenario(replace(server.endpoint, user="client", password=guard.passwords[Role.CLIENT]))
        finally:
            await server.stop()

    asyncio.run(on_server())


@asynccontextmanager
async def raw(at: Endpoint) -> AsyncIterator[tuple[StreamReader, StreamWriter]]:
    """Let in, and nothing else."""
    reader, writer = await asyncio.open_connection(at.host, at.port, limit=1 << 16)
    try:
        if at.kind == NATS:
            await reader.readline()
            hello = f'{{"verbose":false,"user":"{at.user}","pass":"{at.password}"}}'
            writer.write(f"CONNECT {hello}\r\nPING\r\n".encode())
            assert await reader.readline() == b"PONG\r\n"
        else:
            writer.write(f"AUTH {at.user} {at.password}\r\n".encode())
            assert await reader.readline() == b"+OK\r\n"
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


@asynccontextmanager
async def link_to(at: Endpoint) -> AsyncIterator[Link]:
    link = await connector(lambda _broker: at, name="other")("b1", lambda _up: None)
    try:
        yield link
    finally:
        await link.close()


async def rest_of(reader: StreamReader) -> bytes:
    """Until the server has ended the connection."""
    said = b""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        while chunk := await reader.read(1 << 16):
            said = (said + chunk)[-1000:]
    return said


def test_an_oversized_message_ends_its_senders_connection_and_reaches_nobody(kind: str, tmp_path: Path) -> None:
    async def scenario(at: Endpoint) -> None:
        got: list[bytes] = []
        async with link_to(at) as other:
            await other.subscribe("t", got.append)
            size = QUOTA.message_bytes + 1
            head = f"PUB t {size}\r\n" if kind == NATS else f"*3\r\n$7\r\nPUBLISH\r\n$1\r\nt\r\n${size}\r\n"
            async with raw(at) as (reader, writer):
                writer.write(head.encode())  # with more under way, the reset may overtake what the server says
                assert b"Maximum Payload Violation" in (said := await rest_of(reader)) or b"invalid bulk length" in said
                with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                    writer.write(bytes(size) + b"\r\n")
                    await writer.drain()
            other.publish("t", b"after")
            await other.flush()
            assert got == [b"after"]

    run(kind, tmp_path, scenario)


def test_a_slow_reader_is_cut_off_and_the_others_hear_everything(kind: str, tmp_path: Path) -> None:
    async def scenario(at: Endpoint) -> None:
        got: list[int] = []
        async with link_to(at) as other, raw(at) as (slow, writer):
            await other.subscribe("t", lambda data: got.append(len(data)))
            writer.write(b"SUB t 1\r\nPING\r\n" if kind == NATS else b"SUBSCRIBE t\r\n")
            await slow.readline()
            count, message = 100, bytes(500_000)
            for _ in range(count):
                other.publish("t", message)
                await other.flush()
            await until(lambda: len(got) == count)
            heard = 0
            with contextlib.suppress(ConnectionResetError):
                while chunk := await slow.read(1 << 20):
                    heard += len(chunk)
            assert heard < count * len(message), "it was not told everything before it was cut off"

    run(kind, tmp_path, scenario)


def test_a_flood_of_connections_is_stopped_at_the_quota_and_who_was_there_is_served(kind: str, tmp_path: Path) -> None:
    async def scenario(at: Endpoint) -> None:
        got: list[bytes] = []
        async with link_to(at) as other, contextlib.AsyncExitStack() as flood:
            await other.subscribe("t", got.append)
            held = 0
            for _ in range(2 * CONNECTIONS):
                with contextlib.suppress(AssertionError, ConnectionError):
                    await flood.enter_async_context(raw(at))
                    held += 1
            assert held == CONNECTIONS - 1
            with pytest.raises(LinkDown):
                await connector(lambda _broker: at, name="late")("b1", lambda _up: None)
            other.publish("t", b"still there")
            await other.flush()
            assert got == [b"still there"]
        async with link_to(at):
            pass  # once they are gone, there is room

    run(kind, tmp_path, scenario)


def test_a_connection_has_no_more_subscriptions_than_the_quota(tmp_path: Path) -> None:
    async def scenario(at: Endpoint) -> None:
        async with raw(at) as (reader, writer):
            for number in range(QUOTA.subscriptions + 1):
                writer.write(f"SUB t{number} {number}\r\n".encode())
            writer.write(b"PING\r\n")
            assert b"maximum subscriptions exceeded" in (await reader.readline()).lower()

    run(NATS, tmp_path, scenario)


def test_a_quota_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="connections is 0; expected at least 1"):
        Quota(connections=0)
    with pytest.raises(ConfigError, match="message_bytes is 9; expected at least 1048576"):
        Quota(message_bytes=9)
