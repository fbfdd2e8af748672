"""The WAN emulator as a process of its own: what it is told at its start, and how it is told more while it runs."""

import asyncio
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
import uvloop

from nearcast.domain.errors import ConfigError, NearcastError
from nearcast.fleet.orders import ask, take_orders
from nearcast.fleet.shape import Shape
from nearcast.fleet.wan import LinkState, WanEmulator
from nearcast.transport.endpoint import Endpoint
from nearcast.transport.process import say_ready

_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class WanLink:
    """`port` is chosen beforehand (see ports.free_port), so that it is the same after a restart."""

    site: str
    broker: str
    url: str  # where the broker is; credentials are the clients' affair
    port: int
    shape: Shape


@dataclass(frozen=True, slots=True)
class WanPlan:
    """What the emulator is started with; `control` is the path of the socket on which it takes orders."""

    links: tuple[WanLink, ...]
    control: str
    seed: int = 0

    def write(self, file: Path) -> None:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self)) + b"\n")

    @classmethod
    def read(cls, file: Path) -> "WanPlan":
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
        except (msgspec.MsgspecError, ConfigError) as error:
            raise ConfigError(f"{file}: {error}") from error


class _Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    do: Literal["shape", "cut", "hold", "heal", "state"]
    site: str
    broker: str
    shape: Shape | None = None


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    error: str | None = None
    shape: Shape | None = None
    state: LinkState | None = None


async def serve(plan: WanPlan, stopped: asyncio.Event, ready: Callable[[], None]) -> None:
    """Relay until `stopped`; `ready` is called once every link is open. Raises FleetError when a port is taken."""
    emulator = WanEmulator(random.Random(plan.seed))
    try:
        for link in plan.links:
            await emulator.open(link.site, link.broker, Endpoint.parse(link.url), link.shape, port=link.port)
        async with await take_orders(Path(plan.control), partial(_carry_out, emulator)):
            ready()
            await stopped.wait()
    finally:
        await emulator.close()


async def _carry_out(emulator: WanEmulator, line: bytes) -> _Answer:
    try:
        order = msgspec.json.decode(line, type=_Order)
        if order.do == "shape":
            if order.shape is None:
                raise ConfigError("an order to shape a link needs a shape")
            emulator.shape(order.site, order.broker, order.shape)
        elif order.do == "cut":
            emulator.cut(order.site, order.broker)
        elif order.do == "hold":
            emulator.hold(order.site, order.broker)
        elif order.do == "heal":
            await emulator.heal(order.site, order.broker)
        shape, state = emulator.state(order.site, order.broker)
    except (msgspec.MsgspecError, NearcastError) as error:
        return _Answer(error=str(error))
    return _Answer(shape=shape, state=state)


class WanControl:
    """Orders to an emulator that runs in another process. Each returns when it has been carried out.

    An emulator that is started again begins as its plan says: what it was told here is forgotten.
    """

    def __init__(self, control: str) -> None:
        self._path = control

    async def shape(self, site: str, broker: str, shape: Shape) -> None:
        await self._ask(_Order("shape", site, broker, shape))

    async def cut(self, site: str, broker: str) -> None:
        await self._ask(_Order("cut", site, broker))

    async def hold(self, site: str, broker: str) -> None:
        await self._ask(_Order("hold", site, broker))

    async def heal(self, site: str, broker: str) -> None:
        await self._ask(_Order("heal", site, broker))

    async def state(self, site: str, broker: str) -> tuple[Shape, LinkState]:
        answer = await self._ask(_Order("state", site, broker))
        assert answer.shape is not None
        assert answer.state is not None
        return answer.shape, answer.state

    async def _ask(self, order: _Order) -> _Answer:
        """Raises FleetError when the emulator cannot be reached, ConfigError when it refuses."""
        answer = await ask(Path(self._path), "the WAN emulator", order, _Answer, timeout_s=_ANSWER_S)
        if answer.error is not None:
            raise ConfigError(f"wan: {answer.error}")
        return answer


def main() -> None:
    """`python -m nearcast.fleet.wan_main PLAN`: says in one JSON line that it is ready; runs until it is stopped."""

    async def run(plan: WanPlan) -> None:
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await serve(plan, stopped, say_ready)

    try:
        uvloop.run(run(WanPlan.read(Path(sys.argv[1]))))
    except NearcastError as error:
        sys.exit(f"nearcast: {error}")


if __name__ == "__main__":
    main()
