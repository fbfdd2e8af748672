"""Servers on demand in virtual time: a broker and its agent, now and then only at the second attempt."""

import random
from collections.abc import Callable

from nearcast.brokers.link import Connect, Link, OnState
from nearcast.domain.broker import Addresses
from nearcast.domain.errors import FleetError, LinkDown
from nearcast.fleet.provisioner import Rented
from nearcast.transport.clock import Clock

_START_S = 0.3


class SimProvisioner:
    """`start` and `stop` a server with its agent. One in `refuses` attempts fails, by chance."""

    def __init__(
        self, clock: Clock, rng: random.Random, start: Callable[[str], None], stop: Callable[[str], None]
    ) -> None:
        self.refuses = 0.0
        self.rented: list[str] = []
        self._clock = clock
        self._rng = rng
        self._start = start
        self._stop = stop

    async def rent(self, name: str) -> Rented:
        await self._clock.sleep(_START_S)
        self._perhaps_not("rent", name)
        if name not in self.rented:
            self.rented.append(name)
            self._start(name)
        return Rented(f"memory://{name}")

    async def release(self, name: str) -> None:
        await self._clock.sleep(_START_S)
        self._perhaps_not("release", name)
        if name in self.rented:
            self.rented.remove(name)
            self._stop(name)

    def _perhaps_not(self, what: str, name: str) -> None:
        if self.refuses and self._rng.random() < self.refuses:
            raise FleetError(f"no server today: {what} {name!r}")


class Acquainted:
    """A `Connect` that reaches only brokers which its process has heard of."""

    def __init__(self, connect: Connect, known: tuple[str, ...]) -> None:
        self._connect = connect
        self._known = dict.fromkeys(known)

    def learn(self, addresses: Addresses) -> None:
        self._known.update((broker, None) for broker, _ in addresses)

    async def __call__(self, broker: str, on_state: OnState) -> Link:
        if broker not in self._known:
            raise LinkDown(f"nobody has said where broker {broker!r} is")
        return await self._connect(broker, on_state)
