"""The WAN emulator: a TCP relay that makes each broker as far away from each site as it is told.

Nothing of the kernel is changed, and no rights are needed. Emulated are delay, jitter, bandwidth, the round trips of
connecting, resets and partitions. Not emulated: loss and reordering of packets (TCP hides both, at the price of time),
and congestion control.
"""

import asyncio
import random
import socket
from dataclasses import replace
from typing import Literal

from nearcast.domain.errors import ConfigError, FleetError
from nearcast.fleet.flow import Lane
from nearcast.fleet.ports import HOST, free_port, is_free
from nearcast.fleet.relay import SOCKET_BYTES, Relay
from nearcast.fleet.shape import Shape
from nearcast.fleet.timer import Timers
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import Endpoint

LinkState = Literal["open", "held", "cut"]

_BACKLOG = 1024
# SYN, SYN-ACK and ACK have each crossed the link before a real server sees the connection. Here the client's own
# connect() returns at once, and the bytes after it come as late as they would.
_CROSSINGS_TO_CONNECT = 3


class WanEmulator:
    """Relays connections over links, each between one site and one broker, all in this process."""

    def __init__(self, rng: random.Random) -> None:
        """`rng` draws the jitter. Needs a running event loop."""
        self._rng = rng
        self._timers = Timers()
        self._links: dict[tuple[str, str], _Link] = {}

    async def open(self, site: str, broker: str, endpoint: Endpoint, shape: Shape, *, port: int = 0) -> Endpoint:
        """The address by which a client at `site` reaches `broker`, which itself is at `endpoint`.

        `port` 0 means a free one. Raises FleetError when the port is taken, ConfigError when the link is open already.
        """
        if (site, broker) in self._links:
            raise ConfigError(f"the link from {site!r} to {broker!r} is open already")
        link = _Link(endpoint, shape, self._timers, self._rng, port)
        self._links[site, broker] = link
        await link.heal()
        # A certificate is for the broker's own name.
        name = None if endpoint.tls is None else endpoint.tls.server_name or endpoint.host
        tls = None if endpoint.tls is None else replace(endpoint.tls, server_name=name)
        return replace(endpoint, host=HOST, port=link.port, tls=tls)

    def shape(self, site: str, broker: str, shape: Shape) -> None:
        """From now on. What is on its way arrives when it would have, and nothing overtakes it."""
        self._link(site, broker).reshape(shape)

    def cut(self, site: str, broker: str) -> None:
        """Connections are reset and new ones refused, until healed."""
        self._link(site, broker).cut()

    def hold(self, site: str, broker: str) -> None:
        """A partition: connections stay, and all bytes wait, until healed. Connecting succeeds, and then waits."""
        self._link(site, broker).hold()

    async def heal(self, site: str, broker: str) -> None:
        """The end of a cut or of a partition."""
        await self._link(site, broker).heal()

    def state(self, site: str, broker: str) -> tuple[Shape, LinkState]:
        link = self._link(site, broker)
        return link.shape, link.state

    async def close(self) -> None:
        """All connections are reset, all ports are free again."""
        for link in self._links.values():
            await link.close()
        self._links.clear()
        self._timers.close()

    def _link(self, site: str, broker: str) -> "_Link":
        try:
            return self._links[site, broker]
        except KeyError:
            known = ", ".join(f"{site} to {broker}" for site, broker in self._links)
            raise ConfigError(f"no link from {site!r} to {broker!r}; links are {known or 'none'}") from None


class _Link:
    def __init__(self, to: Endpoint, shape: Shape, timers: Timers, rng: random.Random, port: int) -> None:
        self.shape = shape
        self.state: LinkState = "cut"
        self._to = to
        self._there = Lane(shape, timers, rng)
        self._back = Lane(shape, timers, rng)
        self._relays: dict[Relay, None] = {}
        self._crew = Crew()
        self._passable = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._reserved = _reserve(port)
        self.port: int = self._reserved.getsockname()[1]

    def reshape(self, shape: Shape) -> None:
        self.shape = self._there.shape = self._back.shape = shape

    def cut(self) -> None:
        self.state = "cut"
        self._passable.clear()
        if self._server is not None:
            self._server.close()
            self._server = None
        for relay in list(self._relays):
            relay.reset()

    def hold(self) -> None:
        if self.state == "open":
            self.state = "held"
            self._there.held = self._back.held = True
            self._passable.clear()

    async def heal(self) -> None:
        self.state = "open"
        self._there.held = self._back.held = False
        self._passable.set()
        for relay in list(self._relays):
            relay.go_on()
        if self._server is None:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
            listener.bind((HOST, self.port))
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._accept, sock=listener, backlog=_BACKLOG)

    async def close(self) -> None:
        self.cut()
        await self._crew.close()
        self._reserved.close()

    def _accept(self) -> asyncio.Protocol:
        return Relay(self._there, self._back, begun=self._begin, gone=self._forget).client

    def _begin(self, relay: Relay) -> None:
        if self.state == "cut":  # since the kernel took the connection
            relay.reset()
            return
        self._relays[relay] = None
        self._crew.start(self._reach(relay), f"connect to port {self._to.port}")

    async def _reach(self, relay: Relay) -> None:
        await asyncio.sleep(_CROSSINGS_TO_CONNECT * self.shape.delay_s)
        await self._passable.wait()
        await relay.reach(self._to.host, self._to.port)

    def _forget(self, relay: Relay) -> None:
        self._relays.pop(relay, None)


def _reserve(port: int) -> socket.socket:
    """A socket that never listens: it keeps the port ours while a link is cut, and whoever connects is refused."""
    if port and not is_free(port):
        raise FleetError(f"wan: port {port} is taken by another process")
    reserved = socket.socket()
    # Connections that the port's last owner closed linger in the kernel for a minute: no obstacle while we bind.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Shared with the listener. Another process of this user could share it too; is_free() and free_port() see to it.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        reserved.bind((HOST, port or free_port()))
    except OSError as error:
        reserved.close()
        raise FleetError(f"wan: port {port or 'of choice'} cannot be used: {error.strerror}") from error
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # from now on is_free() says no
    return reserved
