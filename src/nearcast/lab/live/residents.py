"""Subscribers of the emergency application as real clients, in one process, each with a journal of what it was told.

    python -m nearcast.lab.live.residents SPEC.json

Several processes share a city: each has every n-th resident. Prints one JSON line when it is there; the city's time
begins at the time that is in the file `begin`, which is read on SIGUSR1. On SIGTERM everybody leaves.

Some go offline in the middle, as people do, and come back with another client and the position that they had.
"""

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from nearcast.client import Client, open_client
from nearcast.client.channel_subscription import ChannelSubscription
from nearcast.domain.channel import Missed, Notification
from nearcast.domain.errors import NearcastError
from nearcast.lab.emergency import City, channel_name, user_name
from nearcast.lab.emergency_oracle import checksum
from nearcast.lab.workloads.emergencies import Emergencies, Size
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready
from nearcast.wire.channels import Notice, Result
from nearcast.wire.control import seal
from nearcast.wire.dialect import Dialect

_KEEP_S = 3600.0
_PATIENCE_S = 60.0
_RETRY_S = 0.5
_LATEST_BACK = 0.8  # of the time: who was away is back by then

_encode = msgspec.json.Encoder().encode


class Stay(msgspec.Struct, frozen=True):
    """In which city, and how. `compress`: how many times as fast. `away`: the share of residents that goes offline."""

    seed: int
    size: Size
    compress: float
    away: float = 0.1


class ResidentsSpec(msgspec.Struct, frozen=True):
    """This process has the residents whose number is `part` modulo `parts`."""

    config: str
    journal: str
    begin: str
    stay: Stay
    part: int
    parts: int


class Subscribed(msgspec.Struct, frozen=True, tag=True):
    """Everything after execution `begun` is due."""

    at_s: float
    user: int
    asked: int
    begun: int


class Got(msgspec.Struct, frozen=True, tag=True):
    """`size`: of the message, as a server counts it. `told`: see the oracle. `executed_s`: the execution's time."""

    at_s: float
    user: int
    asked: int
    execution: int
    home: str
    size: int
    executed_s: float
    told: tuple[tuple[int, int], ...]


class Lost(msgspec.Struct, frozen=True, tag=True):
    """It was said that something is missing."""

    at_s: float
    user: int
    asked: int
    after: int
    until: int


class Away(msgspec.Struct, frozen=True, tag=True):
    """It was offline."""

    begin_s: float
    end_s: float
    user: int


Event = Subscribed | Got | Lost | Away
_decoder = msgspec.json.Decoder(Event)


def read_journal(path: Path) -> list[Event]:
    return [_decoder.decode(line) for line in path.read_bytes().splitlines()]


def _ignore(_user: int, _channel: int, _notification: Notification) -> None:
    pass


class Residents:
    def __init__(self, spec: ResidentsSpec) -> None:
        self._spec = spec
        self._config = load_config(Path(spec.config))
        self._city = City(Emergencies(spec.stay.seed, spec.stay.size))
        self._journal = os.open(spec.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._crew = Crew()

    async def run(self, stopped: asyncio.Event) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, self._begin)
        say_ready(residents=len(range(self._spec.part, self._spec.stay.size.subscribers, self._spec.parts)))
        await stopped.wait()
        await self._crew.close()
        os.close(self._journal)

    def _begin(self) -> None:
        spec, begin_s = self._spec, float(Path(self._spec.begin).read_text())
        for number in range(spec.part, spec.stay.size.subscribers, spec.parts):
            resident = Resident(number, self._city, self._config, spec.stay, self._write)
            self._crew.start(resident.live(begin_s), f"resident {number}")

    def _write(self, event: Event) -> None:
        os.write(self._journal, _encode(event) + b"\n")


class Resident:
    """One subscriber, with one client at a time. It comes to the broker that is nearest in the city."""

    def __init__(
        self,
        number: int,
        city: City,
        config: Config,
        stay: Stay,
        write: Callable[[Event], None],
        *,
        also: Callable[[int, int, Notification], None] = _ignore,
    ) -> None:
        """`also(number, channel, notification)` is told of what comes."""
        self._number = number
        self._city = city
        self._config = config
        self._compress = stay.compress
        self._write = write
        self._also = also
        self._overhead = _overhead_of(config.dialect)
        crowd = city.emergencies.crowd
        mine = slice(crowd.first[number], crowd.first[number + 1])
        self._login_s = float(crowd.login_s[number])
        self._wishes = list(zip(crowd.key[mine].tolist(), crowd.since_s[mine].tolist(), strict=True))
        self._positions: dict[int, int] = {}
        brokers = sorted(config.brokers)
        self._home = brokers[int(crowd.distance_km[number].argmin())]
        chance = random.Random(stay.seed * 1_000_003 + number)
        self._away_s: tuple[float, float] | None = None
        if chance.random() < stay.away:
            window = stay.size.last_subscription_s, _LATEST_BACK * stay.size.end_s
            self._away_s = tuple(sorted(chance.uniform(*window) for _ in range(2)))  # type: ignore[assignment]  # two

    async def live(self, begin_s: float) -> None:
        """Until it is cancelled."""
        await self._until(begin_s, self._login_s)
        if self._away_s is None:
            await self._present(begin_s)
            return
        leaves_s, back_s = self._away_s
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, begin_s + leaves_s / self._compress - time.time())):
                await self._present(begin_s)
        left_s = time.time()
        await self._until(begin_s, back_s)
        self._write(Away(left_s, time.time(), self._number))
        await self._present(begin_s)

    async def _present(self, begin_s: float) -> None:
        async with open_client(self._config, name=user_name(self._number)) as client, asyncio.TaskGroup() as tasks:
            client.set_home(self._home)
            for asked, since_s in self._wishes:
                tasks.create_task(self._follow(client, asked, begin_s, since_s))

    async def _follow(self, client: Client, asked: int, begin_s: float, since_s: float) -> None:
        await self._until(begin_s, since_s)
        subscription = await self._subscribed(client, asked)
        try:
            async for notification in subscription:
                self._write(self._got(notification, asked, subscription.home))
                self._also(self._number, self._city.emergencies.asked[asked].channel, notification)
                subscription.acknowledge(notification)
        finally:
            self._positions[asked], self._home = subscription.position, subscription.home

    async def _subscribed(self, client: Client, asked: int) -> ChannelSubscription:
        """Servers are killed meanwhile: it asks until it is answered."""
        what = self._city.emergencies.asked[asked]

        def missed(what: Missed) -> None:
            self._write(Lost(time.time(), self._number, asked, what.after, what.until))

        while True:
            with suppress(NearcastError):
                subscription = await client.subscribe_channel(
                    channel_name(what.channel),
                    self._city.values(what),
                    after=self._positions.get(asked),
                    keep_s=_KEEP_S,
                    on_missed=missed,
                    automatic=False,
                    timeout_s=_PATIENCE_S,
                )
                break
            await asyncio.sleep(_RETRY_S)
        if asked not in self._positions:
            self._positions[asked] = subscription.position
            self._write(Subscribed(time.time(), self._number, asked, subscription.position))
        return subscription

    def _got(self, notification: Notification, asked: int, home: str) -> Got:
        told = tuple((int(str(row["id"])), checksum(row)) for row in notification.rows)
        size = len(_encode(notification.rows)) + self._overhead
        now_s, execution = time.time(), notification.execution
        return Got(now_s, self._number, asked, execution, home, size, notification.at_s, told)

    async def _until(self, begin_s: float, city_s: float) -> None:
        await asyncio.sleep(max(0.0, begin_s + city_s / self._compress - time.time()))


def _overhead_of(dialect: Dialect) -> int:
    """Of a notice without its rows. Executions have numbers of this size, and since when a key is answered has, too."""
    now_ms = int(time.time() * 1000)
    return len(seal(Notice("0" * 32, Result(now_ms, now_ms, b"", now_ms, time.time())), dialect))


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=ResidentsSpec)
    run_until_stopped(lambda stopped: Residents(spec).run(stopped))


if __name__ == "__main__":
    main()
