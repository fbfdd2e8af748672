"""Every topic moved from one real broker to the other and back, the control plane far away: by us, and by lookup.

The control bus, the store and whoever moves topics are in a cloud; brokers, agents and clients are at the edge, and
reach the cloud through the WAN emulator. Both workflows run on the same servers, over the same WAN.
"""

import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import msgspec

from nearcast.brokers.connect import connector
from nearcast.control.execution import StepState
from nearcast.coordinator import Coordinator
from nearcast.domain.errors import FleetError
from nearcast.domain.plan import Plan, Step
from nearcast.domain.route import Strategy
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import WAN_SOCKET, LocalSpec, launch
from nearcast.fleet.shape import Shape
from nearcast.fleet.supervisor import Supervisor
from nearcast.fleet.wan_main import WanControl
from nearcast.lab.live.led import until_led
from nearcast.lab.live.lookup import BrokerSpec, LoadManager
from nearcast.lab.live.steady import Account, Seen, SteadySpec, Workflow
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import BUS, Config, load_config

_log = logging.getLogger(__name__)
_ANSWER_S = 60.0
_LOOK_S = 0.05
_STEADY_S = 0.02  # from one message of a steady stream to the next
_SELDOM_S = 0.5
_FOLLOW_S = 1.0
_DRAIN_S = 2.0
_LINE_BYTES_PER_S = 1e9  # no broker is ever full


@dataclass(frozen=True, slots=True)
class Batch:
    """Topics that were moved together, one way. `times_s`: of each, (waited for its turn, took until it was released).

    `pauses_s` are of every listener, `silences_s` of those whose stream is steady.
    """

    workflow: Workflow
    delay_s: float
    executors: int
    times_s: tuple[tuple[float, float], ...]
    pauses_s: tuple[float, ...]
    silences_s: tuple[float, ...]
    refused: int = 0


class Mover(Protocol):
    """Moves topics from the broker where they are to the other one."""

    async def move_all(
        self, topics: Sequence[str], source: str, target: str, executors: int
    ) -> tuple[list[tuple[float, float]], int]:
        """(waited, took) of each that was moved, and how many were refused."""
        ...


class Edge:
    """Two brokers at the edge and a control plane in the cloud. Use with `edge_on`."""

    def __init__(self, supervisor: Supervisor, state: Path, config: Config, spec: LocalSpec) -> None:
        self.config = config
        self.state = state
        self.spec = spec
        self._supervisor = supervisor
        self._wan = WanControl(str(state / WAN_SOCKET))

    async def far(self, delay_s: float) -> None:
        """From now on the cloud is so far from every site, one way."""
        for number in range(self.spec.sites):
            await self._wan.shape(self.spec.site(number), BUS, Shape(delay_s))

    async def start(self, name: str, module: str, spec: msgspec.Struct) -> Command:
        file = self.state / f"{name}.json"
        file.write_bytes(msgspec.json.encode(spec))
        argv = (sys.executable, "-m", f"nearcast.lab.live.{module}", str(file))
        return await Command.start(CommandSpec(name, "clients", argv, start_s=120.0), self.state)


@asynccontextmanager
async def edge_on(kind: str) -> AsyncIterator[Edge]:
    """Everything that it started has ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        state = Path(folder)
        async with Supervisor(state) as supervisor:
            spec = LocalSpec(
                sites=2,
                kind=kind,
                coordinators=0,
                bus_s=0.0,
                out_bytes_per_s=_LINE_BYTES_PER_S,
                secure=False,  # the other mover has subjects of its own, which a guarded server refuses its clients
            )
            config = load_config(await launch(supervisor, spec))
            yield Edge(supervisor, state, config, spec)


class OurMover:
    """The product's coordinator, which carries out a plan of ours: ePulsar's custom load manager (section 5.7)."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        config = edge.config
        self._store = NatsKvStore(config.control, name="coordinator")
        self._coordinator = Coordinator(
            "coordinator",
            connector(config.endpoints(), name="coordinator"),
            self._store,
            config.ring,
            bus=BUS,
            dialect=config.dialect,
            clock=SystemClock(),
            timing=config.timing,
        )

    async def __aenter__(self) -> Self:
        await self._store.open()
        self._coordinator.start()
        await until_led(self._edge.config, self._edge.spec.brokers)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._coordinator.close()
        await self._store.close()

    async def gather(self, topics: Sequence[str], broker: str) -> None:
        """All to one broker, wherever they are, one after the other. Raises MoveRefused."""
        for topic in topics:
            await self._coordinator.move(topic, Strategy.SINGLE, (broker,))
        if topics:
            await asyncio.sleep(_FOLLOW_S)

    async def move_all(
        self, topics: Sequence[str], source: str, target: str, executors: int
    ) -> tuple[list[tuple[float, float]], int]:
        single = Strategy.SINGLE
        steps = tuple(Step(topic, single, (target,), single, (source,), "all go there") for topic in topics)
        execution = self._coordinator.rebalancer.carry_out(Plan("lab", time.time(), steps), at_once=executors)
        while not execution.over:  # noqa: ASYNC110  # As every other user of it, it can only look.
            await asyncio.sleep(_LOOK_S)
        found = list(execution.progress())
        times_s = [(each.waited_s or 0.0, each.took_s) for each in found if each.took_s is not None]
        refused = [each for each in found if each.state is StepState.REFUSED]
        for each in refused:
            _log.warning("refused: %s", each.why)
        await self.gather([each.step.topic for each in refused], target)
        return times_s, len(refused)


class LookupMover:
    """Stock Pulsar's load manager, and what it needs beside the brokers. It has one executor."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._manager = LoadManager(edge.config, edge.spec.brokers[0])
        self._brokers: list[Command] = []

    async def __aenter__(self) -> Self:
        await self._manager.start()
        config = str(self._edge.config.path)
        specs = [BrokerSpec(config, broker) for broker in self._edge.spec.brokers]
        self._brokers = [await self._edge.start(f"lookup-{spec.broker}", "lookup", spec) for spec in specs]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(each.stop() for each in self._brokers))
        await self._manager.close()

    async def move_all(
        self, topics: Sequence[str], source: str, target: str, executors: int
    ) -> tuple[list[tuple[float, float]], int]:
        assert executors == 1
        times_s = await self._manager.move_all(topics, source, target)
        await asyncio.sleep(_FOLLOW_S)  # the last client looks up, which takes four crossings of the WAN
        return times_s, 0


class Streams:
    """Streams on topics of an edge: so many of them steady, the others of few messages, in a process of their own."""

    def __init__(self, edge: Edge, workflow: Workflow, topics: Sequence[str], steady: int, seed: int) -> None:
        self.workflow = workflow
        self.topics = tuple(topics)
        some = self.topics[:: max(1, len(topics) // steady)][:steady] if steady else ()
        others = tuple(topic for topic in self.topics if topic not in some)
        self._parts = [
            _Part(
                edge, SteadySpec(str(edge.config.path), "", workflow, name, edge.spec.site(0), mine, every_s, seed=seed)
            )
            for name, mine, every_s in (("steady", some, _STEADY_S), ("seldom", others, _SELDOM_S))
            if mine
        ]

    async def __aenter__(self) -> Self:
        for part in self._parts:
            await part.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in self._parts:
            await part.stop()

    async def batch(
        self, mover: Mover, count: int, way: tuple[str, str], *, executors: int = 1, delay_s: float
    ) -> Batch:
        """Moves the first so many topics from one broker to the other; `delay_s` is only noted."""
        await self._seen()
        source, target = way
        times_s, refused = await mover.move_all(self.topics[:count], source, target, executors)
        pauses, silences_s = await self._seen()
        pauses_s = tuple(pauses[topic] for topic in self.topics[:count])
        return Batch(self.workflow, delay_s, executors, tuple(times_s), pauses_s, silences_s, refused)

    async def end(self) -> Account:
        """Nothing more is published; what is on its way arrives; then it is counted."""
        for part in self._parts:
            part.send(signal.SIGUSR2)
        await asyncio.sleep(_DRAIN_S)
        return sum([await part.account() for part in self._parts], Account())

    async def _seen(self) -> tuple[dict[str, float], tuple[float, ...]]:
        """Since this was last asked: every listener's pause, and the silences of steady streams."""
        pauses: dict[str, float] = {}
        silences_s: tuple[float, ...] = ()
        for part in self._parts:
            seen = await part.seen()
            pauses.update(zip(part.spec.topics, seen.pauses_s, strict=True))
            silences_s += seen.silences_s if part.spec.every_s == _STEADY_S else ()
        return pauses, silences_s


class _Part:
    """One process of streams."""

    def __init__(self, edge: Edge, spec: SteadySpec) -> None:
        self._edge = edge
        self._file = edge.state / f"{spec.workflow}-{spec.name}.seen"
        self.spec = msgspec.structs.replace(spec, seen=str(self._file))
        self._process: Command | None = None
        self._lines = 0

    async def start(self) -> None:
        self._file.unlink(missing_ok=True)
        self._process = await self._edge.start(f"{self.spec.workflow}-{self.spec.name}", "steady", self.spec)

    async def stop(self) -> None:
        if self._process is not None:
            await self._process.stop(_ANSWER_S)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send(number)

    async def seen(self) -> Seen:
        """Since this was last asked."""
        self.send(signal.SIGUSR1)
        return msgspec.json.decode(await self._line(), type=Seen)

    async def account(self) -> Account:
        self.send(signal.SIGTERM)
        return msgspec.json.decode(await self._line(), type=Account)

    async def _line(self) -> bytes:
        deadline_s = time.monotonic() + _ANSWER_S
        while time.monotonic() < deadline_s:
            lines = self._file.read_bytes().split(b"\n")[:-1] if self._file.exists() else []
            if len(lines) > self._lines:
                self._lines += 1
                return lines[self._lines - 1]
            await asyncio.sleep(_LOOK_S)
        raise FleetError(f"{self.spec.name} streams did not say within {_ANSWER_S:g} s what they saw")
