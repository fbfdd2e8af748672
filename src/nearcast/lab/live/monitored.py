"""What agents tell the coordinator about topics and their clients: real agents and clients, counted on the control bus.

One broker for each number of topics; the same clients subscribe to all topics, and ever more of them leave. Beside what
is sent, what would be: every client's coordinate, of each topic that it uses, as often and in the same encoding.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.control.whereabouts import coordinate_of, spot_of
from nearcast.domain.errors import FleetError
from nearcast.domain.route import Strategy
from nearcast.domain.whereabouts import Spot
from nearcast.fleet.commands import Command, CommandSpec
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.experiment import Progress
from nearcast.lab.live.led import operator_of, until_led
from nearcast.lab.live.worker import ClientSpec, WorkerSpec
from nearcast.transport.access import Role
from nearcast.transport.config import BUS, Config, load_config
from nearcast.wire.control import AGENT_SUBJECT, COORDINATOR_SUBJECT, unseal
from nearcast.wire.dialect import SIGNATURE_BYTES
from nearcast.wire.loads import Load
from nearcast.wire.places import Located, Placed

_RATE_HZ = 0.5  # messages of each topic
_LOOK_S = 0.1
_END_S = 20.0
_SETTLE_S = 10.0  # clients that are new measure often, and say where they are when they know better
_WAIT_S = 90.0


class EveryPlace(msgspec.Struct, frozen=True, tag=True):
    """What an agent would send in place of middles: of each topic, where every publisher and every subscriber is."""

    broker: str
    at: Spot
    topics: tuple[tuple[str, tuple[Spot, ...], tuple[Spot, ...]], ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes a second from one broker's agent: its reports of load, its rounds of places, and what changed between.

    `every_bytes_per_s`: rounds with every client's place instead.
    """

    topics: int
    clients: int
    load_bytes_per_s: float
    place_bytes_per_s: float
    change_bytes_per_s: float
    every_bytes_per_s: float


@dataclass(slots=True)
class _Heard:
    """What one agent said, as (when, what, bytes). `known`: topics of its last round with clients on both sides."""

    said: list[tuple[float, str, int]] = field(default_factory=list)
    known: int = 0
    places: dict[str, Spot] = field(default_factory=dict)  # of every client

    def rounds_s(self) -> list[float]:
        return [at_s for at_s, what, _ in self.said if what == "place"]

    def bytes_per_s(self, what: str) -> float:
        """From one round to another: so what is sent at intervals comes to a rate without a remainder."""
        first_s, *_, last_s = self.rounds_s()
        sent = sum(size for at_s, each, size in self.said if each == what and first_s < at_s <= last_s)
        return sent / (last_s - first_s)


def watch(kind: str, topics: Sequence[int], clients: Sequence[int], rounds: int, progress: Progress) -> list[Traffic]:
    """For so many topics each, and so many clients; over so many rounds of reports. All it starts has ended then."""
    return asyncio.run(_watch(kind, topics, clients, rounds, progress))


async def _watch(
    kind: str, topics: Sequence[int], clients: Sequence[int], rounds: int, progress: Progress
) -> list[Traffic]:
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        state = Path(folder)
        async with Supervisor(state) as supervisor:
            spec = LocalSpec(sites=len(topics), kind=kind, coordinators=1)
            config = load_config(await launch(supervisor, spec))
            await until_led(config, spec.brokers)
            run = _Run(state, config, dict(zip(spec.brokers, topics, strict=True)))
            try:
                await run.start(sorted(clients))
                found = []
                for number, count in enumerate(sorted(clients, reverse=True)):
                    progress(number, len(clients), f"{count} clients per topic")
                    await run.keep(count)
                    found += await run.measure(rounds)
                return found
            finally:
                await run.close()


class _Run:
    def __init__(self, state: Path, config: Config, topics: dict[str, int]) -> None:
        self._state = state
        self._config = config
        self._topics = {
            broker: tuple(f"{broker}-{number}" for number in range(count)) for broker, count in topics.items()
        }
        self._heard = {broker: _Heard() for broker in topics}
        self._connect = connector(config.acting(Role.COORDINATOR).endpoints(), name="observer")
        self._workers: dict[int, Command] = {}  # by how many clients there are with its own
        self._clients = 0
        self._links: list[Link] = []

    async def start(self, clients: Sequence[int]) -> None:
        """Places the topics, and has the most clients; returns when they know where they are."""
        async with operator_of(self._config) as operator:
            for broker, topics in self._topics.items():
                for topic in topics:
                    await operator.move(topic, Strategy.SINGLE, (broker,))
        for server in (BUS, *self._topics):
            link = await self._connect(server, lambda _up: None)
            self._links.append(link)
            if server == BUS:
                await link.subscribe(COORDINATOR_SUBJECT, self._reported)
            else:
                await link.subscribe(AGENT_SUBJECT, partial(self._told, server))
        for count in clients:
            await self._start_clients(count)
        await self._until(self._all_known, "every client's place was reported")
        await asyncio.sleep(_SETTLE_S)

    async def close(self) -> None:
        for worker in self._workers.values():
            await worker.stop(_END_S)
        for link in self._links:
            await link.close()

    # Clients

    async def keep(self, count: int) -> None:
        """Clients beyond so many leave."""
        for those in [those for those in self._workers if those > count]:
            await self._workers.pop(those).stop(_END_S)
        self._clients = count
        here = {_name(number) for number in range(count)}
        for heard in self._heard.values():
            heard.places = {client: spot for client, spot in heard.places.items() if client in here}

    async def _start_clients(self, count: int) -> None:
        """As many as are missing. The first of all publishes on all topics; everyone listens to all."""
        topics = tuple(topic for each in self._topics.values() for topic in each)
        specs = tuple(ClientSpec(_name(number), topics) for number in range(self._clients, count))
        if not self._clients:
            specs = (ClientSpec(_name(0), topics, topics, _RATE_HZ * len(topics)), *specs[1:])
        name = f"clients-{count}"
        journal, file = self._state / f"{name}.journal", self._state / f"{name}.json"
        first = 1 + self._clients * len(topics)
        file.write_bytes(msgspec.json.encode(WorkerSpec(str(self._config.path), str(journal), first, count, specs)))
        argv = (sys.executable, "-m", "nearcast.lab.live.worker", str(file))
        self._workers[count] = await Command.start(CommandSpec(name, "clients", argv, start_s=_WAIT_S), self._state)
        self._clients = count

    def _all_known(self) -> bool:
        return all(
            len(heard.places) == self._clients and heard.known == len(self._topics[broker])
            for broker, heard in self._heard.items()
        )

    # What is said

    async def measure(self, rounds: int) -> list[Traffic]:
        for heard in self._heard.values():
            heard.said.clear()
        await self._until(
            lambda: all(len(each.rounds_s()) > rounds for each in self._heard.values()), "agents reported"
        )
        return [
            Traffic(
                len(self._topics[broker]),
                self._clients,
                heard.bytes_per_s("load"),
                heard.bytes_per_s("place"),
                heard.bytes_per_s("change"),
                heard.bytes_per_s("every"),
            )
            for broker, heard in self._heard.items()
        ]

    def _reported(self, data: bytes) -> None:
        message, now, size = unseal(data, self._config.dialect), time.monotonic(), len(data)
        if isinstance(message, Load):
            self._heard[message.report.broker].said.append((now, "load", size))
        elif isinstance(message, Placed):
            place = message.place
            heard = self._heard[place.broker]
            if not message.parts:
                heard.said.append((now, "change", size))
                return
            heard.known = sum(each.publishers is not None and each.subscribers is not None for each in place.topics)
            heard.said.append((now, "every", self._every_bytes(place.broker, place.at, heard)))
            heard.said.append((now, "place", size))

    def _told(self, broker: str, data: bytes) -> None:
        message = unseal(data, self._config.dialect)
        if isinstance(message, Located):
            self._heard[broker].places[message.client] = spot_of(coordinate_of(message.at))

    def _every_bytes(self, broker: str, at: Spot, heard: _Heard) -> int:
        publishers = tuple(spot for client, spot in heard.places.items() if client == _name(0))
        subscribers = tuple(heard.places.values())
        every = EveryPlace(broker, at, tuple((topic, publishers, subscribers) for topic in self._topics[broker]))
        return 1 + SIGNATURE_BYTES + len(msgspec.msgpack.encode(every))

    async def _until(self, reached: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + _WAIT_S
        while not reached():
            if time.monotonic() > deadline_s:
                raise FleetError(f"it took more than {_WAIT_S:g} s until {what}")
            await asyncio.sleep(_LOOK_S)


def _name(client: int) -> str:
    return f"client{client}"
