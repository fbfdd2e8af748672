"""Orders to a process of this machine over a socket of its own: one JSON object a line, and one back.

Whoever may open the socket may order: it is its owner's alone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from nearcast.domain.errors import FleetError

_Answer = TypeVar("_Answer")


async def take_orders(socket: Path, carry_out: Callable[[bytes], Awaitable[Any]]) -> asyncio.Server:
    """Answers each line with what `carry_out` returns for it. FleetError when the socket cannot be made."""

    async def obey(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(await carry_out(line)) + b"\n")
                await writer.drain()
        except OSError:
            pass  # who asked did not wait for the answer
        finally:
            writer.close()

    try:
        server = await asyncio.start_unix_server(obey, socket)
        _make_private(socket)
    except OSError as error:
        raise FleetError(f"the socket {str(socket)!r} cannot be made: {error}") from error
    return server


async def ask(socket: Path, whom: str, order: Any, answer: type[_Answer], *, timeout_s: float) -> _Answer:
    """FleetError, saying why, when nobody answers. `whom`: who should."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(msgspec.json.encode(order) + b"\n")
                return msgspec.json.decode(await reader.readuntil(b"\n"), type=answer)
            finally:
                writer.close()
                await writer.wait_closed()
    except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as error:
        raise FleetError(f"{whom} does not answer at {str(socket)!r}: {str(error) or type(error).__name__}") from error


def _make_private(socket: Path) -> None:
    socket.chmod(0o600)
