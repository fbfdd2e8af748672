"""A real broker, its agent and its processors on one core, and publishers and subscribers on another."""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nearcast.coordinator import Operator
from nearcast.domain.errors import ConfigError, FleetError
from nearcast.domain.load import Resources
from nearcast.domain.processor import Language, Processor
from nearcast.domain.route import Strategy
from nearcast.fleet.cpu import stolen_s
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.processed import Heard, Traffic
from nearcast.transport.config import Config, load_config

BROKER = "b1"
LASTING_S, WARM_UP_S = 12.0, 2.0
_LEASE_S = 60.0  # half of it a message may wait: in a run that is too much, some wait for long
_LIMIT_MS = 5_000.0
_QUEUE = 100_000
_DRAIN_S = 30.0
_ANSWER_S = 120.0
_LINE_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class Topic:
    """What a topic asks of its broker."""

    interval_ms: float
    rate_hz: float
    subscribers: int = 1


class PinnedBroker:
    """Measures one set of topics after the other; see `pinned_broker`."""

    def __init__(
        self,
        config: Config,
        generator: asyncio.subprocess.Process,
        cores: tuple[int, int],
        *,
        lasting_s: float,
        warm_up_s: float,
    ) -> None:
        self._config = config
        self._generator = generator
        self._cores = cores
        self._lasting_s, self._warm_up_s = lasting_s, warm_up_s
        self._made: dict[str, None] = {}

    async def undisturbed(self, topics: Sequence[Topic], seed: int, tries: int) -> tuple[Heard, int]:
        """The first of so many tries that tells of the broker, or else the last; and how many were for nothing."""
        number = 0
        while (heard := await self.measure(topics, seed + number)).fault is not None:
            number += 1
            if number == tries:
                break
        return heard, number

    async def measure(self, topics: Sequence[Topic], seed: int) -> Heard:
        """Raises FleetError when the load generator does not answer."""
        names = await self._named([each.interval_ms for each in topics])
        told = tuple((name, each.rate_hz, each.subscribers) for name, each in zip(names, topics, strict=True))
        order = Traffic(told, self._lasting_s, self._warm_up_s, _DRAIN_S, seed)
        stdin, stdout = self._generator.stdin, self._generator.stdout
        assert stdin is not None
        assert stdout is not None
        begun_s, before_s = time.monotonic(), [stolen_s(core) for core in self._cores]
        stdin.write(msgspec.json.encode(order) + b"\n")
        try:
            async with asyncio.timeout(self._lasting_s + _ANSWER_S):
                line = await stdout.readline()
        except TimeoutError:
            line = b""
        if not line:
            raise FleetError("the load generator ended, or does not answer; what it said is above")
        gone_s = max(stolen_s(core) - before for core, before in zip(self._cores, before_s, strict=True))
        heard = msgspec.json.decode(line, type=Heard)
        return msgspec.structs.replace(heard, stolen=gone_s / (time.monotonic() - begun_s))

    async def _named(self, intervals_ms: Iterable[float]) -> list[str]:
        """A topic that takes so long for each; those of earlier runs are used again."""
        names: dict[str, float] = {}
        for interval_ms in intervals_ms:
            number = sum(each.startswith(f"busy-{interval_ms:g}-") for each in names)
            names[f"busy-{interval_ms:g}-{number}"] = interval_ms

        async def make(operator: Operator, name: str, interval_ms: float) -> None:
            code = f"nearcast.testing:busy({interval_ms:g})"
            await operator.move(name, Strategy.SINGLE, (BROKER,))
            await operator.process(name, Processor(Language.PYTHON, code, limit_ms=_LIMIT_MS, queue=_QUEUE))
            self._made[name] = None

        async with operator_of(self._config) as operator, asyncio.TaskGroup() as tasks:
            for name, interval_ms in names.items():
                if name not in self._made:
                    tasks.create_task(make(operator, name, interval_ms))
        return list(names)


@contextlib.asynccontextmanager
async def pinned_broker(
    kind: str = "nats", *, lasting_s: float = LASTING_S, warm_up_s: float = WARM_UP_S
) -> AsyncIterator[PinnedBroker]:
    """Everything that it starts has ended afterwards. Raises ConfigError on a machine with one core."""
    apart, core = _two_cores()
    with tempfile.TemporaryDirectory(prefix="nearcast-model-") as folder:
        async with Supervisor(Path(folder)) as supervisor:
            spec = LocalSpec(
                sites=1, kind=kind, coordinators=1, most=Resources(cores=1.0), timing={"lease_s": _LEASE_S}
            )
            config = load_config(await launch(supervisor, spec))
            for name in (BROKER, f"agent-{BROKER}"):
                pin(supervisor.child(name).pid, core)
            for name in ("control", "coordinator-1"):
                pin(supervisor.child(name).pid, apart)
            await until_led(config, (BROKER,))
            async with _generator(config.path) as generator:
                pin(generator.pid, apart)
                yield PinnedBroker(config, generator, (apart, core), lasting_s=lasting_s, warm_up_s=warm_up_s)


def _two_cores() -> tuple[int, int]:
    found = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(found) < 2:
        raise ConfigError(
            "measuring needs two cores that processes can be bound to (Linux): one for the broker, one for its clients"
        )
    return found[0], found[-1]


def pin(pid: int, core: int) -> None:
    """All of its threads, and those and the processes that they will start."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # ended meanwhile
            os.sched_setaffinity(int(task.name), {core})


@contextlib.asynccontextmanager
async def _generator(config: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """It ends with its input, so with us."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "nearcast.lab.live.processed",
        str(config),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES,
    )
    assert process.stdout is not None
    try:
        if not await process.stdout.readline():
            raise FleetError("the load generator does not start; what it said is above")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
