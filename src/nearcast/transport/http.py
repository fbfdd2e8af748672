"""One question over HTTP, with a connection of its own, and its answer in one piece; and where one listens."""

import asyncio
import contextlib
import gzip
import zlib
from collections.abc import Mapping
from urllib.parse import urlsplit

from nearcast.domain.errors import ConfigError
from nearcast.transport.endpoint import Tls


class Unreached(OSError):
    """There is no connection: nothing was sent."""


class BadStatus(ValueError):
    """An answer that is neither 200 nor 202, with its body."""

    def __init__(self, line: str, body: bytes) -> None:
        super().__init__(f"the answer was {line}")
        self.status = int(line.split()[1]) if line.split()[1:2] and line.split()[1].isdecimal() else 0
        self.body = body


async def ask(
    url: str,
    path: str,
    body: bytes | None = None,
    *,
    most_bytes: int,
    headers: Mapping[str, str] | None = None,
    tls: Tls | None = None,
) -> bytes:
    """GET, or POST of `body`. HTTP 1.0: the answer ends with the connection. `tls` says whom an https address must be
    certified by; else the machine's own authorities.

    Raises Unreached, OSError, EOFError, BadStatus, or ValueError for an answer that is too large. Waits as long as it
    takes.
    """
    at = urlsplit(url)
    secure = at.scheme == "https"
    context = (tls or Tls()).client_context() if secure else None
    try:
        reader, writer = await asyncio.open_connection(at.hostname, at.port or (443 if secure else 80), ssl=context)
    except OSError as error:
        raise Unreached(error.strerror or str(error)) from error
    try:
        lines = [f"{'GET' if body is None else 'POST'} {at.path.rstrip('/')}{path} HTTP/1.0", f"Host: {at.netloc}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body is not None:
            lines += [f"Content-Length: {len(body)}", "Accept-Encoding: gzip"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b"\r\n", 1)[0]
        answer = bytearray()
        while chunk := await reader.read(1 << 16):
            answer += chunk
            if len(answer) > most_bytes:
                raise ValueError(f"an answer of more than {most_bytes} bytes")
        if not (b" 200 " in status or b" 202 " in status):
            raise BadStatus(status.decode(errors="replace"), bytes(answer))
        if b"content-encoding: gzip" not in head.lower():
            return bytes(answer)
        try:
            return gzip.decompress(answer)
        except (OSError, zlib.error) as error:
            raise ValueError(f"the answer cannot be decompressed: {error}") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def parse_address(text: str) -> tuple[str, int]:
    """From HOST:PORT, where an IPv6 host may stand in brackets. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 1 << 16):
        raise ConfigError(f"http: the address is {text!r}; expected HOST:PORT, like 127.0.0.1:8780")
    return host.strip("[]"), int(port)
