"""One server of several with more than it can carry, and a coordinator that relieves it: live, with a history.

All topics begin at the first server. How much processor they take there is measured in a fleet of its own first; then
every server gets a share of a processor, or a watermark of messages, that is a little too small for all of them.
"""

import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec

from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkDown
from nearcast.domain.load import Resources
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot_json import read_snapshot
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.cpu import CpuShare, used_s
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.journal import merge
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.worker import ClientSpec, WorkerSpec
from nearcast.sim.check import CheckResult, check
from nearcast.transport.config import Config, load_config

Trigger = Literal["processors", "messages"]

SERVERS = 3
EVERY_S = 5.0
RATES_HZ = (40.0, 30.0, 30.0, 20.0, 20.0, 20.0, 20.0, 20.0)  # of the topics
LISTENERS = 24
WATERMARK = 0.85
_OVER = 0.95  # of its share, what a server would use with everything on it
_MESSAGES_OVER = 1.15
_LEASE_S = 4.0
_SETTLE_S = 4.0
_LOOK_S = 0.5
_GRACE_S = 5.0
_END_S = 17.0


@dataclass(frozen=True, slots=True)
class Look:
    """`used`: of the limit that was set, at the first server. `moved`: topics that are no longer there."""

    at_s: float
    used: float
    moved: int


@dataclass(frozen=True, slots=True)
class Relief:
    """`rounds`: plans that moved topics away until it was below its limit. `after`: what was used of the limit then,
    the median of the last seconds."""

    looks: tuple[Look, ...]
    limit: float
    before: float
    after: float
    rounds: int
    moves: int
    checked: CheckResult


async def relieve(kind: str, trigger: Trigger, *, seconds: float, seed: int) -> Relief:
    if trigger == "processors":
        share = max(0.02, await _needed(kind, seconds / 3, seed) / _OVER)
        most = Resources(cores=share)
    else:
        share, most = 1.0, Resources(out_messages_per_s=sum(RATES_HZ) * LISTENERS / _MESSAGES_OVER)
    rebalance: dict[str, str | float] = {"policy": "epulsar", "every_s": EVERY_S}
    async with _fleet(kind, seed, most, rebalance) as fleet:
        with ExitStack() as shares:
            if share < 1:
                for broker in fleet.config.brokers:
                    shares.enter_context(CpuShare(fleet.supervisor.child(broker).pid, share))
            return await fleet.watch(trigger, most, seconds)


async def _needed(kind: str, seconds: float, seed: int) -> float:
    """Processors that the first server uses with all the topics."""
    async with _fleet(kind, seed, Resources(), {}) as fleet:
        pid = fleet.supervisor.child("b1").pid
        await asyncio.sleep(_SETTLE_S / 2)
        began_s, before_s = time.monotonic(), used_s(pid)
        await asyncio.sleep(seconds)
        return (used_s(pid) - before_s) / (time.monotonic() - began_s)


class _Fleet:
    def __init__(self, supervisor: Supervisor, state: Path, config: Config, seed: int) -> None:
        self.supervisor = supervisor
        self.config = config
        self.topics = [f"topic{number}" for number in range(len(RATES_HZ))]
        self._state = state
        self._seed = seed
        self._workers: list[Command] = []
        self._journals: list[Path] = []

    async def begin(self) -> None:
        await until_led(self.config, self.config.brokers)
        async with operator_of(self.config) as operator:
            for topic in self.topics:
                await operator.move(topic, Strategy.SINGLE, ("b1",))
        await self._start("listeners", [ClientSpec(f"listener{n}", tuple(self.topics)) for n in range(LISTENERS)], 1)
        senders = [
            ClientSpec(f"sender{n}", (), (topic,), rate)
            for n, (topic, rate) in enumerate(zip(self.topics, RATES_HZ, strict=True))
        ]
        await self._start("senders", senders, 1 + LISTENERS * len(self.topics))

    async def watch(self, trigger: Trigger, most: Resources, seconds: float) -> Relief:
        """Until it was below its limit for a while, or the time is over."""
        limit = WATERMARK * most.cores if most.cores is not None else most.out_messages_per_s
        assert limit is not None
        began_s = time.monotonic()
        looks: list[Look] = []
        plans: dict[int, int] = {}
        while time.monotonic() < began_s + seconds and not _relieved(looks):
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(LinkDown, LeaseLost):
                async with operator_of(self.config) as operator:
                    looks += await self._look(operator, trigger, limit, time.monotonic() - began_s)
                    told = await operator.rebalance("status")
                    gone = [each for each in told.steps if each.was_brokers == ("b1",)]
                    if told.plan and gone:
                        plans[told.plan] = len(gone)
        checked = await self._end()
        still = [each.used for each in looks if not each.moved]
        last = [each.used for each in looks[-8:]]
        return Relief(
            tuple(looks),
            limit,
            max(still, default=0.0),
            median(last) if last else 0.0,
            len(plans),
            sum(plans.values()),
            checked,
        )

    async def _look(self, operator: Operator, trigger: Trigger, limit: float, at_s: float) -> list[Look]:
        seen = read_snapshot(await operator.snapshot())
        (used,) = [report.used for report in seen.reports() if report.broker == "b1"] or [Resources()]
        found = used.cores if trigger == "processors" else used.out_messages_per_s
        if found is None:
            return []
        moved = sum(each.brokers != ("b1",) for topic, each in seen.routes().items() if topic in self.topics)
        return [Look(round(at_s, 2), round(found / limit, 4), moved)]

    async def _start(self, name: str, clients: list[ClientSpec], first: int) -> None:
        file, journal = self._state / f"{name}.json", self._state / f"{name}.journal"
        spec = WorkerSpec(str(self.config.path), str(journal), first, self._seed + first, tuple(clients))
        file.write_bytes(msgspec.json.encode(spec))
        journal.touch()
        self._journals.append(journal)
        argv = (sys.executable, "-m", "nearcast.lab.live.worker", str(file))
        self._workers.append(await Command.start(CommandSpec(name, "clients", argv, start_s=120.0), self._state))

    async def _end(self) -> CheckResult:
        for worker in self._workers:
            worker.send(signal.SIGUSR1)
        await asyncio.sleep(_END_S)
        finished = ("finished", time.time())
        await self.stop()
        return check(merge(self._journals, finished), grace_s=_GRACE_S)

    async def stop(self) -> None:
        workers, self._workers = self._workers, []
        await asyncio.gather(*(worker.stop() for worker in workers))


def _relieved(looks: list[Look]) -> bool:
    """Topics have gone, and it was below its limit for as long as a round takes."""
    last = [each for each in looks if each.at_s > (looks[-1].at_s if looks else 0.0) - EVERY_S - _SETTLE_S]
    return bool(last) and last[0].moved > 0 and all(each.used <= 1.0 for each in last) and len(last) > EVERY_S


@asynccontextmanager
async def _fleet(kind: str, seed: int, most: Resources, rebalance: dict[str, str | float]) -> AsyncIterator[_Fleet]:
    """Everything that it started has ended afterwards."""
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        async with Supervisor(Path(folder)) as supervisor:
            spec = LocalSpec(
                SERVERS, kind, coordinators=1, timing={"lease_s": _LEASE_S}, most=most, rebalance=rebalance
            )
            fleet = _Fleet(supervisor, Path(folder), load_config(await launch(supervisor, spec)), seed)
            try:
                await fleet.begin()
                yield fleet
            finally:
                await fleet.stop()
