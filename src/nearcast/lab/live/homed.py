"""An area on real servers: a broker at every site, one for the cloud, clients at home, and how late notifications are.

Everything is as far from everything as the area has it, times a factor, through the WAN emulator: a client from its
home, homes from each other, the cloud from all of them, and a client from the cloud as far as over its home. Topics are
processed, with the spools of the area, at the homes that their publishers have, or in the cloud.

Everybody connects and goes home while nothing is far: a link that is scaled to a quarter of a second is too slow to
connect over, within the time that links are given for it.
"""

import asyncio
import struct
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.client import Client, Subscription, open_client
from nearcast.domain.area import Area
from nearcast.domain.errors import FleetError
from nearcast.domain.load import Resources
from nearcast.domain.message import Message
from nearcast.domain.places import Floats, Ints
from nearcast.domain.processor import Language, Processor
from nearcast.domain.route import Delegation, Strategy
from nearcast.fleet.local import WAN_SOCKET, LocalSpec, launch
from nearcast.fleet.shape import Shape
from nearcast.fleet.supervisor import Supervisor
from nearcast.fleet.wan_main import WanControl
from nearcast.lab.experiment import Progress
from nearcast.lab.live.led import operator_of, until_led
from nearcast.predict.delegation import Delegated
from nearcast.predict.homed import Pattern
from nearcast.sim.check import CheckResult, check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from nearcast.transport.directory import Directory

_HEAD = struct.Struct("<IIq")  # which publication, which run, when it was sent
_CODE = "nearcast.processing.samples:passed_on"
_SETTLED_S = 60.0
_LOOK_S = 0.2
_DRAIN_S = 3.0
_PATHS_S = 3.0  # agents beat once a second: then they are connected to all they forward to
_PROBES = 8
_GRACE_S = 10.0
QUIET_S = 0.003  # later than that by itself, per link, and it is the machine that is measured


@dataclass(frozen=True, slots=True)
class Homing:
    """One run: where clients are at home, and what is delegated."""

    name: str
    home: Ints
    delegated: Delegated


@dataclass(frozen=True, slots=True)
class Pace:
    """Each publisher publishes each of its topics so often a second, for so long; all delays are times `factor`. While
    the emulator is late by itself, which says that the machine has other things to do, up to `most` times; what counts
    is the time when it was least so.
    """

    rate_hz: float
    lasting_s: float
    factor: float = 1.0
    most: int = 4


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Of one run: the delay of each publication of the pattern, the mean over messages and over all others who heard
    them, and how many of those there were. `crossing_s`: by how much the emulator delays more than it is told, per
    link, measured meanwhile. `times`: how often it was measured.
    """

    delay_s: Floats
    heard: int
    crossing_s: float
    times: int = 1


def lived(
    area: Area, kind: str, homings: Sequence[Homing], pace: Pace, progress: Progress
) -> tuple[list[Told], CheckResult]:
    """Every homing in turn, with the same clients; and the verdict on all of it."""
    return asyncio.run(_Lived(area, kind, pace).run(homings, progress))


async def quietest(measure: Callable[[], Awaitable[Told]], most: int) -> Told:
    """Once; again, up to `most` times, while the emulator is late by itself. Whatever was measured then: what counts is
    when it was least late.
    """
    told = [await measure()]
    while told[-1].crossing_s > QUIET_S and len(told) < most:
        told.append(await measure())
    return replace(min(told, key=lambda each: each.crossing_s), times=len(told))


class _Lived:
    def __init__(self, area: Area, kind: str, pace: Pace) -> None:
        self._area, self._kind, self._pace, self._factor = area, kind, pace, pace.factor
        self._servers = len(area.servers)
        self._pattern = Pattern.of(area)
        self._publications = list(zip(self._pattern.client.tolist(), self._pattern.topic.tolist(), strict=True))
        self._fleet = self._spec()
        self._brokers, self._cloud = self._fleet.brokers[:-1], self._fleet.brokers[-1]
        self._topics = [f"t{number}" for number in range(len(area.spool))]
        self._clients: list[Client] = []
        self._subscriptions: list[tuple[int, Subscription]] = []  # of which client
        self._history = History()
        self._recorder = Recorder(self._history, time.time)
        self._run = 1  # 0 is what is sent before any
        self._ways: dict[tuple[str, str], float] = {}  # as the emulator was last told
        self._late_s: list[list[float]] = []

    def _spec(self) -> LocalSpec:
        """The last broker is the cloud's. Behind the brokers' sites there is one for each client."""
        brokers = self._servers + 1
        return LocalSpec(
            sites=brokers,
            kind=self._kind,
            coordinators=1,
            delays_s=((0.0,) * brokers,) * (brokers + len(self._area.clients)),
            analyzer=False,
            most=Resources(cores=1.0),
        )

    async def run(self, homings: Sequence[Homing], progress: Progress) -> tuple[list[Told], CheckResult]:
        with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as name:
            async with Supervisor(Path(name)) as supervisor:
                progress(0, len(homings), "starting servers and agents")
                config = load_config(await launch(supervisor, self._fleet))
                await until_led(config, self._fleet.brokers)
                wan = WanControl(str(Path(name) / WAN_SOCKET))
                try:
                    await self._process(config)
                    told = []
                    for done, homing in enumerate(homings):
                        progress(done, len(homings), homing.name)
                        told.append(await self._homed(config, wan, homing))
                    self._history.finished(time.time())
                finally:
                    await asyncio.gather(*(client.close() for client in self._clients))
        return told, check(self._history, grace_s=_GRACE_S)

    async def _process(self, config: Config) -> None:
        """Topics get their processors; then the clients come, at home anywhere."""
        async with operator_of(config) as operator:
            for topic, spool in zip(self._topics, self._area.spool.tolist(), strict=True):
                await operator.process(topic, Processor(Language.PYTHON, _CODE, spool=int(spool), limit_ms=5000.0))
        for number, name in enumerate(self._area.clients):
            self._clients.append(open_client(config, name=name, site=self._fleet.site(self._servers + 1 + number)))

    async def _homed(self, config: Config, wan: WanControl, homing: Homing) -> Told:
        await self._shape(wan, {})
        await self._reroute(config, homing)
        for client, home in zip(self._clients, homing.home.tolist(), strict=True):
            client.set_home(self._brokers[home])
        if not self._subscriptions:
            await self._subscribe()
        async with asyncio.TaskGroup() as group:  # the first one finds its way, and loads the processor
            for at, (client, topic) in enumerate(self._publications):
                group.create_task(self._publish(at, client, topic, run=0))
        await self._settled(homing)
        probes = await self._probes(config, homing)
        await asyncio.sleep(_PATHS_S)
        await self._shape(wan, self._far(homing))
        told = await quietest(partial(self._told, probes, homing), self._pace.most)
        for _, link in probes:
            await link.close()
        return told

    async def _told(self, probes: list[tuple[int, Link]], homing: Homing) -> Told:
        self._late_s = [[] for _ in self._publications]
        self._run += 1
        excess = asyncio.create_task(self._excess_s(probes, homing))
        async with asyncio.TaskGroup() as group:
            for at, (client, topic) in enumerate(self._publications):
                group.create_task(self._keep_publishing(at, client, topic, at / len(self._publications)))
        await asyncio.sleep(_DRAIN_S + 4 * self._factor * self._area.cloud_s)
        delay_s = np.array([np.mean(each) if each else np.nan for each in self._late_s])
        return Told(delay_s, sum(map(len, self._late_s)), await excess)

    def _far(self, homing: Homing) -> dict[tuple[str, str], float]:
        """How far every site is from the brokers that it uses."""
        area, sites = self._area, [self._fleet.site(number) for number in range(self._servers + 1)]
        between = np.full((len(sites), len(sites)), area.cloud_s)
        between[:-1, :-1] = area.between_s()
        np.fill_diagonal(between, 0.0)
        brokers = self._fleet.brokers
        far = {
            (site, to): way
            for site, row in zip(sites, between, strict=True)
            for to, way in zip(brokers, row, strict=True)
        }
        for number, (home, way_s) in enumerate(zip(homing.home, area.home_s(homing.home), strict=True)):
            site = self._fleet.site(self._servers + 1 + number)
            far[site, self._brokers[home]] = way_s
            far[site, self._cloud] = way_s + area.cloud_s
        return {link: self._factor * float(way_s) for link, way_s in far.items()}

    async def _shape(self, wan: WanControl, far: dict[tuple[str, str], float]) -> None:
        """Links that are not named are not far."""
        for link in self._ways.keys() | far.keys():
            if self._ways.get(link, 0.0) != far.get(link, 0.0):
                await wan.shape(*link, Shape(far.get(link, 0.0)))
        self._ways = far

    async def _reroute(self, config: Config, homing: Homing) -> None:
        """Routes have the homes of all their members, and the cloud where somebody delegates to it."""
        area, members = self._area, homing.home[self._area.owner]
        async with operator_of(config) as operator:
            for at, topic in enumerate(self._topics):
                homes = {self._brokers[home] for home in members[area.topic == at].tolist()}
                left = homing.delegated.server[homing.delegated.topic == at].tolist()
                delegation = None
                if left:
                    delegation = Delegation(self._cloud, tuple(sorted(self._brokers[home] for home in left)))
                    homes.add(self._cloud)
                await operator.move(topic, Strategy.HOMED, tuple(sorted(homes)), delegation=delegation)

    async def _subscribe(self) -> None:
        async with asyncio.TaskGroup() as group:
            for owner, topic in zip(self._pattern.hearer.tolist(), self._pattern.heard.tolist(), strict=True):
                group.create_task(self._listen(owner, topic))

    async def _listen(self, owner: int, topic: int) -> None:
        client, heard = self._clients[owner], partial(self._heard, owner)
        made = await self._recorder.subscribe(client, self._topics[topic], also=heard)
        assert made is not None
        self._subscriptions.append((owner, made[1]))

    def _heard(self, who: int, _number: int, message: Message) -> None:
        now_ns = time.monotonic_ns()
        at, run, sent_ns = _HEAD.unpack(message.payload)
        if run == self._run and self._pattern.client[at] != who:
            self._late_s[at].append((now_ns - sent_ns) / 1e9)

    async def _publish(self, at: int, client: int, topic: int, *, run: int) -> None:
        payload = _HEAD.pack(at, run, time.monotonic_ns())
        await self._recorder.publish(self._clients[client], self._topics[topic], payload)

    async def _keep_publishing(self, at: int, client: int, topic: int, phase: float) -> None:
        begun_s, every_s = time.monotonic(), 1.0 / self._pace.rate_hz
        due_s = begun_s + phase * every_s
        while due_s < begun_s + self._pace.lasting_s:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            await self._publish(at, client, topic, run=self._run)
            due_s += every_s

    async def _settled(self, homing: Homing) -> None:
        """Returns when every client publishes and hears where it should."""
        deadline_s = time.monotonic() + _SETTLED_S
        while late := self._unsettled(homing):
            if time.monotonic() > deadline_s:
                raise FleetError(
                    f"{homing.name}: {late[0]} and {len(late) - 1} more are not at home in {_SETTLED_S:g} s"
                )
            await asyncio.sleep(_LOOK_S)

    def _unsettled(self, homing: Homing) -> list[str]:
        homes = [self._brokers[home] for home in homing.home.tolist()]
        late = [
            f"{self._clients[owner].name} on {each.topic}"
            for owner, each in self._subscriptions
            if each.brokers != (homes[owner],)
        ]
        left = homing.delegated.of(homing.home[self._pattern.client], self._pattern.topic, len(self._topics))
        for client, topic, delegated in zip(self._pattern.client, self._pattern.topic, left.tolist(), strict=True):
            targets = self._clients[client].publication(self._topics[topic]).machine.targets
            if targets != (self._cloud if delegated else homes[client],):
                late.append(f"{self._clients[client].name} for {self._topics[topic]}")
        return late

    async def _probes(self, config: Config, homing: Homing) -> list[tuple[int, Link]]:
        """Links of some clients to their homes."""
        found = []
        for number in np.linspace(0, len(self._clients) - 1, _PROBES).astype(int).tolist():
            directory = Directory(config, self._fleet.site(self._servers + 1 + number))
            connect = connector(directory, name=f"probe{number}")
            found.append((number, await connect(self._brokers[homing.home[number]], lambda _up: None)))
        return found

    async def _excess_s(self, probes: list[tuple[int, Link]], homing: Homing) -> float:
        """By round trips while everybody publishes: the mean, per crossing."""
        home_s = self._factor * self._area.home_s(homing.home)
        found: list[float] = []
        until_s = time.monotonic() + self._pace.lasting_s
        while time.monotonic() < until_s:
            for number, link in probes:
                begun_s = time.monotonic()
                await link.flush()
                found.append((time.monotonic() - begun_s) / 2 - float(home_s[number]))
        return float(np.mean(found))
