"""One topic on one or several real servers, and how many publishers or subscribers they carry."""

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from nearcast.domain.route import Strategy
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.cpu import CpuShare, used_s
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.meter import MeterSpec, Seen
from nearcast.transport.config import Config, load_config

TOPIC = "crowd"
_WARM_UP_S = 1.5
_END_S = 20.0
_MOST_LATE_S = 0.15  # the paper's bound
_MOST_MISSING = 0.05


@dataclass(frozen=True, slots=True)
class Probe:
    """What so many publishers and subscribers saw for some seconds. `cpu_s`: used by all servers together.

    `asked`: messages that there should have been, by the publishers' rate; `expected`: of those that were published.
    """

    publishers: int
    subscribers: int
    asked: int
    expected: int
    delivered: int
    mean_s: float
    p99_s: float
    reports: int
    cpu_s: float

    @property
    def carried(self) -> bool:
        """Nearly all came, in time on average, and nobody was cut off."""
        enough = self.delivered >= (1 - _MOST_MISSING) * self.expected
        return enough and self.mean_s <= _MOST_LATE_S and not self.reports

    @property
    def behind(self) -> bool:
        """The publishers did not get round to it: it is this machine that was measured, and not the servers."""
        return self.expected < (1 - _MOST_MISSING) * self.asked


class Crowd:
    """Use with `crowd_on`."""

    def __init__(self, supervisor: Supervisor, state: Path, config: Config, seed: int) -> None:
        self._supervisor = supervisor
        self._state = state
        self._config = config
        self._seed = seed
        self._probes = 0

    async def route(self, strategy: Strategy, brokers: Sequence[str]) -> None:
        await until_led(self._config, brokers)
        async with operator_of(self._config) as operator:
            await operator.move(TOPIC, strategy, tuple(brokers))

    async def probe(
        self,
        publishers: int,
        subscribers: int,
        *,
        rate: float,
        seconds: float,
        size: int = 100,
        settle_s: float = 0.0,
        share: float = 1.0,
        site: str = "",
    ) -> Probe:
        """`settle_s`: how long before it is measured; clients that have just come probe brokers many times a second.

        `share`: of a processor, for each server, while it is measured. `site`: where subscribers are.
        """
        self._probes += 1
        pids = [self._supervisor.child(broker).pid for broker in self._config.brokers]
        listeners = await self._start("listeners", subscribers, site=site)
        senders = await self._start("senders", publishers, rate=rate, size=size)
        try:
            await asyncio.sleep(settle_s)
            with ExitStack() as shares:
                if share < 1:
                    for pid in pids:
                        shares.enter_context(CpuShare(pid, share))
                await asyncio.sleep(_WARM_UP_S)
                before_s = sum(map(used_s, pids))
                for each in (listeners, senders):
                    each.send(signal.SIGUSR1)
                await asyncio.sleep(seconds)
                cpu_s = sum(map(used_s, pids)) - before_s
                sent, got = await self._seen(senders), await self._seen(listeners)
        finally:  # in order: who just vanishes is missed by the next listeners
            await asyncio.gather(senders.stop(_END_S), listeners.stop(_END_S))
        asked, expected = (round(each * subscribers) for each in (rate * seconds * publishers, sent.published))
        seen = got.delivered, got.mean_s, got.p99_s, got.reports
        return Probe(publishers, subscribers, asked, expected, *seen, round(cpu_s, 3))

    async def _start(self, name: str, count: int, *, rate: float = 0.0, size: int = 0, site: str = "") -> Command:
        name = f"{name}-{self._probes}"
        file = self._state / f"{name}.json"
        seen = self._state / f"{name}.seen"
        spec = MeterSpec(str(self._config.path), str(seen), name, site, TOPIC, count, rate, size, self._seed)
        file.write_bytes(msgspec.json.encode(spec))
        argv = (sys.executable, "-m", "nearcast.lab.live.meter", str(file))
        return await Command.start(CommandSpec(name, "clients", argv, start_s=120.0), self._state)

    async def _seen(self, command: Command) -> Seen:
        command.send(signal.SIGTERM)
        file = self._state / f"{command.name}.seen"
        deadline_s = time.monotonic() + 10.0
        while not file.exists():
            if time.monotonic() > deadline_s:
                raise command.failure("does not say what it saw")
            await asyncio.sleep(0.02)
        return msgspec.json.decode(file.read_bytes(), type=Seen)


@asynccontextmanager
async def crowd_on(spec: LocalSpec, seed: int) -> AsyncIterator[Crowd]:
    """Everything that it started has ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        async with Supervisor(Path(folder)) as supervisor:
            config = load_config(await launch(supervisor, spec))
            yield Crowd(supervisor, Path(folder), config, seed)
