"""One run on real servers: a fleet and client processes of its own, moves under traffic, kills; then the check."""

import asyncio
import contextlib
import os
import random
import resource
import signal
import sys
import tempfile
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkDown, MoveRefused
from nearcast.domain.processor import Language, Processor
from nearcast.domain.record import TopicRecord
from nearcast.domain.route import Route, Strategy
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch, renting_for
from nearcast.fleet.supervisor import Patience, Supervisor
from nearcast.lab.experiment import Progress
from nearcast.lab.live.elastic import come_and_go
from nearcast.lab.live.journal import merge
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.watched import watched_records
from nearcast.lab.live.worker import ClientSpec, WorkerSpec
from nearcast.sim.check import CheckResult, check
from nearcast.sim.history import Event, History
from nearcast.transport.config import Config, load_config
from nearcast.wire.dialect import NEWEST, OLDEST

HOT = "hot"
TIMING = {"lease_s": 4.0, "linger_s": 1.0, "patience_s": 2.0}
GRACE_S = 5.0
_DRAIN_S = 60.0
KILLED = ("broker", "agent", "client", "coordinator")
_PROCESSED = 0.3  # of the steps are a change of a processor
_CODE = "nearcast.processing.samples:passed_on"
_PROCESSORS = (None, Processor(Language.PYTHON, _CODE), Processor(Language.PYTHON, _CODE, spool=5))


@dataclass(frozen=True, slots=True)
class LiveScale:
    """`fanout` clients listen on one topic; `kills` are how often each kind of process is killed, in turn.

    With `renewed`, agents, coordinators and clients are stopped and started one by one, first with the oldest protocol
    version, then with the newest. In each of `rounds` a server is rented, used, and one is drained and removed.
    """

    servers: int = 3
    fanout: int = 200
    moves: int = 200
    kills: int = 0
    renewed: bool = False
    rounds: int = 0
    topics: int = 8
    clients: int = 12
    hot_rate: float = 20.0
    rate: float = 10.0
    move_every_s: float = 0.3
    kill_every_s: float = 1.5
    audiences: int = 1  # processes that share the fan-out
    lease_s: float = TIMING["lease_s"]
    processed: bool = False  # topics get processors, others and none, between moves

    @property
    def settle_s(self) -> float:
        return 3 * self.lease_s + 5.0


@dataclass(slots=True)
class LiveResult:
    checked: CheckResult
    history: History
    moves: int
    refused: int
    killed: dict[str, int]
    unfinished: list[str]  # topics whose move was not over in time
    disputed: int  # epochs of topics that were written with more than one route
    removed: int = 0  # brokers that came and went
    seconds: float = 0.0
    changed: int = 0  # how often a topic got another processor, or none
    busy: float = 0.0  # the share of this machine's cores that the run took: near 1, everybody was late


def play(kind: str, scale: LiveScale, seed: int, progress: Progress) -> LiveResult:
    """Everything it starts has ended when it returns."""
    before_s = _processors_s()
    found = asyncio.run(_Run(kind, scale, seed, progress).play())
    found.busy = (_processors_s() - before_s) / found.seconds / (os.cpu_count() or 1)
    return found


def _processors_s() -> float:
    """What this process and those of its children that have ended have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@dataclass(slots=True)
class _Worker:
    command: Command
    journal: Path
    numbers: range


@dataclass(slots=True)
class _Routes:
    """Every route that the store was seen with."""

    seen: dict[tuple[str, int], set[Route]] = field(default_factory=dict)

    @property
    def disputed(self) -> int:
        return sum(len(routes) > 1 for routes in self.seen.values())


class _Run:
    def __init__(self, kind: str, scale: LiveScale, seed: int, progress: Progress) -> None:
        self.kind = kind
        self.scale = scale
        self.rng = random.Random(seed)
        self.seed = seed
        self.progress = progress
        self.topics = [HOT, *(f"topic{number}" for number in range(scale.topics))]
        self.events: list[Event] = []
        self.journals: list[Path] = []
        self.routes = _Routes()
        self.killed = dict.fromkeys(KILLED, 0)
        self.moves = self.refused = self.removed = self.changed = 0
        self._next = 1

    async def play(self) -> LiveResult:
        begun_s = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
            state = Path(folder)
            async with Supervisor(state, patience=Patience(attempts=1000)) as self.supervisor:
                protocol = OLDEST if self.scale.renewed else NEWEST
                timing = {**TIMING, "lease_s": self.scale.lease_s}
                local = LocalSpec(self.scale.servers, self.kind, timing=timing, protocol=protocol, rents=True)
                self.config: Config = load_config(await launch(self.supervisor, local))
                self.places = list(self.config.brokers)
                async with renting_for(self.supervisor, local), self._watched_store():
                    await until_led(self.config, self.config.brokers)
                    return await self._play(state, begun_s)

    async def _play(self, state: Path, begun_s: float) -> LiveResult:
        audience = [ClientSpec(f"listener{number}", (HOT,)) for number in range(self.scale.fanout)]
        senders = [ClientSpec(f"hot{number}", (), (HOT,), self.scale.hot_rate / 2) for number in range(2)]
        self.steady = [
            *[
                await self._start_worker(state, f"audience{number}", audience[number :: self.scale.audiences])
                for number in range(self.scale.audiences)
            ],
            await self._start_worker(state, "senders", senders),
        ]
        self.others = [await self._start_worker(state, f"others{number}", self._others(number)) for number in range(2)]
        kills = asyncio.create_task(self._disturb(state))
        try:
            await self._move_all(kills)
            await kills
        finally:
            kills.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await kills
        for worker in (*self.steady, *self.others):
            worker.command.send(signal.SIGUSR1)
        await asyncio.sleep(self.scale.settle_s)
        unfinished = await self._until_drained()
        self.events.append(("finished", time.time()))
        await asyncio.gather(*(worker.command.stop() for worker in (*self.steady, *self.others)))
        history = merge(self.journals, *self.events)
        return LiveResult(
            check(history, grace_s=GRACE_S),
            history,
            self.moves,
            self.refused,
            self.killed,
            unfinished,
            self.routes.disputed,
            self.removed,
            time.monotonic() - begun_s,
            changed=self.changed,
        )

    # Clients

    def _others(self, number: int) -> list[ClientSpec]:
        out = []
        for each in range(self.scale.clients):
            name = f"client{number}-{each}-{self._next}"
            listens, sends = self.rng.sample(self.topics[1:], 2), self.rng.sample(self.topics, 1)
            burst = self.rng.choice((1, 1, 5))
            out.append(ClientSpec(name, tuple(listens), tuple(sends), self.scale.rate / 4, burst))
        return out

    async def _start_worker(self, state: Path, name: str, clients: list[ClientSpec]) -> _Worker:
        first = self._next
        self._next += sum(len(client.subscribe) for client in clients)
        file = state / f"{name}.json"
        journal = state / f"{name}-{first}.journal"
        spec = WorkerSpec(str(self.config.path), str(journal), first, self.seed + first, tuple(clients))
        file.write_bytes(msgspec.json.encode(spec))
        argv = (sys.executable, "-m", "nearcast.lab.live.worker", str(file))
        journal.touch()
        self.journals.append(journal)
        command = await Command.start(CommandSpec(name, "clients", argv, start_s=120.0), state)
        return _Worker(command, journal, range(first, self._next))

    # Moves

    async def _move_all(self, kills: "asyncio.Task[None]") -> None:
        """Until there were as many as asked for, and the kills are over."""
        if not self.scale.moves:
            await kills
        while self.moves < self.scale.moves or not kills.done():
            self.progress(min(self.moves, self.scale.moves), self.scale.moves, "moves")
            try:
                async with self._operator() as operator:
                    while self.moves < self.scale.moves or not kills.done():
                        await self._move(operator)
                        self.progress(min(self.moves, self.scale.moves), self.scale.moves, "moves")
            except (LinkDown, LeaseLost):
                await asyncio.sleep(0.2)  # nobody leads for a moment

    async def _move(self, operator: Operator) -> None:
        await asyncio.sleep(self.rng.expovariate(1 / self.scale.move_every_s))
        if self.scale.processed and self.rng.random() < _PROCESSED:
            with contextlib.suppress(MoveRefused):
                await operator.process(self.rng.choice(self.topics), self.rng.choice(_PROCESSORS), timeout_s=15.0)
                self.changed += 1
            return
        topic = HOT if self.rng.random() < 0.25 else self.rng.choice(self.topics)
        strategy = self.rng.choice(list(Strategy))
        size = 1 if strategy is Strategy.SINGLE else self.rng.randint(1, self.scale.servers)
        brokers = tuple(sorted(self.rng.sample(self.places, min(size, len(self.places)))))
        try:
            await operator.move(topic, strategy, brokers, eager=self.rng.random() < 0.5, timeout_s=15.0)
        except MoveRefused:
            self.refused += 1
        else:
            self.moves += 1

    def _operator(self) -> Operator:
        return operator_of(self.config)

    async def _until_drained(self) -> list[str]:
        """The topics whose move is not over after all."""
        deadline_s = time.monotonic() + _DRAIN_S
        while True:
            found = ["nobody leads"]
            with contextlib.suppress(LinkDown, LeaseLost):
                async with self._operator() as operator:
                    found = list((await operator.status()).moving)
            if not found or time.monotonic() > deadline_s:
                return found
            await asyncio.sleep(0.5)

    async def _disturb(self, state: Path) -> None:
        if self.scale.renewed:
            await self._renew_all(state)
        if self.scale.rounds:
            self.removed = await come_and_go(self._operator, self.places, self.topics, self.scale.rounds)
        await self._kill_all(state)

    # Kills

    async def _kill_all(self, state: Path) -> None:
        for number in range(self.scale.kills * len(KILLED)):
            kind = KILLED[number % len(KILLED)]
            await asyncio.sleep(self.rng.uniform(0.5, 1.5) * self.scale.kill_every_s)
            await self._kill(kind, state)
            self.killed[kind] += 1

    async def _kill(self, kind: str, state: Path) -> None:
        match kind:
            case "broker":
                await self._kill_child(self.rng.choice(list(self.config.brokers)))
            case "agent":
                await self._kill_child(f"agent-{self.rng.choice(list(self.config.brokers))}")
            case "coordinator":
                await self._kill_leader()
            case _:
                await self._kill_clients(state)

    async def _kill_child(self, name: str) -> None:
        self.events.append(("fault", time.time(), f"kill -9 {name}"))
        await self.supervisor.child(name).kill()

    async def _kill_leader(self) -> None:
        leader = ""
        with contextlib.suppress(LinkDown, LeaseLost):
            async with self._operator() as operator:
                leader = (await operator.status()).leader
        names = [child.name for child in self.supervisor.status.children if child.facts.get("coordinator") == leader]
        await self._kill_child(names[0] if names else "coordinator-1")

    async def _kill_clients(self, state: Path) -> None:
        number = self.rng.randrange(len(self.others))
        worker = self.others[number]
        await worker.command.kill()
        now_s = time.time()
        self.events.append(("fault", now_s, f"kill -9 clients {number}"))
        self.events.extend(("crashed", now_s, subscription) for subscription in worker.numbers)
        self.others[number] = await self._start_worker(state, f"others{number}", self._others(number))

    # A new protocol version

    async def _renew_all(self, state: Path) -> None:
        """As an operator does it: the configuration first, then one process after another."""
        text = self.config.path.read_text()
        self.config.path.write_text(text.replace(f"protocol = {OLDEST}\n", "unsigned_notices = true\n"))
        for name in [child.name for child in self.supervisor.status.children if child.kind in {"agent", "coordinator"}]:
            await asyncio.sleep(self.scale.kill_every_s)
            self.events.append(("fault", time.time(), f"{name} is renewed"))
            await self.supervisor.renew(name)
            await until_led(self.config, self.config.brokers)
        for number in range(len(self.others)):
            await asyncio.sleep(self.scale.kill_every_s)
            await self.others[number].command.stop()
            self.others[number] = await self._start_worker(state, f"others{number}", self._others(number))

    # The store

    def _watched_store(self) -> AbstractAsyncContextManager[None]:
        """Meanwhile every record that is written is looked at: an epoch has one route, whoever wrote it."""

        def seen(record: TopicRecord) -> None:
            for route in record.routes:
                self.routes.seen.setdefault((record.topic, route.epoch), set()).add(route)

        return watched_records(self.config, seen)
