"""`nearcast bench feed`."""

import asyncio
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
import uvloop

from nearcast.cli.output import print_json
from nearcast.client import Client, open_client
from nearcast.client.channel_subscription import ChannelSubscription
from nearcast.domain.channel import ChannelSpec, Parameter
from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.execution import Execution
from nearcast.domain.schema import parse_schema
from nearcast.fleet.commands import Command
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.application import create_channels, create_datasets, pipeline_command
from nearcast.lab.live.led import keep, until_led
from nearcast.pipeline.manifest import Manifest
from nearcast.pipeline.progress import kept_of
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config

_TOPIC = "bench.locations"
_USERS = Dataset("users", "bench", parse_schema("id BIGINT, seq BIGINT, lat DOUBLE, lon DOUBLE"), key="id")
_ALARM_TOPIC = "bench.alarms"
_ALARMS = Dataset("alarms", "alarms", parse_schema("id BIGINT, lat DOUBLE, lon DOUBLE"))
_NEAR = ChannelSpec(
    "near",
    "SELECT a.id, u.seq FROM users u, alarms a"
    " WHERE is_new(a) AND u.id = :user AND within_km(u.lat, u.lon, a.lat, a.lon, 2000)",
    (Parameter.parse("user BIGINT"),),
    period_s=10.0,
)
_ALARM_EVERY_S = 1.0
_SUBSCRIBED_S = 240.0
_TICK_S = 0.1
_STRIDE = 7_919  # a prime: neighbours in time are not neighbours by key
_CAUGHT_UP_S = 300.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`wrong_keys`: whose record in the dataset is not the last that was acknowledged for it.

    `lag_records`: published but not committed, seen once a second; in seconds, by the rate.
    """

    keys: int
    published: int
    publish_hz: float
    seconds: float
    kills: int
    versions: int
    files: int
    lag_p50_s: float
    lag_p95_s: float
    lag_max_s: float
    caught_up_s: float
    wrong_keys: int
    executions: int
    execution_p50_s: float | None
    execution_p95_s: float | None
    late_p95_s: float | None
    notifications: int


@dataclass(frozen=True, slots=True)
class _Load:
    keys: int
    rate: float
    per_message: int
    subscriptions: int
    seconds: float
    kills: int


def bench_feed(
    *,
    keys: Annotated[int, typer.Option(min=1, help="How many keys the dataset has.")] = 1_000_000,
    rate: Annotated[float, typer.Option(min=1, help="Updates published per second.")] = 10_000.0,
    per_message: Annotated[int, typer.Option(min=1, help="Updates in one message, one per line.")] = 1,
    subscriptions: Annotated[
        int, typer.Option(min=0, help="Users whose surroundings a channel looks at every 10 s; 0: no channel.")
    ] = 100,
    seconds: Annotated[float, typer.Option(min=1, help="How long.")] = 600.0,
    kills: Annotated[int, typer.Option(min=0, help="kill -9 of the pipeline so often, evenly spread.")] = 3,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Publish updates of a keyed dataset on a persistent topic, kill the pipeline meanwhile, and compare every key.

    A real broker and a real pipeline run on this machine, and share its processors with the publisher. Exit code 1 when
    a key's record is not the last one that was acknowledged.
    """
    outcome = uvloop.run(_measure(_Load(keys, rate, per_message, subscriptions, seconds, kills), master))
    if as_json:
        print_json(outcome)
    else:
        print(
            f"{outcome.published:,} updates of {keys:,} keys, {outcome.publish_hz:,.0f}/s, {kills} times killed:"
            f" {outcome.wrong_keys} keys wrong"
        )
        print(f"lag: median {outcome.lag_p50_s:.1f} s, p95 {outcome.lag_p95_s:.1f} s, most {outcome.lag_max_s:.1f} s")
        print(
            f"caught up {outcome.caught_up_s:.1f} s after the last; {outcome.versions} versions, {outcome.files} files"
        )
        if outcome.executions:
            print(
                f"{outcome.executions} executions of a channel meanwhile: median {outcome.execution_p50_s:.1f} s,"
                f" p95 {outcome.execution_p95_s:.1f} s; {outcome.notifications} notifications"
            )
    raise typer.Exit(int(outcome.wrong_keys > 0))


async def _measure(load: _Load, master: str) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name:
        async with Supervisor(Path(name)) as fleet:
            spec = LocalSpec(sites=1, coordinators=1, cluster=3)
            config = load_config(await launch(fleet, spec))
            await until_led(config, spec.brokers)
            for topic in (_TOPIC, _ALARM_TOPIC):
                await keep(config, topic)
            async with pipeline_store_of(config) as store:
                feeds = [Feed("users", "bench", f"topic:{_TOPIC}", _USERS.name)]
                feeds.append(Feed("alarms", "alarms", f"topic:{_ALARM_TOPIC}", _ALARMS.name))
                tables = await create_datasets(store, config, [_USERS, _ALARMS], feeds)
                channels = [_NEAR] if load.subscriptions else []
                made = await create_channels(store, channels, tables, master)
                pipeline = await Command.start(pipeline_command(config, master), Path(name))
                try:
                    run = _Run(config, tables[_USERS.name], pipeline, load)
                    outcome = await run.outcome()
                    executions = [(await kept_of(store, config.tables, each, 0)).executions for each in made]
                finally:
                    await pipeline.kill()
    return _with_executions(outcome, [each for some in executions for each in some])


def _with_executions(outcome: Outcome, executions: list[Execution]) -> Outcome:
    if not executions:
        return outcome
    took_s, late_s = ([getattr(each, name) for each in executions] for name in ("took_s", "late_s"))
    p50, p95 = (round(float(np.percentile(took_s, each)), 3) for each in (50, 95))
    late_p95_s = round(float(np.percentile(late_s, 95)), 3)
    return replace(outcome, executions=len(executions), execution_p50_s=p50, execution_p95_s=p95, late_p95_s=late_p95_s)


@dataclass
class _Run:
    config: Config
    table: Table
    pipeline: Command
    load: _Load
    sent: int = 0
    lags: list[int] = field(default_factory=list)
    notifications: int = 0

    async def outcome(self) -> Outcome:
        load = self.load
        async with open_client(self.config) as client, asyncio.TaskGroup() as tasks:
            following = [tasks.create_task(each) for each in await self._followed(client)]
            began_s = time.monotonic()
            looking = tasks.create_task(self._look())
            alarming = tasks.create_task(self._alarm(client))
            killing = tasks.create_task(self._kill())
            await self._publish(client, began_s)
            took_s = time.monotonic() - began_s
            await killing
            ended_s = time.monotonic()
            async with asyncio.timeout(_CAUGHT_UP_S):
                while await self._committed() < self.sent:  # noqa: ASYNC110  # another process's doing
                    await asyncio.sleep(0.2)
            caught_up_s = time.monotonic() - ended_s
            for task in (looking, alarming, *following):
                task.cancel()
        manifest = await self.table.head()
        wrong = await asyncio.to_thread(self._wrong_keys, manifest)
        lags_s = np.array(self.lags or [0]) / load.rate
        p50, p95 = (float(np.percentile(lags_s, each)) for each in (50, 95))
        return Outcome(
            load.keys,
            self.sent,
            self.sent / took_s,
            took_s,
            load.kills,
            manifest.version,
            len(manifest.files),
            p50,
            p95,
            float(lags_s.max()),
            caught_up_s,
            wrong,
            0,
            None,
            None,
            None,
            self.notifications,
        )

    async def _followed(self, client: Client) -> list[Coroutine[None, None, None]]:
        """Returns when everybody is subscribed."""

        async def follow(subscription: ChannelSubscription) -> None:
            async for _ in subscription:
                self.notifications += 1

        users = range(0, self.load.keys, max(1, self.load.keys // max(1, self.load.subscriptions)))
        wanted = [
            client.subscribe_channel(_NEAR.name, {"user": user}, timeout_s=_SUBSCRIBED_S)
            for user in users[: self.load.subscriptions]
        ]
        return [follow(each) for each in await asyncio.gather(*wanted)]

    async def _alarm(self, client: Client) -> None:
        number = 0
        while True:
            place = {"lat": number * 37 % 180 - 90.0, "lon": number * 53 % 360 - 180.0}
            await client.publish(_ALARM_TOPIC, msgspec.json.encode({"id": number, **place}))
            number += 1
            await asyncio.sleep(_ALARM_EVERY_S)

    async def _publish(self, client: Client, began_s: float) -> None:
        """So many at each tick that the rate is kept; returns when all were acknowledged."""
        step = self.load.per_message
        while (now_s := time.monotonic() - began_s) < self.load.seconds:
            due = int(now_s * self.load.rate) + 1
            messages = [range(first, min(first + step, due)) for first in range(self.sent, due, step)]
            await asyncio.gather(*(client.publish(_TOPIC, self._updates(numbers)) for numbers in messages))
            self.sent = due
            await asyncio.sleep(_TICK_S)

    def _updates(self, numbers: range) -> bytes:
        return b"\n".join(
            msgspec.json.encode(
                {"id": self._key(number), "seq": number, "lat": number % 180 - 90.0, "lon": number % 360 - 180.0}
            )
            for number in numbers
        )

    def _key(self, number: int) -> int:
        return number * _STRIDE % self.load.keys

    async def _kill(self) -> None:
        for _ in range(self.load.kills):
            await asyncio.sleep(self.load.seconds / (self.load.kills + 1))
            await self.pipeline.kill()
            await self.pipeline.restart()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            self.lags.append(self.sent - await self._committed())

    async def _committed(self) -> int:
        """How many updates are in the table: the highest number of its newest files, by their own statistics."""
        from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

        manifest, most = await self.table.head(), -1
        for each in (each for each in manifest.files if each.last == manifest.version):
            footer = parquet.read_metadata(self.table.folder / each.path)
            groups = [footer.row_group(number).column(1).statistics for number in range(footer.num_row_groups)]
            most = max([most, *(group.max for group in groups)])
        return most + 1

    def _wrong_keys(self, manifest: Manifest) -> int:
        """By the files alone, without the code that made them."""
        from pyarrow import dataset  # noqa: PLC0415

        paths = [str(self.table.folder / each.path) for each in manifest.files]
        found = dataset.dataset(paths).to_table(["id", "seq", "_version"])
        ids, seqs, versions = (found.column(name).to_numpy() for name in ("id", "seq", "_version"))
        latest = np.full(self.load.keys, -1)
        order = np.argsort(versions, kind="stable")
        latest[ids[order]] = seqs[order]
        wanted = np.full(self.load.keys, -1)
        numbers = np.arange(self.sent)
        wanted[numbers * _STRIDE % self.load.keys] = numbers
        return int((latest != wanted).sum())
