"""Whether a server that was just started answers: a real exchange in its own protocol.

Certificates are not checked here: the server is a child of ours on the loopback interface.
"""

import asyncio
import contextlib
import json
import ssl
from asyncio import StreamReader, StreamWriter

from nearcast.transport.endpoint import NATS, Endpoint


class Refused(Exception):
    """The server answers, and not as it should: to ask again would not help."""


async def ask(endpoint: Endpoint, pid: int) -> None:
    """Return when the server answers. Raises OSError or EOFError when it does not (yet), Refused when it never will."""
    tls = None if endpoint.tls is None else _unchecked()
    reader, writer = await asyncio.open_connection(
        endpoint.host, endpoint.port, ssl=None if endpoint.kind == NATS else tls
    )
    try:
        if endpoint.kind == NATS:
            await _ask_nats(endpoint, tls, reader, writer)
        else:
            await _ask_redis(endpoint, pid, reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _ask_nats(endpoint: Endpoint, tls: ssl.SSLContext | None, reader: StreamReader, writer: StreamWriter) -> None:
    await _line(reader)  # INFO
    if tls is not None:
        await writer.start_tls(tls)
    hello = {"verbose": False, "pedantic": False, "lang": "python", "version": "0", "name": "nearcast readiness"}
    if endpoint.user is not None:
        hello |= {"user": endpoint.user, "pass": endpoint.password}
    writer.write(b"CONNECT " + json.dumps(hello).encode() + b"\r\nPING\r\n")
    answer = await _line(reader)
    if answer != b"PONG":
        raise Refused(f"it answered {answer.decode(errors='replace')!r} to a PING")


async def _ask_redis(endpoint: Endpoint, pid: int, reader: StreamReader, writer: StreamWriter) -> None:
    if endpoint.password is not None:
        writer.write(_command("AUTH", endpoint.user or "default", endpoint.password))
        if (answer := await _line(reader)) != b"+OK":
            raise Refused(f"it answered {answer.decode(errors='replace')!r} to AUTH")
    writer.write(_command("PING"))
    if (answer := await _line(reader)) != b"+PONG":
        raise Refused(f"it answered {answer.decode(errors='replace')!r} to a PING")
    writer.write(_command("INFO", "server"))
    size = int((await _line(reader))[1:])
    facts = (await reader.readexactly(size)).decode()
    if f"process_id:{pid}\r\n" not in facts:
        raise ConnectionRefusedError(f"another Redis server answers at port {endpoint.port}")


async def _line(reader: StreamReader) -> bytes:
    line = await reader.readuntil(b"\r\n")
    return line[:-2]


def _command(*parts: str) -> bytes:
    words = [part.encode() for part in parts]
    return b"".join([b"*%d\r\n" % len(words), *(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)])


def _unchecked() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
