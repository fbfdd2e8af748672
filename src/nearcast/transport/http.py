"""One question over HTTP, with a connection of its own, and its answer in one piece; and where one listens."""

import asyncio
import contextlib
import gzip
import ssl
import zlib
from urllib.parse import urlsplit

from nearcast.domain.errors import ConfigError


async def ask(url: str, path: str, body: bytes | None = None, *, most_bytes: int) -> bytes:
    """GET, or POST of `body`. HTTP 1.0: the answer ends with the connection.

    Raises OSError, EOFError, or ValueError for an answer that is not 200 or too large. Waits as long as it takes.
    """
    at = urlsplit(url)
    secure = at.scheme == "https"
    tls = ssl.create_default_context() if secure else None
    reader, writer = await asyncio.open_connection(at.hostname, at.port or (443 if secure else 80), ssl=tls)
    try:
        lines = [f"{'GET' if body is None else 'POST'} {at.path.rstrip('/')}{path} HTTP/1.0", f"Host: {at.netloc}"]
        if body is not None:
            lines += [f"Content-Length: {len(body)}", "Accept-Encoding: gzip"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        head = await reader.readuntil(b"\r\n\r\n")
        status = head.split(b"\r\n", 1)[0]
        if b" 200 " not in status:
            raise ValueError(f"the answer was {status.decode(errors='replace')}")
        answer = bytearray()
        while chunk := await reader.read(1 << 16):
            answer += chunk
            if len(answer) > most_bytes:
                raise ValueError(f"an answer of more than {most_bytes} bytes")
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
