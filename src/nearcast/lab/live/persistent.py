"""A persistent topic on two sites of three real servers each: servers killed under traffic, with and without a move.

Publishers and a reader live through all kills. After each of them, what was acknowledged is compared with what the
reader was given, and with what another reader is given that begins at the first message.
"""

import asyncio
import contextlib
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, Self

from nearcast.brokers.log import LogSites, Replica
from nearcast.client import Client, open_client
from nearcast.coordinator.records import Records
from nearcast.domain.errors import LeaseLost, LinkDown, LogDown, LogRefused, MoveRefused, NearcastError, StoreDown
from nearcast.domain.log import LogSpec, TopicLog
from nearcast.domain.message import Message
from nearcast.domain.route import Strategy
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Patience, Supervisor
from nearcast.lab.live.led import operator_of, until_led
from nearcast.sim.check import CheckResult, check
from nearcast.sim.history import Event, History
from nearcast.store.nats_kv import NatsKvStore
from nearcast.transport.access import Role
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import Config, load_config

Kind = Literal["broker", "replica", "move"]
TIMING = {"lease_s": 3.0}
SPEC = LogSpec(3)
_PUBLISHERS = 3
_BURST = 5
_EVERY_S = 0.05
_AFTER = 20  # messages of each publisher that must be acknowledged after a kill
_DEADLINE_S = 90.0
_LOOK_S = 0.05
_LATEST_KILL_S = 0.3  # after a move was asked for
_LIVE, _REPLAY = 1, 2


class Round(NamedTuple):
    """One kill. `pause_s`: the longest time in which no message was acknowledged."""

    kind: Kind
    number: int
    killed: str
    acknowledged: int
    unconfirmed: int
    pause_s: float
    live: CheckResult
    replay: CheckResult


@dataclass(slots=True)
class Sites:
    """The fleet. Everything it started has ended when `running` is left."""

    supervisor: Supervisor
    config: Config
    logs: LogSites

    @classmethod
    @asynccontextmanager
    async def running(cls) -> AsyncIterator[Self]:
        with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
            async with Supervisor(Path(folder), patience=Patience(attempts=1000)) as supervisor:
                config = load_config(await launch(supervisor, LocalSpec(sites=2, cluster=3, timing=TIMING)))
                await until_led(config, config.brokers)
                logs = LogSites(config.acting(Role.COORDINATOR).servers, name="lab", clock=SystemClock())
                try:
                    yield cls(supervisor, config, logs)
                finally:
                    await logs.close()

    async def keep(self, topic: str) -> None:
        async def kept() -> bool:
            async with operator_of(self.config) as operator:
                await operator.keep(topic, SPEC, timeout_s=10.0)
            return True

        await until(kept, f"topic {topic!r} is persistent")

    async def log(self, topic: str) -> TopicLog | None:
        store = NatsKvStore(self.config.acting(Role.COORDINATOR).control, name="lab")
        await store.open()
        try:
            found = {record.topic: record for record in await Records(store).load()}.get(topic)
            return None if found is None else found.log
        finally:
            await store.close()

    async def where(self, topic: str) -> tuple[str, tuple[Replica, ...]]:
        """The broker of the newest segment, and its replicas once all of them have everything."""
        found: tuple[str, tuple[Replica, ...]] = "", ()

        async def whole() -> bool:
            nonlocal found
            log = await self.log(topic)
            assert log is not None
            segment = log.segments[-1]
            replicas = await self.logs.at(segment.broker).replicas(log.name(segment.epoch))
            found = segment.broker, replicas
            return len(replicas) == SPEC.replicas and all(each.current for each in replicas)

        await until(whole, f"all replicas of {topic!r} have everything")
        return found

    async def kill(self, child: str) -> None:
        await self.supervisor.child(child).kill()

    async def until_all_run(self) -> None:
        async def well() -> bool:
            return all(child.state == "running" and child.alive for child in self.supervisor.status.children)

        await until(well, "every process runs")
        await until_led(self.config, self.config.brokers)


@dataclass(slots=True)
class Traffic:
    """Publishers of one topic and a reader, with a record of what each was told."""

    topic: str
    publishing: list[Event] = field(default_factory=list)
    live: list[Event] = field(default_factory=list)
    acknowledged_s: list[float] = field(default_factory=list)
    unconfirmed: int = 0
    _clients: list[Client] = field(default_factory=list)
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)
    _counts: dict[int, int] = field(default_factory=dict)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    @asynccontextmanager
    async def on(cls, sites: Sites, topic: str) -> AsyncIterator[Self]:
        traffic = cls(topic)
        await sites.keep(topic)
        reader = open_client(sites.config)
        traffic._clients = [open_client(sites.config) for _ in range(_PUBLISHERS)]
        try:
            await reader.subscribe(topic, traffic._got, on_report=lambda what: traffic.live.append(_told(_LIVE, what)))
            traffic.live.append(("subscribed", time.time(), _LIVE, topic))
            yield traffic
        finally:
            for task in traffic._tasks:
                task.cancel()
            await asyncio.gather(*traffic._tasks, return_exceptions=True)
            for client in (*traffic._clients, reader):
                await client.close()

    def start(self) -> None:
        self._stop.clear()
        self._tasks = [asyncio.create_task(self._publish(each)) for each in range(_PUBLISHERS)]

    async def until_acknowledged(self) -> None:
        """From each publisher, so many as were not even published yet."""
        before = dict(self._counts)

        async def enough() -> bool:
            return all(self._counts.get(each, 0) >= before.get(each, 0) + _AFTER for each in range(_PUBLISHERS))

        await until(enough, f"{_AFTER} messages on {self.topic!r} are acknowledged")

    async def rest(self) -> None:
        """No publish call is under way, and the reader has what was acknowledged."""
        self._stop.set()
        await asyncio.gather(*self._tasks)
        owed = {event[2:5:2] for event in self.publishing if event[0] == "published"}

        async def read() -> bool:
            return owed <= self._seen

        with contextlib.suppress(NearcastError):  # what does not come is for the check to find
            await until(read, "everything is read")

    def checked(self) -> CheckResult:
        """Of the reader that was there all the time."""
        events = sorted([*self.live, *self.publishing], key=lambda event: event[1])
        return _checked([self.live[0], *(event for event in events if event is not self.live[0])])

    async def replayed(self, config: Config) -> CheckResult:
        """Of one that begins at the first message, now."""
        owed = {event[2:5:2] for event in self.publishing if event[0] == "published"}
        seen: set[tuple[int, int]] = set()
        events: list[Event] = []

        def got(message: Message) -> None:
            seen.add((message.publisher, message.seq))
            events.append(("delivered", time.time(), _REPLAY, message.publisher, message.seq))

        async def read() -> bool:
            return owed <= seen

        async with open_client(config) as client:
            tell = lambda what: events.append(_told(_REPLAY, what))  # noqa: E731  # a callback of one line
            await client.subscribe(self.topic, got, since="first", on_report=tell)
            with contextlib.suppress(NearcastError):
                await until(read, "everything is read again")
        return _checked([("subscribed", 0.0, _REPLAY, self.topic), *self.publishing, *events])

    def pause_s(self, since_s: float) -> float:
        times_s = [since_s, *(at_s for at_s in self.acknowledged_s if at_s >= since_s)]
        return max((later - sooner for sooner, later in pairwise(times_s)), default=0.0)

    async def _publish(self, number: int) -> None:
        while not self._stop.is_set():
            await asyncio.gather(*(self._publish_one(number) for _ in range(_BURST)))
            await asyncio.sleep(_EVERY_S)

    async def _publish_one(self, number: int) -> None:
        client, topic, named = self._clients[number], self.topic, (0, 0)

        def begun(seq: int) -> None:
            nonlocal named
            named = client.publication(topic).machine.id, seq
            self.publishing.append(("publish", time.time(), named[0], topic, seq))

        try:
            await client.publish(topic, b"x" * 100, timeout_s=_DEADLINE_S, begun=begun)
        except NearcastError:
            self.unconfirmed += 1
            return
        self.publishing.append(("published", time.time(), named[0], topic, named[1]))
        self.acknowledged_s.append(time.monotonic())
        self._counts[number] = self._counts.get(number, 0) + 1

    def _got(self, message: Message) -> None:
        self._seen.add((message.publisher, message.seq))
        self.live.append(("delivered", time.time(), _LIVE, message.publisher, message.seq))


async def kill_once(sites: Sites, traffic: Traffic, kind: Kind, number: int, rng: random.Random) -> Round:
    """One kill under traffic, and what came of it."""
    broker, replicas = await sites.where(traffic.topic)
    traffic.start()
    await traffic.until_acknowledged()
    since_s = time.monotonic()
    victim = _victim(sites, kind, number, broker, replicas, rng)
    if kind == "move":
        target = next(each for each in sites.config.brokers if each != broker)
        moving = asyncio.create_task(_move(sites, traffic.topic, target))
        await asyncio.sleep(rng.uniform(0.0, _LATEST_KILL_S))
        await sites.kill(victim)
        await moving
    else:
        await sites.kill(victim)
    await traffic.until_acknowledged()
    pause_s = traffic.pause_s(since_s)
    await traffic.rest()
    await sites.until_all_run()
    replay = await traffic.replayed(sites.config)
    acknowledged = len(traffic.acknowledged_s)
    return Round(kind, number, victim, acknowledged, traffic.unconfirmed, pause_s, traffic.checked(), replay)


def _victim(  # noqa: PLR0917  # all that a choice depends on
    sites: Sites, kind: Kind, number: int, broker: str, replicas: tuple[Replica, ...], rng: random.Random
) -> str:
    """In turn: the broker's own address and who leads the segment; any other replica; whoever has a part in a move."""
    leader = next(each.server for each in replicas if each.leads)
    others = [each.server for each in replicas if not each.leads]
    if kind == "broker":
        return (broker, leader)[number % 2]
    if kind == "replica":
        return rng.choice(others)
    target = next(each for each in sites.config.brokers if each != broker)
    coordinators = [child.name for child in sites.supervisor.status.children if child.kind == "coordinator"]
    return (broker, target, leader, rng.choice(others), rng.choice(coordinators), f"agent-{target}")[number % 6]


async def _move(sites: Sites, topic: str, target: str) -> None:
    """Until somebody who leads has carried it out; who dies in it is asked again."""

    async def moved() -> bool:
        try:
            async with operator_of(sites.config) as operator:
                await operator.move(topic, Strategy.SINGLE, (target,), timeout_s=10.0)
        except MoveRefused:
            pass
        log = await sites.log(topic)
        return log is not None and log.segments[-1].broker == target

    await until(moved, f"{topic!r} has moved to {target}")


async def until(reached: Callable[[], Awaitable[bool]], what: str) -> None:
    """Raises NearcastError when it is not so in time. What is not reachable meanwhile is asked again."""
    deadline_s = time.monotonic() + _DEADLINE_S
    trouble: Exception | None = None
    while time.monotonic() < deadline_s:
        try:
            if await reached():
                return
        except (LogDown, LogRefused, LeaseLost, LinkDown, StoreDown) as error:
            trouble = error
        await asyncio.sleep(_LOOK_S)
    raise NearcastError(f"after {_DEADLINE_S:.0f} s it is still not so that {what} ({trouble})")


def _checked(events: list[Event]) -> CheckResult:
    history = History()
    history.events.extend(events)
    history.finished(time.time())
    return check(history, grace_s=0.0)


def _told(subscription: int, what: object) -> Event:
    history = History()
    history.reported(time.time(), subscription, what)  # type: ignore[arg-type]  # what `on_report` is given
    return history.events[0]
