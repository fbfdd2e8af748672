"""Sessions with a NATS server.

nats-py makes the connection: address, TLS, credentials. The messages then go past it, because of what its own way of
sending and receiving does: `flush()` writes its PING ahead of a SUB that still waits in a buffer, so that the PONG
confirms nothing; `unsubscribe()` throws away what is held; every subscription has a task, and a queue that drops what
it cannot hold.

Here everything is written in the order of the calls, and one PING after a SUB is enough: the server handles the
commands of a connection one after the other, and a subscription is in its table before it reads on. That holds for one
server, which is what a broker is; in a cluster the other servers learn of it later.
"""

import asyncio
import json
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from nearcast.brokers.session import Session, Streams, Subscribed
from nearcast.domain.errors import LinkDown
from nearcast.transport.endpoint import Endpoint

_MOST_LINE_BYTES = 64 * 1024  # INFO is the longest line


async def dial_nats(endpoint: Endpoint, *, name: str, peer: str) -> Session:
    """Raises LinkDown saying why we were not let in, ConfigError when a file for TLS cannot be used."""
    tls = None if endpoint.tls is None else endpoint.tls.client_context()
    failures: list[Exception] = []

    async def note(error: Exception) -> None:
        failures.append(error)

    client = _Opener(tls=endpoint.tls is not None)
    session: NatsSession | None = None
    try:
        await client.connect(
            endpoint.url,
            name=name,
            user=endpoint.user,
            password=endpoint.password,
            tls=tls,
            tls_hostname=None if endpoint.tls is None else endpoint.tls.server_name or endpoint.host,
            error_cb=note,
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
        )
        session = NatsSession(peer, client.max_payload)
        await session.take_over(client.take_streams())
    except (nats.errors.Error, OSError) as error:
        cause = failures[0] if failures else error  # What nats-py raises may be that no servers are left to try.
        raise LinkDown(f"{peer} cannot be reached: {str(cause) or type(cause).__name__}") from error
    finally:
        try:
            await client.leave()
        except asyncio.CancelledError:
            if session is not None:
                session.cut("cancelled while it was opened")  # nobody will have it
            raise
    return session


class _Opener(Client):
    """nats-py, for opening a connection. What is used of its inside is here, and pinned by the contract tests."""

    def __init__(self, *, tls: bool) -> None:
        super().__init__()
        self._wants_tls = tls

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """The server's first line, before anything is sent to it. nats-py would go on without TLS, password and all."""
        if self._wants_tls and not (info.get("tls_required") or info.get("tls_available")):
            raise nats.errors.Error("TLS is asked for, and the server has none")
        if not self._wants_tls and info.get("tls_required"):
            raise nats.errors.Error("the server asks for TLS: say tls:// in its address")
        info["tls_required"] = self._wants_tls
        await super()._process_info(info, initial_connection)

    def take_streams(self) -> Streams:
        """The connection, which is nats-py's no longer: without its transport its tasks find nothing to do."""
        transport, self._transport = self._transport, None
        assert isinstance(transport, TcpTransport)
        return Streams(transport._io_reader, transport._io_writer, kept=transport)  # noqa: SLF001  # No public way.

    async def leave(self) -> None:
        """End nats-py's tasks, and the connection unless it was taken."""
        if self._transport:  # It is true once it is connected.
            self.take_streams().abort()
        self._transport = None
        await self.close()


class NatsSession(Session):
    ping_command = b"PING\r\n"

    def __init__(self, peer: str, max_payload_bytes: int) -> None:
        super().__init__(peer)
        self.max_payload_bytes = max_payload_bytes
        self._by_sid: dict[bytes, Subscribed] = {}
        self._held: list[bytes] = []  # the beginning of something whose end has not come
        self._held_bytes = 0
        self._needed_bytes = 0

    def subscribe(self, subscribed: Subscribed) -> None:
        self._by_sid[subscribed.sid] = subscribed
        self.write(b"SUB %b %b\r\n" % (subscribed.subject, subscribed.sid))

    def unsubscribe(self, subscribed: Subscribed) -> None:
        self.write(b"UNSUB %b\r\n" % subscribed.sid)

    def forget(self, subscribed: Subscribed) -> None:
        self._by_sid.pop(subscribed.sid, None)

    def mute(self) -> None:
        self._by_sid.clear()

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed_bytes:
                return
            data = b"".join(self._held)
            self._held.clear()
        try:
            done = self._parse(data)
        except (ValueError, IndexError) as error:
            self.cut(f"the server sent what is not NATS: {error}")
            return
        if done < len(data):
            self._held.append(data[done:])
            self._held_bytes = len(data) - done

    def _head(self, subject: bytes) -> bytes:
        return b"PUB %b " % subject

    def _parse(self, data: bytes) -> int:
        """Handle what is complete, and return where the rest begins. Sets how much of that is needed to go on."""
        at, end, by_sid = 0, len(data), self._by_sid
        while at < end:
            eol = data.find(b"\r\n", at)
            if eol < 0:
                self._needed_bytes = end - at + 1
                if self._needed_bytes > _MOST_LINE_BYTES:
                    raise ValueError("a line without an end")
                return at
            if not data.startswith((b"MSG ", b"HMSG "), at):
                if not self._obey(data[at:eol]):
                    return end
                at = eol + 2
                continue
            # MSG <subject> <sid> [reply] <bytes>, or HMSG <subject> <sid> [reply] <bytes of headers> <bytes>
            words = data[at:eol].split(b" ")
            begin = eol + 2
            after = begin + int(words[-1]) + 2
            if after > end:
                self._needed_bytes = after - at
                return at
            if words[0] == b"HMSG":
                begin += int(words[-2])
            at = after
            subscribed = by_sid.get(words[2])
            if subscribed is not None:
                try:
                    subscribed.receive(data[begin : after - 2])
                except Exception as error:  # noqa: BLE001  # Whatever it is, the reader goes on; see `_failed`.
                    self._failed(subscribed, error)
        return at

    def _obey(self, line: bytes) -> bool:
        """Whether to go on. Some errors end the connection and some do not (a permission is missing, for one); in any
        case something was not done, and a break says so to everybody: an answer that comes after it counts no more."""
        if line == b"PONG":
            self._answered()
        elif line == b"PING":
            self.write(b"PONG\r\n")
        elif line.startswith(b"-ERR"):
            self.cut(f"the server said {line[4:].decode(errors='replace').strip()}")
            return False
        elif line.startswith(b"INFO "):
            self.max_payload_bytes = json.loads(line[5:]).get("max_payload", self.max_payload_bytes)
        elif line != b"+OK":
            raise ValueError(f"{line[:40]!r}")
        return True
