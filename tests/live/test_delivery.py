"""Notifications on real servers: whatever is killed, moved or offline, each subscriber has each of its own once.

Results are made here by plain Python, from a rule that says what every execution has for every question, and written as
Parquet files; the rule alone is what is compared with. Agents pull them over HTTP.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
import pyarrow.compute as pc  # type: ignore[import-untyped]  # as above
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # as above
import pytest

from nearcast.brokers.connect import connector
from nearcast.client import Client, open_client
from nearcast.client.channel_subscription import ChannelSubscription
from nearcast.domain.channel import (
    ChannelSpec,
    Missed,
    Notification,
    Parameter,
    ParameterType,
    Subscription,
    SubscriptionKey,
)
from nearcast.domain.errors import ChannelError
from nearcast.domain.execution import Execution
from nearcast.pipeline.delivery import Delivery
from nearcast.pipeline.progress import Kept
from nearcast.store.nats_kv import NatsKvStore
from nearcast.store.store import ABSENT
from nearcast.transport.access import Role
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import BUS, Config, load_config
from nearcast.transport.web import serving
from tests.live.conftest import Fleet, Result

SPEC = ChannelSpec(
    "emergencies",
    "SELECT",
    (Parameter("kind", ParameterType.STRING), Parameter("level", ParameterType.INT)),
    period_s=0.1,
)


def has(execution: int, values: dict[str, object]) -> list[dict[str, object]]:
    """The rule: what an execution has for a question; most have something."""
    kind, level = str(values["kind"]), int(str(values["level"]))
    count = (execution * 7 + len(kind) * 3 + level) % 4
    return [{"report": f"{kind} {execution}.{number}", "level": level} for number in range(count)]


class Writer:
    """A channel whose executions are files: `results` reads them as they were committed."""

    def __init__(self, folder: Path) -> None:
        self.spec = SPEC
        self.results = self
        self.first = 0
        self.done: list[Execution] = []
        self.asked: dict[SubscriptionKey, Subscription] = {}
        self.read: list[tuple[int, frozenset[SubscriptionKey]]] = []  # (execution, keys) of every read
        self._folder = folder
        self._last: dict[SubscriptionKey, int] = {}

    async def subscribe(self, new: Collection[Subscription]) -> int:
        self.asked |= {each.key: each for each in new}
        return len(self.done)

    async def unsubscribe(self, gone: Collection[Subscription]) -> None:
        for each in gone:
            self.asked.pop(each.key, None)

    async def kept(self, after: int) -> Kept:
        return Kept(0, tuple(each for each in self.done if each.number > after))

    def execute(self) -> None:
        number = len(self.done) + 1
        rows: list[dict[str, object]] = []
        for key, each in sorted(self.asked.items()):
            found = has(number, dict(each.values))
            rows += [{"__key": key, "__previous": self._last.get(key), **row} for row in found]
            if found:
                self._last[key] = number
        name = f"{number:06d}.parquet" if rows else ""
        if rows:
            pq.write_table(pa.Table.from_pylist(rows), self._folder / name)
        self.done.append(Execution(number, time.time(), path=name, rows=len(rows)))

    def keys(self, execution: Execution) -> dict[SubscriptionKey, int]:
        if not execution.path:
            return {}
        column = pq.read_table(self._folder / execution.path, columns=["__key"]).column("__key")
        return {SubscriptionKey(each["values"]): each["counts"] for each in pc.value_counts(column).to_pylist()}

    def notifications(self, execution: Execution, keys: Iterable[SubscriptionKey]) -> Iterator[Notification]:
        if not execution.path:
            return
        wanted = list(keys)
        self.read.append((execution.number, frozenset(wanted)))
        table = pq.read_table(self._folder / execution.path, filters=[("__key", "in", wanted)])
        by_key: dict[SubscriptionKey, list[dict[str, object]]] = {}
        for row in table.to_pylist():
            by_key.setdefault(SubscriptionKey(row["__key"]), []).append(row)
        for key, rows in by_key.items():
            previous = rows[0]["__previous"]
            assert previous is None or isinstance(previous, int)
            shown = tuple({name: row[name] for name in row if not name.startswith("__")} for row in rows)
            yield Notification(key, execution.number, previous, shown)


@asynccontextmanager
async def delivering(config: Config, *channels: Writer) -> AsyncIterator[Delivery]:
    """As the pipeline's process does it, until it is killed."""
    clock = SystemClock()
    store = NatsKvStore(config.acting(Role.COORDINATOR).control, name="pipeline", bucket="nearcast_pipeline")
    await store.open()
    try:
        delivery = Delivery(
            connector(config.acting(Role.COORDINATOR).endpoints(), name="pipeline"),
            store,
            bus=BUS,
            dialect=config.dialect,
            clock=clock,
        )
        async with serving(delivery.routes) as url, delivery.running(url):
            await delivery.update(channels)
            yield delivery
    finally:
        await store.close()


async def commit(config: Config, writer: Writer, *, every_s: float, count: int) -> None:
    """Executions, each committed where whoever delivers sees it."""
    store = NatsKvStore(config.acting(Role.COORDINATOR).control, name="writer", bucket="nearcast_pipeline")
    await store.open()
    try:
        for _ in range(count):
            await asyncio.sleep(every_s)
            writer.execute()
            entry = await store.get("channel/test")
            await store.put("channel/test", str(len(writer.done)).encode(), entry.revision if entry else ABSENT)
    finally:
        await store.close()


class Subscriber:
    """An application: it keeps what it is given, and where it is."""

    def __init__(self, config: Config, name: str, home: str, kind: str) -> None:
        self.values: dict[str, object] = {"kind": kind, "level": 2}
        self.got: list[Notification] = []
        self.missed: list[Missed] = []
        self.first = 0
        self.home = home
        self._config = config
        self._name = name
        self._taking: asyncio.Task[None] | None = None

    async def come(self, after: int | None = None) -> None:
        self.client: Client = open_client(self._config, name=self._name)
        self.client.set_home(self.home)
        self.subscription: ChannelSubscription = await self.client.subscribe_channel(
            "emergencies", {"kind": str(self.values["kind"]), "level": 2}, after=after, on_missed=self.missed.append
        )
        if after is None:
            self.first = self.subscription.position
        self._taking = asyncio.create_task(self._take())

    async def go(self) -> int:
        """Offline; where it was."""
        position = self.subscription.position
        await self.client.close()
        assert self._taking is not None
        await self._taking
        return max([position, *(each.execution for each in self.got)])

    async def _take(self) -> None:
        async for notification in self.subscription:
            self.got.append(notification)

    def owed(self, executions: int) -> list[tuple[int, list[dict[str, object]]]]:
        return [
            (each, has(each, self.values)) for each in range(self.first + 1, executions + 1) if has(each, self.values)
        ]

    def had(self) -> list[tuple[int, list[dict[str, object]]]]:
        return [(each.execution, list(each.rows)) for each in self.got]


async def until_served(subscribers: list[Subscriber], writer: Writer, deadline_s: float = 40.0) -> None:
    until_s = time.monotonic() + deadline_s
    while any(len(each.got) < len(each.owed(len(writer.done))) for each in subscribers):
        if time.monotonic() > until_s:
            return  # what is missing is shown by who compares
        await asyncio.sleep(0.1)


def test_nobody_misses_anything_whatever_is_killed_moved_or_offline(fleet: Fleet, tmp_path: Path) -> None:
    async def test() -> None:
        config = load_config(fleet.config)
        first, second = list(config.brokers)[:2]
        writer = Writer(tmp_path)
        homes = [
            ("fire", first),
            ("fire", first),
            ("fire", second),
            ("flood", first),
            ("flood", second),
            ("ice", second),
        ]
        people = [Subscriber(config, f"person{number}", home, kind) for number, (kind, home) in enumerate(homes)]
        async with delivering(config, writer) as delivery:
            for each in people:
                await each.come()
            assert len(delivery.distinct) == 3, "identical subscriptions are one"
            fire = people[0].subscription.machine.key
            assert sorted(delivery.wanted_at(fire)) == sorted((first, second))
            flood = people[3].subscription.machine.key
            assert await people[5].client.count_followers("emergencies", first) == {fire: 2, flood: 1}
            await commit(config, writer, every_s=0.1, count=10)
            await until_served(people, writer, 10.0)
            asked = Counter(
                execution for execution, _ in set(writer.read)
            )  # one that is late is asked again, as it was
            assert max(asked.values()) <= 2, "one question for each execution and agent"
            position = await people[3].go()
            people[0].client.set_home(second)
            await commit(config, writer, every_s=0.1, count=10)
            os.kill(fleet.children()[f"agent-{first}"], signal.SIGKILL)
            await commit(config, writer, every_s=0.1, count=10)
        await commit(config, writer, every_s=0.05, count=5)
        async with delivering(config, writer) as delivery:
            await people[3].come(position)
            os.kill(fleet.children()[second], signal.SIGKILL)
            await commit(config, writer, every_s=0.2, count=20)
            await until_served(people, writer)
            for each in people:
                assert each.had() == each.owed(len(writer.done)), each.values
                assert not each.missed
            assert people[0].subscription.home == second or people[0].subscription.home == first
            people[5].subscription.unsubscribe()
            for each in people:
                await each.client.close()

    async def limited() -> None:
        async with asyncio.timeout(120):
            await test()

    asyncio.run(limited())
    fleet.until_well()


@pytest.mark.parametrize("kind", ["nats"], indirect=True)
def test_what_cannot_be_subscribed_to_is_refused_with_the_reason(fleet: Fleet, tmp_path: Path) -> None:
    async def test() -> None:
        config = load_config(fleet.config)
        writer = Writer(tmp_path)
        async with delivering(config, writer) as delivery, open_client(config) as client:
            with pytest.raises(ChannelError, match="no channel 'storms'; channels are emergencies"):
                await client.subscribe_channel("storms", {})
            with pytest.raises(ChannelError, match="parameter 'level' must be INT, got 'high'"):
                await client.subscribe_channel("emergencies", {"kind": "fire", "level": "high"})
            with pytest.raises(ChannelError, match="no value for parameter 'level'"):
                await client.subscribe_channel("emergencies", {"kind": "fire"})
            subscription = await client.subscribe_channel("emergencies", {"kind": "fire", "level": 1})
            await delivery.update([])
            with pytest.raises(ChannelError, match="emergencies was dropped"):
                await anext(subscription)

    async def limited() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(limited())


@pytest.mark.parametrize("kind", ["redis"], indirect=True)
def test_the_command_line_subscribes_and_shows_what_is_subscribed_to(fleet: Fleet, tmp_path: Path) -> None:
    question = ("emergencies", "--param", "kind=fire", "--param", "level=2")

    async def test() -> None:
        config = load_config(fleet.config)
        writer = Writer(tmp_path)

        async def run(*arguments: str) -> Result:
            return await asyncio.to_thread(fleet.run, "subscription", *arguments)

        async with delivering(config, writer):
            created = (await run("create", *question, "--json")).json
            assert (created["values"], created["position"]) == ({"kind": "fire", "level": 2}, 0)
            await commit(config, writer, every_s=0.0, count=8)
            owed = [each for each in range(1, 9) if has(each, created["values"])]
            followed = await run("follow", *question, "--after", "0", "--count", str(len(owed)), "--json")
            lines = [msgspec.json.decode(line) for line in followed.out.splitlines()]
            assert [each["execution"] for each in lines] == owed
            assert [each["rows"] for each in lines] == [has(each, created["values"]) for each in owed]
            assert f"up to execution {owed[-1]}" in followed.err
            assert "emergencies" in (await run("list")).out
            shown = (await run("show", created["key"][:8])).out
            assert "kind=fire, level=2" in shown
            assert [line for line in shown.splitlines() if line.endswith("0 follow it")], "whoever followed has left"
            wrong = await run("follow", "emergencies", "--param", "kind=fire", "--param", "level=high")
            assert (wrong.code, "parameter 'level' must be INT, got 'high'" in wrong.err) == (1, True)
            assert (await run("drop", created["key"])).code == 0
            while (await run("list", "--json")).json:
                pass
            assert (await run("show", created["key"])).code == 1

    async def limited() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(limited())
