"""The emergency application on real servers: five brokers, one pipeline on Spark, and hundreds of real subscribers.

Reports and places of users go to the pipeline over HTTP, as the city's time goes by. What subscribers were told is in
their journals; what the pipeline committed is read from its files, while it runs, and from its progress in the end.
"""

import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nearcast.agent.counters import counters_of
from nearcast.domain.channel import Channel
from nearcast.domain.dataset import Feed
from nearcast.domain.errors import LeaseLost, LinkDown, NearcastError
from nearcast.domain.execution import Execution
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.ports import HOST, free_port
from nearcast.fleet.supervisor import Patience, Supervisor
from nearcast.lab.emergency import DATASETS, REPORTS, SHELTERS, USERS, City, channel_specs
from nearcast.lab.experiment import Kind, Progress
from nearcast.lab.live.application import create_channels, create_datasets, pipeline_command
from nearcast.lab.live.committed import Archive
from nearcast.lab.live.feeder import Feeder
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.residents import Event, ResidentsSpec, Stay, read_journal
from nearcast.lab.workloads.emergencies import BROKERS, Emergencies
from nearcast.pipeline.progress import folder_of, kept_of, progress_of
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.store.store import Store
from nearcast.transport.access import Role
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import Config, load_config

_MASTER = "local[2]"
_PARTS = 2  # processes with residents
_TICK_S = 1.0  # of the city: how often everybody says where they are
_LOOK_S = 5.0
_BALANCE_S = 5.0
_LEAD_IN_S = 5.0
_CAUGHT_UP_S = 300.0
_DELIVERED_S = 20.0
_END_S = 30.0
_SETTLED_S = 60.0  # of the city, after the last subscription

Counts = dict[str, int]
"""Of each broker: bytes in and out by its own counters, or subscribers."""


@dataclass(frozen=True, slots=True)
class EmergencySpec:
    """`faults`: processes are killed meanwhile. `idle_s`: how long brokers are watched without results, in the end.

    Everybody comes to the broker that is nearest in the city, and `policy` evens out what follows.
    """

    stay: Stay
    kind: Kind = "nats"
    faults: bool = False
    policy: str = "bad-ldm"
    idle_s: float = 30.0


class Carried(NamedTuple):
    """What brokers carried from one time to another."""

    begin_s: float
    end_s: float
    size_bytes: Counts


@dataclass
class Lived:
    """What was seen. `carried` is with results, `idle` without. `reports` and `users` are the committed records.

    `balance`: (seconds since the city's time began, cov, load of each broker) as the leader told them;
    `present`: (when, subscribers at each broker) likewise.
    """

    city: City
    begin_s: float
    events: list[Event]
    executions: Mapping[int, Sequence[Execution]]
    reports: list[dict[str, Any]]
    users: list[dict[str, Any]]
    carried: Carried
    idle: Carried
    balance: list[tuple[float, float, dict[str, float]]]
    present: list[tuple[float, Counts]]
    killed: list[str]
    repeated_requests: int


def live_through(spec: EmergencySpec, progress: Progress) -> Lived:
    """Everything it starts has ended when it returns."""
    return asyncio.run(_live_through(spec, progress))


async def _live_through(spec: EmergencySpec, progress: Progress) -> Lived:
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as name:
        async with (
            Supervisor(Path(name), patience=Patience(attempts=1000)) as supervisor,
            emergency_fleet(supervisor, spec) as fleet,
        ):
            return await _Run(spec, fleet, progress).live()


@dataclass(frozen=True, slots=True)
class EmergencyFleet:
    """Brokers, the pipeline with all feeds and channels, and a city whose time is to begin at some `begin_s`."""

    supervisor: Supervisor
    config: Config
    store: Store
    city: City
    compress: float
    tables: Mapping[str, Table]
    channels: Sequence[Channel]
    feeders: Mapping[str, Feeder]

    @property
    def folder(self) -> Path:
        return self.supervisor.state

    async def report(self, begin_s: float, progress: Progress) -> None:
        """Every tick what has happened since the last; returns when all of it was handed over."""
        sent_s = self.city.emergencies.sent_s
        done, whole = 0, len(sent_s)
        while done < whole:
            due = int((sent_s <= self.city_s(begin_s)).sum())
            await self.feeders[REPORTS].send(map(self.city.report, range(done, due)))
            done = due
            progress(done, whole, "reports")
            await asyncio.sleep(_TICK_S / self.compress)

    async def walk(self, begin_s: float) -> None:
        """Everybody says where they are, again and again."""
        while True:
            await self.feeders[USERS].send(self.city.users(max(0.0, self.city_s(begin_s))))
            await asyncio.sleep(_TICK_S / self.compress)

    def city_s(self, begin_s: float) -> float:
        return (time.time() - begin_s) * self.compress

    async def until(self, begin_s: float, city_s: float) -> None:
        await asyncio.sleep(max(0.0, (city_s - self.city_s(begin_s)) / self.compress))


@asynccontextmanager
async def emergency_fleet(supervisor: Supervisor, spec: EmergencySpec) -> AsyncIterator[EmergencyFleet]:
    """Everything is up, and shelters and users are known."""
    state = supervisor.state.resolve()
    local = LocalSpec(sites=BROKERS, kind=spec.kind, homes={"policy": spec.policy, "every_s": _BALANCE_S})
    config = load_config(await launch(supervisor, local))
    await until_led(config, local.brokers)
    city = City(Emergencies(spec.stay.seed, spec.stay.size))
    (state / SHELTERS).mkdir()
    (state / SHELTERS / "all.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, city.shelters())))
    feeds = [Feed(each, each, "http", each) for each in (REPORTS, USERS)]
    feeds.append(Feed(SHELTERS, SHELTERS, f"file:{state / SHELTERS}", SHELTERS, "json"))
    http = f"{HOST}:{free_port()}"
    feeders = {each: Feeder(f"http://{http}", each) for each in (REPORTS, USERS)}
    async with pipeline_store_of(config) as store:
        tables = await create_datasets(store, config, DATASETS, feeds)
        channels = await create_channels(store, channel_specs(spec.stay.compress), tables, _MASTER)
        await supervisor.start(pipeline_command(config, _MASTER, "--http", http))
        await feeders[USERS].send(city.users(0.0))
        await _until(lambda: _filled(tables[SHELTERS], tables[USERS]), "shelters and users are known")
        yield EmergencyFleet(supervisor, config, store, city, spec.stay.compress, tables, channels, feeders)


class _Run:
    def __init__(self, spec: EmergencySpec, fleet: EmergencyFleet, progress: Progress) -> None:
        self.spec = spec
        self.fleet = fleet
        self.progress = progress
        self.killed: list[str] = []
        self.balance: list[tuple[float, float, dict[str, float]]] = []
        self.present: list[tuple[float, Counts]] = []
        self.archives = {each: Archive(fleet.tables[each]) for each in (REPORTS, USERS)}

    async def live(self) -> Lived:
        residents = [await self._residents(part) for part in range(_PARTS)]
        try:
            return await self._play(residents)
        finally:
            await asyncio.gather(*(each.stop(_END_S) for each in residents))

    async def _residents(self, part: int) -> Command:
        spec, folder, name = self.spec, self.fleet.folder, f"residents-{part}"
        wanted = ResidentsSpec(
            str(self.fleet.config.path),
            str(folder / f"{name}.journal"),
            str(folder / "begin"),
            spec.stay,
            part,
            _PARTS,
        )
        file = folder / f"{name}.json"
        file.write_bytes(msgspec.json.encode(wanted))
        argv = (sys.executable, "-m", "nearcast.lab.live.residents", str(file))
        return await Command.start(CommandSpec(name, "clients", argv, start_s=120.0), folder)

    async def _play(self, residents: list[Command]) -> Lived:
        fleet, size = self.fleet, self.spec.stay.size
        begin_s = time.time() + _LEAD_IN_S
        (fleet.folder / "begin").write_text(repr(begin_s))
        for each in residents:
            each.send(signal.SIGUSR1)
        async with asyncio.TaskGroup() as tasks:
            looking = tasks.create_task(self._look(begin_s))
            walking = tasks.create_task(fleet.walk(begin_s))
            killing = tasks.create_task(self._kill(begin_s)) if self.spec.faults else None
            reporting = tasks.create_task(fleet.report(begin_s, self.progress))
            await fleet.until(begin_s, size.last_subscription_s + _SETTLED_S)
            carrying = await self._carried_so_far()
            await reporting
            if killing is not None:
                await killing
            await self._caught_up()
            await asyncio.sleep(_DELIVERED_S)
            carried = await self._carried_so_far()
            await asyncio.sleep(self.spec.idle_s)
            idle = await self._carried_so_far()
            looking.cancel()
            walking.cancel()
        for archive in self.archives.values():
            await archive.look()
        executions = {
            number: (await kept_of(fleet.store, fleet.config.tables, channel, 0)).executions
            for number, channel in enumerate(fleet.channels)
        }
        await asyncio.gather(*(each.stop(_END_S) for each in residents))
        journals = [fleet.folder / f"residents-{part}.journal" for part in range(_PARTS)]
        return Lived(
            fleet.city,
            begin_s,
            [event for journal in journals for event in read_journal(journal)],
            executions,
            list(self.archives[REPORTS].rows()),
            list(self.archives[USERS].rows()),
            _between(carrying, carried),
            _between(carried, idle),
            self.balance,
            self.present,
            self.killed,
            sum(each.repeated for each in fleet.feeders.values()),
        )

    # What happens meanwhile

    async def _look(self, begin_s: float) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for archive in self.archives.values():
                await archive.look()
            with suppress(LinkDown, LeaseLost, TimeoutError):  # nobody leads just now
                async with asyncio.timeout(_LOOK_S), operator_of(self.fleet.config) as operator:
                    told = await operator.homes()
                loads = {each.broker: each.load_bytes_per_s for each in told.brokers}
                self.balance.append((time.time() - begin_s, told.cov, loads))
                self.present.append((time.time(), {each.broker: each.subscribers for each in told.brokers}))

    async def _kill(self, begin_s: float) -> None:
        """-9: the pipeline in the middle of executions, a broker, both coordinators in turn, an agent."""
        size, fleet, chance = self.spec.stay.size, self.fleet, random.Random(self.spec.stay.seed)
        broker = chance.choice(sorted(fleet.config.brokers))
        victims = ("pipeline", broker, "coordinator-1", "coordinator-2", "pipeline", f"agent-{broker}", "pipeline")
        between_s = (0.9 * size.end_s - size.last_subscription_s) / len(victims)
        for number, victim in enumerate(victims):
            await fleet.until(begin_s, size.last_subscription_s + number * between_s)
            if victim == "pipeline":
                await self._until_executing(chance.choice(fleet.channels))
            await fleet.supervisor.child(victim).kill()
            self.killed.append(victim)

    async def _until_executing(self, channel: Channel) -> None:
        """Returns when results are being written that nothing names yet."""
        place = folder_of(self.fleet.config.tables, channel)

        async def begun() -> bool:
            last = (await progress_of(self.fleet.store, channel)).last.number
            return any(place.glob(f"{last + 1:010d}-*"))

        await _until(begun, f"channel {channel.name} executes", every_s=0.01)

    # How far it is

    async def _caught_up(self) -> None:
        """Every report is committed, and every channel has read it."""
        table = self.fleet.tables[REPORTS]

        async def committed() -> bool:
            return (await table.head()).rows() >= self.spec.stay.size.reports

        await _until(committed, "every report is committed")
        version = (await table.head()).version
        for channel in self.fleet.channels:

            async def read(channel: Channel = channel) -> bool:
                return (await progress_of(self.fleet.store, channel)).last.windows[REPORTS].until >= version

            await _until(read, f"channel {channel.name} has read every report")

    async def _carried_so_far(self) -> tuple[float, Counts]:
        found: Counts = {}
        for broker, at in self.fleet.config.acting(Role.AGENT).brokers.items():
            counters = counters_of(at, agent="lab", clock=SystemClock())
            assert counters is not None
            totals = await counters.totals()
            await counters.close()
            found[broker] = totals.out_bytes + (totals.in_bytes or 0)
        return time.time(), found


async def _filled(*tables: Table) -> bool:
    return all([(await table.head()).version for table in tables])


async def _until(reached: Callable[[], Awaitable[bool]], what: str, every_s: float = 0.2) -> None:
    """Raises NearcastError when it is not so in time."""
    deadline_s = time.monotonic() + _CAUGHT_UP_S
    while not await reached():
        if time.monotonic() > deadline_s:
            raise NearcastError(f"after {_CAUGHT_UP_S:.0f} s it is still not so that {what}")
        await asyncio.sleep(every_s)


def _between(sooner: tuple[float, Counts], later: tuple[float, Counts]) -> Carried:
    begin_s, before = sooner
    end_s, after = later
    return Carried(begin_s, end_s, {broker: after[broker] - before[broker] for broker in after})
