"""As much as one server can deliver: raw connections that do next to nothing, so that the server is what is measured.

One publisher, many subscribers, in one thread: commands are written from a block made beforehand, and what comes back
is counted by its bytes and not looked at. No more than a window is under way, so that nothing piles up in the server.
"""

import json
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from nearcast.domain.errors import FleetError
from nearcast.transport.endpoint import NATS, Endpoint

_TOPIC = b"flood"
_BLOCK = 64  # messages that are written at a time
_WINDOW = 64 * _BLOCK
_READ_BYTES = 1 << 18
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Wire:
    """How a kind of server is spoken to. `heard_bytes`: what each subscriber reads per message."""

    hello: bytes
    subscribe: bytes
    subscribed: bytes
    message: bytes
    heard_bytes: int


def wire_of(kind: str, size_bytes: int, topic: bytes = _TOPIC) -> Wire:
    """The payload, of zeros, is the last of `message` and of what is heard, but for two bytes."""
    payload, size = bytes(size_bytes), str(size_bytes).encode()
    if kind == NATS:
        hello = b"CONNECT " + json.dumps({"verbose": False, "pedantic": False, "lang": "raw"}).encode() + b"\r\n"
        heard = len(b"MSG " + topic + b" 1 " + size + b"\r\n" + payload + b"\r\n")
        publish = b"PUB " + topic + b" " + size + b"\r\n" + payload + b"\r\n"
        return Wire(hello, b"SUB " + topic + b" 1\r\nPING\r\n", b"PONG\r\n", publish, heard)
    channel = b"$%d\r\n%b\r\n" % (len(topic), topic)
    bulk = b"$" + size + b"\r\n" + payload + b"\r\n"
    heard = len(b"*3\r\n$7\r\nmessage\r\n" + channel + bulk)
    publish = b"*3\r\n$7\r\nPUBLISH\r\n" + channel + bulk
    return Wire(b"", b"*2\r\n$9\r\nSUBSCRIBE\r\n" + channel, channel + b":1\r\n", publish, heard)


def flood(
    endpoint: Endpoint,
    *,
    fanout: int,
    size_bytes: int,
    warm_up_s: float,
    seconds: float,
    at_edges: Callable[[], None] = lambda: None,
) -> float:
    """Deliveries per second, over `seconds` after `warm_up_s`; `at_edges` is called when they begin and end.

    Raises FleetError when the server stops delivering.
    """
    wire = wire_of(endpoint.kind, size_bytes)
    sockets: list[socket.socket] = []
    try:
        sockets += [connected(endpoint, wire, wire.subscribe, wire.subscribed) for _ in range(fanout)]
        sockets.append(connected(endpoint, wire, b"PING\r\n", b"PONG\r\n"))
        return _Flood(sockets[-1], sockets[:-1], wire).run(warm_up_s, seconds, at_edges)
    except OSError as error:
        raise FleetError(f"{endpoint.url}: the flood broke off: {error}") from error
    finally:
        for each in sockets:
            each.close()


def connected(endpoint: Endpoint, wire: Wire, command: bytes, answer: bytes) -> socket.socket:
    """Returns when the server has given the answer to the command."""
    made = socket.create_connection((endpoint.host, endpoint.port), timeout=_PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(wire.hello + command)
    heard = b""
    while answer not in heard:  # NATS may say more behind it
        chunk = made.recv(4096)
        if not chunk:
            made.close()
            raise ConnectionResetError(f"the server ended the connection: {heard[-200:]!r}")
        heard += chunk
    made.setblocking(False)
    return made


class _Flood:
    def __init__(self, publisher: socket.socket, subscribers: list[socket.socket], wire: Wire) -> None:
        self._publisher = publisher
        self._heard = dict.fromkeys(subscribers, 0)
        self._wire = wire
        self._block = memoryview(wire.message * _BLOCK)
        self._sent = 0  # bytes
        self._scratch = bytearray(_READ_BYTES)
        self._selector = selectors.DefaultSelector()

    def run(self, warm_up_s: float, seconds: float, at_edges: Callable[[], None]) -> float:
        with self._selector as selector:
            for each in (self._publisher, *self._heard):
                selector.register(each, selectors.EVENT_READ)
            self._until(time.monotonic() + warm_up_s)
            at_edges()
            begun_s, before = time.monotonic(), sum(self._heard.values())
            self._until(begun_s + seconds)
            took_s, after = time.monotonic() - begun_s, sum(self._heard.values())
            at_edges()
        return (after - before) / self._wire.heard_bytes / took_s

    def _until(self, end_s: float) -> None:
        while time.monotonic() < end_s:
            self._write()
            ready = self._selector.select(_PATIENCE_S)
            if not ready:
                raise FleetError(f"nothing was delivered for {_PATIENCE_S:g} s")
            for key, _ in ready:
                assert isinstance(key.fileobj, socket.socket)
                self._read(key.fileobj)

    def _write(self) -> None:
        """As far as the window and the connection let it."""
        slowest = min(self._heard.values()) // self._wire.heard_bytes
        most = (slowest + _WINDOW) * len(self._wire.message)
        try:
            while self._sent < most:
                self._sent += self._publisher.send(self._block[self._sent % len(self._block) :])
        except BlockingIOError:
            pass  # there is something to read then, or soon

    def _read(self, connection: socket.socket) -> None:
        size = connection.recv_into(self._scratch)
        if not size:
            raise ConnectionResetError("the server ended the connection")
        if connection in self._heard:
            self._heard[connection] += size
