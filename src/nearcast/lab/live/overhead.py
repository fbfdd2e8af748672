"""What the load analyzer costs a server: the same flood, beside the same clients, with the analyzer on and off.

Two fleets of one broker each, alike but for the analyzer. While one is measured, every process of the other stands
still. Both have clients of nearcast at work, so that there is something to count; the flood's own are plain clients.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from nearcast.fleet.child import Child
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.flood import flood
from nearcast.lab.live.worker import ClientSpec, WorkerSpec
from nearcast.transport.config import load_config

_BROKER = "b1"
_TIMING = {"lease_s": 60.0}  # a fleet that stands still for a while is not to take its agents for lost
_FANOUT = 10
_SIZE_BYTES = 128
_TICKS_PER_S = 100.0


@dataclass(frozen=True, slots=True)
class OverheadScale:
    """`clients` of nearcast listen on two of `topics` topics each and publish on one, `rate_hz` each."""

    rounds: int = 12
    seconds: float = 3.0
    warm_up_s: float = 1.0
    clients: int = 60
    topics: int = 30
    rate_hz: float = 5.0


@dataclass(frozen=True, slots=True)
class Measured:
    """`server_cpu` and `agent_cpu`: of how many processors, meanwhile."""

    deliveries_hz: float
    server_cpu: float
    agent_cpu: float


@dataclass(frozen=True, slots=True)
class OverheadRound:
    off: Measured
    on: Measured

    @property
    def ratio(self) -> float:
        return self.on.deliveries_hz / self.off.deliveries_hz

    @property
    def cpu_ratio(self) -> float:
        """The same per processor time of the server, whatever else the machine did: without what the agent takes."""
        return self.ratio * self.off.server_cpu / self.on.server_cpu


class OverheadFleet:
    """Use as `async with`; nothing it started is left afterwards."""

    def __init__(self, kind: str, scale: OverheadScale, state: Path, *, analyzer: bool) -> None:
        self._kind = kind
        self._scale = scale
        self._state = state
        self._analyzer = analyzer
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            self._state.mkdir()
            supervisor = await self._stack.enter_async_context(Supervisor(self._state))
            spec = LocalSpec(
                sites=1, kind=self._kind, coordinators=1, timing=_TIMING, analyzer=self._analyzer, secure=False
            )
            path = await launch(supervisor, spec)
            self._endpoint = load_config(path).brokers[_BROKER].endpoint
            self._server, self._agent = supervisor.child(_BROKER), supervisor.child(f"agent-{_BROKER}")
            self._children: list[Child] = [supervisor.child(each.name) for each in supervisor.status.children]
            clients = await self._start_clients(path)
            self._stack.push_async_callback(clients.stop)
            self._children.append(clients)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.resume()
        await self._stack.aclose()

    def pause(self) -> None:
        for child in reversed(self._children):
            child.pause()

    def resume(self) -> None:
        for child in self._children:
            child.resume()

    async def measure(self) -> Measured:
        """Resumes, measures, and pauses again."""
        self.resume()
        scale, edges = self._scale, list[tuple[float, float, float]]()

        def note() -> None:
            edges.append((time.monotonic(), _cpu_s(self._server.pid), _cpu_s(self._agent.pid)))

        found = await asyncio.to_thread(
            flood,
            self._endpoint,
            fanout=_FANOUT,
            size_bytes=_SIZE_BYTES,
            warm_up_s=scale.warm_up_s,
            seconds=scale.seconds,
            at_edges=note,
        )
        self.pause()
        took_s, server_s, agent_s = (late - early for early, late in zip(*edges, strict=True))
        return Measured(found, server_s / took_s, agent_s / took_s)

    async def _start_clients(self, config: Path) -> Command:
        scale = self._scale
        clients = tuple(
            ClientSpec(
                f"client{number}",
                (f"topic{number % scale.topics}", f"topic{(number + 1) % scale.topics}"),
                (f"topic{number % scale.topics}",),
                scale.rate_hz,
            )
            for number in range(scale.clients)
        )
        journal = self._state / "clients.journal"
        spec = WorkerSpec(str(config), str(journal), 1, 0, clients)
        file = self._state / "clients.json"
        file.write_bytes(msgspec.json.encode(spec))
        argv = (sys.executable, "-m", "nearcast.lab.live.worker", str(file))
        return await Command.start(CommandSpec("clients", "clients", argv, start_s=120.0), self._state)


def _cpu_s(pid: int) -> float:
    """Of all threads, user and system."""
    facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(facts[11]) + int(facts[12])) / _TICKS_PER_S
