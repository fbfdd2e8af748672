"""One relayed connection: a client's socket, a broker's socket, and a flow each way."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import cast

from nearcast.fleet.flow import Flow, Lane, Mark

SOCKET_BYTES = 256 * 1024  # in the kernel, each way: bounded too, or a sender would not feel the link for megabytes
_RESET_AT_ONCE = struct.pack("ii", 1, 0)


class Relay:
    """A client's connection from when it is accepted; the broker's half follows with `reach`."""

    def __init__(
        self, there: Lane, back: Lane, *, begun: Callable[["Relay"], None], gone: Callable[["Relay"], None]
    ) -> None:
        """`begun` is called when the client is there, `gone` when neither half is (again): at least once."""
        self.client = _End(self)
        self._broker = _End(self)
        self._flows = (Flow(there, self.client), Flow(back, self._broker))
        self.client.out, self.client.into = self._flows
        self._broker.into, self._broker.out = self._flows
        self._open: set[_End] = set()
        self._begun = begun
        self._gone = gone
        self._refused = False

    async def reach(self, host: str, port: int) -> None:
        """Connect to the broker; when that fails, the client is reset. Does nothing when the client is gone."""
        if self.client not in self._open:
            return
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._broker, host, port)
        except OSError:
            self.reset()

    def go_on(self) -> None:
        """The link passes bytes again."""
        for flow in self._flows:
            flow.go_on()

    def reset(self) -> None:
        """Both peers see a reset; what is on its way is lost."""
        self._refused = True
        for flow in self._flows:
            flow.abandon()
        for end in list(self._open):
            end.reset()

    def made(self, end: "_End") -> None:
        self._open.add(end)
        end.into.flow_to(end)
        if end is self.client:
            self._begun(self)
        elif self._refused:
            end.reset()

    def lost(self, end: "_End") -> None:
        self._open.discard(end)
        if not self._open:
            self._gone(self)


class _End(asyncio.Protocol):
    """One of the two sockets. `out` is what it sends us, `into` what it is to get."""

    out: Flow
    into: Flow

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._all_received = False
        self._all_sent = False

    # For the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        self._relay.made(self)

    def data_received(self, data: bytes) -> None:
        self.out.put(data)

    def eof_received(self) -> bool:
        self._all_received = True
        self.out.put(Mark.EOF)
        return not self._all_sent

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.out.put(Mark.CLOSE if exc is None else Mark.RESET)
        self.into.abandon()
        self._relay.lost(self)

    def pause_writing(self) -> None:
        self.into.stall(True)

    def resume_writing(self) -> None:
        self.into.stall(False)

    # For the flows

    def pause_reading(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def end(self, mark: Mark) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if mark is Mark.RESET:
            self.reset()
        elif mark is Mark.CLOSE or self._all_received:
            self._transport.close()
        else:
            self._all_sent = True
            self._transport.write_eof()

    def reset(self) -> None:
        if self._transport is None:
            return
        with contextlib.suppress(OSError):  # closed by the peer meanwhile
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_ONCE)
        self._transport.abort()
