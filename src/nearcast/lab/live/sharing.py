"""The same questions asked by ever more subscribers: what it costs Spark, the broker and the agent. And by a million.

Who the subscribers are is said in `followers`: every one has a name, a lease and a subscription at the broker of its
own; connections are shared by all but the clients that are counted as such.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from nearcast.domain.errors import FleetError
from nearcast.domain.execution import Execution
from nearcast.lab.live.channel_fleet import ChannelFleet, Group, Memory, Used
from nearcast.lab.live.followers import PartySpec

_SETTLE_S = 0.5
_DELIVERY_S = 60.0
_CROWD_DELIVERY_S = 300.0

Heard = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """`areas` questions, each asked by as many as each of `factors` says; every execution has for each of them `rows`
    rows of `text_bytes` and more. Then `crowd` subscribers of `crowd_areas` questions, one row each: `clients` of them
    have a connection of their own, the others share `parties`.

    Who comes for another factor registers `registrations` times, and leaves in between. `idle_s`: what is under way
    anyhow is measured for so long before executions, `idles` times; `renewals`: after them a whole round of renewals
    is. Everybody renews twice within `lease_s`; an execution that is measured begins when nobody has to for `gap_s`.
    """

    areas: int = 200
    factors: tuple[int, ...] = (1, 10, 100)
    rows: int = 10
    text_bytes: int = 500
    warm_up: int = 60
    executions: int = 7
    idle_s: float = 3.0
    idles: int = 3
    renewals: bool = True
    registrations: int = 3
    lease_s: float = 120.0
    gap_s: float = 8.0
    crowd: int = 1_000_000
    crowd_areas: int = 10_000
    crowd_executions: int = 3
    clients: int = 2_000
    client_processes: int = 4
    parties: int = 100
    party_processes: int = 2


QUICK = Scale(
    areas=20,
    warm_up=3,
    executions=3,
    idle_s=1.5,
    idles=1,
    renewals=False,
    registrations=1,
    lease_s=60.0,
    gap_s=4.0,
    crowd=10_000,
    crowd_areas=500,
    crowd_executions=1,
    clients=100,
    client_processes=1,
    parties=20,
    party_processes=1,
)


@dataclass(frozen=True, slots=True)
class Registration:
    """From the first that asked to the last that was answered. `agent_s`: processor time."""

    followers: int
    took_s: float
    agent_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """One execution, from the file to the last follower. `results_in_bytes`: what the broker was given for it.

    `fanout_s`: from the commit until the last follower had it. `*_cpu_s`: processor time.
    """

    execution: Execution
    results_in_bytes: float
    out_bytes: float
    fanout_s: float
    broker_cpu_s: float
    agent_cpu_s: float
    pipeline_cpu_s: float


@dataclass(frozen=True, slots=True)
class Idle:
    """While nothing is executed: a whole round of renewals."""

    seconds: float
    said: int
    in_bytes: int
    out_bytes: int
    agent_cpu_s: float


@dataclass(frozen=True, slots=True)
class Round:
    """So many subscribers of the same questions. `again`: after there had been more. `registrations`: those who came
    for it, every time that they did.
    """

    factor: int
    followers: int
    connections: int
    registrations: tuple[Registration, ...]
    runs: tuple[Run, ...]
    idle: Idle | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Crowd:
    """`counted`: registered, by the agent's word. `matched`: followers of keys that the first execution has rows for,
    by the agent's word and the committed files. `delivered`: notifications, of `owed`. `breaks`: of shared connections.
    """

    followers: int
    clients: int
    connections: int
    keys: int
    counted: int
    matched: int
    owed: int
    delivered: int
    breaks: int
    clients_registration: Registration
    registration: Registration
    runs: tuple[Run, ...]
    before: Memory
    after: Memory


@dataclass(frozen=True, slots=True)
class Shared:
    """`wrong`: notifications that were not the next one, or not what was asked for."""

    rounds: tuple[Round, ...]
    crowd: Crowd
    wrong: int


def share(scale: Scale, kind: str, seed: int, heard: Heard) -> Shared:
    """Everything that it starts has ended when it returns."""
    return asyncio.run(_share(scale, kind, seed, heard))


async def _share(scale: Scale, kind: str, seed: int, heard: Heard) -> Shared:
    async with ChannelFleet.running(kind, scale.lease_s, heard) as fleet:
        stage = _Stage(fleet, scale, seed)
        rounds = [await stage.grown(factor, heard) for factor in scale.factors]
        rounds += [await stage.shrunk(factor, heard) for factor in reversed(scale.factors[:-1])]
        await fleet.leave(*fleet.groups)
        crowd = await stage.crowd(heard)
        return Shared(tuple(rounds), crowd, fleet.wrong)


class _Stage:
    def __init__(self, fleet: ChannelFleet, scale: Scale, seed: int) -> None:
        self._fleet = fleet
        self._scale = scale
        self._seed = seed
        self._last = 0  # the execution that was seen last

    async def grown(self, factor: int, heard: Heard) -> Round:
        fleet, scale = self._fleet, self._scale
        heard(f"{factor * scale.areas} subscribers of {scale.areas} questions")
        more = factor * scale.areas - fleet.followers
        clients = range(scale.areas) if not fleet.groups else ()
        parties = () if clients else (PartySpec(0, scale.areas),) * (more // scale.areas)
        registrations: list[Registration] = []
        name = f"x{factor}"
        for _ in range(1 if clients else scale.registrations):
            if registrations:
                await self._left(name)
            before = await fleet.used()
            group = await fleet.follow(name, areas=scale.areas, rows=scale.rows, clients=clients, parties=parties)
            registrations.append(_registration([group], (await fleet.used()).since(before)))
        for _ in range(scale.warm_up if clients else 1):
            await self._run(scale.areas, scale.rows, scale.text_bytes, None, _DELIVERY_S)
        runs = await self._runs()
        idle = await self._idle() if scale.renewals else None
        return Round(factor, fleet.followers, fleet.connections, tuple(registrations), runs, idle)

    async def _left(self, name: str) -> None:
        """Returns when the agent has heard all of them go."""
        fleet = self._fleet
        await fleet.leave(name)
        until_s = time.monotonic() + _DELIVERY_S
        while sum((await fleet.mustered()).values()) > fleet.followers:
            if time.monotonic() > until_s:
                raise FleetError(f"the agent counts more followers than the {fleet.followers} who stayed")
            await asyncio.sleep(_SETTLE_S)

    async def shrunk(self, factor: int, heard: Heard) -> Round:
        """Without those who came last: what has changed by itself is seen in it."""
        fleet = self._fleet
        heard(f"{factor * self._scale.areas} subscribers again")
        await self._left([*fleet.groups][-1])
        await self._run(self._scale.areas, self._scale.rows, self._scale.text_bytes, None, _DELIVERY_S)
        return Round(factor, fleet.followers, fleet.connections, (), await self._runs(), again=True)

    async def crowd(self, heard: Heard) -> Crowd:
        fleet, scale = self._fleet, self._scale
        before = fleet.memory()
        heard(f"{scale.clients} subscribers with connections of their own")
        clients = await self._gathered("clients", self._clients())
        heard(f"{scale.crowd} subscribers of {scale.crowd_areas} questions")
        parties = await self._gathered("parties", self._parties())
        counted = await fleet.mustered()
        first = fleet.batch
        runs: list[Run] = []
        for number in range(scale.crowd_executions):
            heard(f"execution {number + 1} for {scale.crowd} subscribers")
            runs.append(await self._run(scale.crowd_areas, 1, 100, None, _CROWD_DELIVERY_S, surely=False))
        keys = await asyncio.to_thread(fleet.keys_of, runs[0].execution)
        seen = [each.seen() for each in fleet.groups.values()]
        return Crowd(
            followers=fleet.followers,
            clients=scale.clients,
            connections=fleet.connections,
            keys=len(counted),
            counted=sum(counted.values()),
            matched=sum(count for key, count in counted.items() if key in keys),
            owed=fleet.followers * scale.crowd_executions,
            delivered=sum(fleet.delivered(batch)[0] for batch in range(first, fleet.batch)),
            breaks=sum(each.breaks for each in seen),
            clients_registration=clients,
            registration=parties,
            runs=tuple(runs),
            before=before,
            after=fleet.memory(),
        )

    # Within

    def _clients(self) -> list[tuple[tuple[int, ...], tuple[PartySpec, ...]]]:
        """For each process: its clients, spread over the questions."""
        scale = self._scale
        areas = [number * scale.crowd_areas // scale.clients for number in range(scale.clients)]
        return [(tuple(areas[part :: scale.client_processes]), ()) for part in range(scale.client_processes)]

    def _parties(self) -> list[tuple[tuple[int, ...], tuple[PartySpec, ...]]]:
        """For each process: who shares connections, each connection beginning with another question."""
        scale = self._scale
        each, more = divmod(scale.crowd - scale.clients, scale.parties)
        parties = [
            PartySpec(number * scale.crowd_areas // scale.parties, each + (number < more))
            for number in range(scale.parties)
        ]
        return [((), tuple(parties[part :: scale.party_processes])) for part in range(scale.party_processes)]

    async def _gathered(self, name: str, who: list[tuple[tuple[int, ...], tuple[PartySpec, ...]]]) -> Registration:
        """Each in a process of its own."""
        fleet, areas = self._fleet, self._scale.crowd_areas
        before = await fleet.used()
        async with asyncio.TaskGroup() as tasks:
            groups = [
                tasks.create_task(fleet.follow(f"{name}{part}", areas=areas, rows=1, clients=clients, parties=parties))
                for part, (clients, parties) in enumerate(who)
            ]
        return _registration([each.result() for each in groups], (await fleet.used()).since(before))

    async def _runs(self) -> tuple[Run, ...]:
        """Executions, after what is under way without any."""
        fleet, scale = self._fleet, self._scale
        await asyncio.sleep(_SETTLE_S)
        # Agents ask for a list of all who listen at times: what is subtracted is a time in which they do not.
        idles = [await self._anyhow() for _ in range(scale.idles)]
        anyhow = min(idles, key=lambda used: used.broker_s + used.agent_s)
        runs: list[Run] = []
        for _ in range(scale.executions):
            await fleet.until_nobody_renews(scale.gap_s)
            runs.append(await self._run(scale.areas, scale.rows, scale.text_bytes, anyhow, _DELIVERY_S))
        return tuple(runs)

    async def _anyhow(self) -> Used:
        await self._fleet.until_nobody_renews(self._scale.idle_s)
        before = await self._fleet.used()
        await asyncio.sleep(self._scale.idle_s)
        return (await self._fleet.used()).since(before)

    async def _run(
        self,
        areas: int,
        rows: int,
        text_bytes: int,
        anyhow: Used | None,
        timeout_s: float,
        *,
        surely: bool = True,
    ) -> Run:
        fleet = self._fleet
        before = await fleet.used()
        batch = fleet.feed(areas, rows, text_bytes, self._seed)
        if not await fleet.until_delivered(batch, timeout_s) and surely:
            count, *_ = fleet.delivered(batch)
            raise FleetError(f"batch {batch}: {count} of {fleet.followers} followers have it after {timeout_s:g} s")
        await asyncio.sleep(_SETTLE_S)
        used = (await fleet.used()).since(before)
        new = [each for each in await fleet.executions(self._last) if each.rows]
        if len(new) != 1:
            raise FleetError(f"batch {batch}: expected one execution, got {len(new)}")
        (execution,) = new
        self._last = execution.number
        share = 0.0 if anyhow is None else used.at_s / anyhow.at_s
        idle = Used(0.0, 0, 0, 0.0, 0.0, 0.0) if anyhow is None else anyhow
        return Run(
            execution,
            used.in_bytes - share * idle.in_bytes,
            used.out_bytes - share * idle.out_bytes,
            fleet.delivered(batch)[2] - execution.at_s - execution.took_s,
            used.broker_s - share * idle.broker_s,
            used.agent_s - share * idle.agent_s,
            used.pipeline_s,
        )

    async def _idle(self) -> Idle:
        fleet = self._fleet
        before, said = await fleet.used(), self._said()
        await asyncio.sleep(fleet.config.timing.follow_s)
        used = (await fleet.used()).since(before)
        return Idle(used.at_s, self._said() - said, used.in_bytes, used.out_bytes, used.agent_s)

    def _said(self) -> int:
        return sum(each.seen().said for each in self._fleet.groups.values())


def _registration(groups: list[Group], used: Used) -> Registration:
    seen = [each.seen() for each in groups]
    took_s = max(each.registered_s for each in seen) - min(each.began_s for each in seen)
    return Registration(sum(each.registered for each in seen), took_s, used.agent_s)
