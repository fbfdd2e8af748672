"""A broker in this process's memory: for virtual time, and for tests on a normal event loop.

memory_server   the broker: match, then deliver; one thread per connection; output buffers that overflow
memory_pipe     the wire: delay, jitter, bandwidth; what a break loses
memory_link     the client: confirm, drain, reconnect
"""

import random
from collections.abc import Iterable
from functools import partial
from typing import Protocol

from nearcast.brokers.link import Connect, OnState
from nearcast.brokers.memory_link import MemoryLink
from nearcast.brokers.memory_pipe import Wire
from nearcast.brokers.memory_server import ClientEnd, Connection, MemoryBroker, ServerCosts
from nearcast.brokers.patience import Patience
from nearcast.domain.errors import LinkDown
from nearcast.transport.clock import Clock

__all__ = ["MemoryBroker", "MemoryConnect", "MemoryLink", "Patience", "ServerCosts", "Wire", "memory_connect"]


class DialBroker(Protocol):
    """Makes a connection to the broker of that name, or raises LinkDown."""

    def __call__(self, broker: str, client: ClientEnd) -> Connection: ...


class MemoryConnect:
    """A `nearcast.brokers.link.Connect` for one process."""

    def __init__(
        self,
        dial: DialBroker,
        clock: Clock,
        rng: random.Random,
        *,
        confirm: bool = True,
        patience: Patience | None = None,
    ) -> None:
        self._dial = dial
        self._clock = clock
        self._rng = rng
        self._confirm = confirm
        self._patience = patience

    async def __call__(self, broker: str, on_state: OnState) -> MemoryLink:
        link = MemoryLink(
            broker,
            partial(self._dial, broker),
            on_state,
            self._clock,
            self._rng,
            confirm=self._confirm,
            patience=self._patience,
        )
        return await link.open()


def memory_connect(
    brokers: Iterable[MemoryBroker],
    process: str,
    clock: Clock,
    rng: random.Random,
    *,
    wire: Wire | None = None,
    confirm: bool = True,
    patience: Patience | None = None,
) -> Connect:
    """What `process` connects by when every broker is reachable over the same wire and nothing fails by itself.

    For faults between processes and brokers see `nearcast.sim.network`.
    """
    by_name = {broker.name: broker for broker in brokers}

    def dial(broker: str, client: ClientEnd) -> Connection:
        if broker not in by_name:
            raise LinkDown(f"there is no broker {broker!r}; {process} knows {', '.join(sorted(by_name))}")
        return by_name[broker].accept(process, wire or Wire(), rng, client)

    return MemoryConnect(dial, clock, rng, confirm=confirm, patience=patience)
