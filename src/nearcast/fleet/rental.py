"""Servers on demand as local processes: the supervisor that keeps a fleet running starts and ends further ones.

It takes orders on a socket in its state directory (see `orders`). The coordinators' configuration says where it is.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from nearcast.domain.errors import FleetError, NearcastError
from nearcast.fleet.commands import own_command
from nearcast.fleet.orders import ask, take_orders
from nearcast.fleet.permissions import Guard
from nearcast.fleet.provisioner import Rented
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.supervisor import Supervisor
from nearcast.transport.endpoint import NATS, Tls

_ANSWER_S = 60.0  # a server and its agent start meanwhile, on a machine that may be busy


class _Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    do: Literal["rent", "release"]
    name: str


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str | None = None
    rented: Rented | None = None


@dataclass(frozen=True, slots=True)
class RentalSpec:
    """What kind of servers there are to be had. `config` is for their agents."""

    kind: str
    config: Path
    monitor: bool = False
    out_bytes_per_s: float | None = None
    guard: Guard | None = None
    tls: Tls | None = None


class Rental:
    """A `Provisioner` within the supervisor's process. One order at a time."""

    def __init__(self, supervisor: Supervisor, spec: RentalSpec) -> None:
        self._supervisor = supervisor
        self._spec = spec
        self._servers: dict[str, Server] = {}
        self._busy = asyncio.Lock()

    async def rent(self, name: str) -> Rented:
        async with self._busy:
            server = self._servers.get(name)
            if server is None or not self._runs(name):
                await self._end(name)
                server = await self._begin(name)
            return Rented(server.url, out_bytes_per_s=self._spec.out_bytes_per_s)

    async def release(self, name: str) -> None:
        async with self._busy:
            await self._end(name)

    def _runs(self, name: str) -> bool:
        state = {child.name: child.state for child in self._supervisor.status.children}
        return all(state.get(each) not in {None, "failed"} for each in (name, _agent(name)))

    async def _begin(self, name: str) -> Server:
        spec = self._spec
        monitor = spec.monitor and spec.kind == NATS
        server = await self._supervisor.start(
            ServerSpec(spec.kind, name, monitor=monitor, guard=spec.guard, tls=spec.tls), vital=False
        )
        self._servers[name] = server
        command = ["agent", "--broker", name, "--url", server.url]
        if server.monitor_url is not None:
            command += ["--monitor", server.monitor_url]
        if spec.out_bytes_per_s is not None:
            command += ["--capacity", repr(spec.out_bytes_per_s)]
        try:
            await self._supervisor.start(own_command(_agent(name), "agent", command, spec.config), vital=False)
        except BaseException:
            await self._end(name)
            raise
        return server

    async def _end(self, name: str) -> None:
        if self._servers.pop(name, None) is not None:
            known = [child.name for child in self._supervisor.status.children]
            for each in (_agent(name), name):
                if each in known:
                    await self._supervisor.retire(each)


@asynccontextmanager
async def renting(supervisor: Supervisor, spec: RentalSpec, socket: Path) -> AsyncIterator[Rental]:
    """Meanwhile orders are taken on `socket`. Raises FleetError when it cannot be made."""
    rental = Rental(supervisor, spec)
    async with await take_orders(socket, partial(_carry_out, rental)):
        yield rental


async def _carry_out(rental: Rental, line: bytes) -> _Answer:
    try:
        order = msgspec.json.decode(line, type=_Order)
        if order.do == "rent":
            return _Answer(rented=await rental.rent(order.name))
        await rental.release(order.name)
    except (msgspec.MsgspecError, NearcastError) as error:
        return _Answer(error=str(error))
    return _Answer()


class LocalProvisioner:
    """A `Provisioner` that asks the supervisor of a `nearcast up`, from another process."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def rent(self, name: str) -> Rented:
        answer = await self._ask(_Order("rent", name))
        assert answer.rented is not None
        return answer.rented

    async def release(self, name: str) -> None:
        await self._ask(_Order("release", name))

    async def _ask(self, order: _Order) -> _Answer:
        answer = await ask(self._socket, "the supervisor", order, _Answer, timeout_s=_ANSWER_S)
        if answer.error is not None:
            raise FleetError(f"{order.do} {order.name!r}: {answer.error}")
        return answer


def _agent(name: str) -> str:
    return f"agent-{name}"
