"""`nearcast bench notification`."""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import typer
import uvloop

from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json, print_table
from nearcast.client import Client, open_client
from nearcast.domain.channel import ChannelSpec, Parameter
from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.errors import FleetError
from nearcast.domain.execution import Execution
from nearcast.domain.schema import parse_schema
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.application import create_channels, create_datasets, pipeline_command
from nearcast.lab.live.committed import VERSION, Archive
from nearcast.lab.live.led import keep, until_led
from nearcast.pipeline.progress import kept_of
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import load_config

_TOPIC = "bench.reports"
_REPORTS = Dataset("reports", "bench", parse_schema("id BIGINT NOT NULL, kind STRING"))
_QUERY = "SELECT r.id FROM reports r WHERE is_new(r) AND r.kind = :kind"
_SPEC = ChannelSpec("alarms", _QUERY, (Parameter.parse("kind STRING"),))
_KIND = "fire"
_WARM_UP = 20  # each is waited for: Spark's first executions take seconds, whoever comes meanwhile waits for them
_PATIENCE_S = 60.0
_START_S = 240.0
_PERCENT = (50, 95, 99)


class Way(NamedTuple):
    """When a record was where, in seconds since 1970."""

    published: float
    batched: float  # the feed had it, and began to write
    executed: float  # an execution of the channel began that has it
    found: float  # that was committed
    told: float  # the subscriber has it


STAGES = (
    ("published -> in the feed's batch", Way._fields.index("published"), Way._fields.index("batched")),
    ("batch written and committed, seen", Way._fields.index("batched"), Way._fields.index("executed")),
    ("execution", Way._fields.index("executed"), Way._fields.index("found")),
    ("committed -> subscriber", Way._fields.index("found"), Way._fields.index("told")),
    ("from record to notification", Way._fields.index("published"), Way._fields.index("told")),
)


def bench_notification(
    *,
    records: Annotated[int, typer.Option(min=1, help="So many are published, one at a time.")] = 100,
    every: Annotated[float, typer.Option(min=0.0, help="Seconds between them, on average.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the times between them.")] = 1,
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[2]",
    as_json: AsJson = False,
) -> None:
    """Measure how long it takes from a record on a feed's topic to the notification at a subscriber, and where.

    A persistent topic, a pipeline, a continuous channel and a subscriber, all real, on this machine. Twenty records go
    ahead one by one, and are not counted.
    """
    ways = uvloop.run(_measured(records, every, seed, master))
    rows = {name: _shares([way[end] - way[begin] for way in ways]) for name, begin, end in STAGES}
    if as_json:
        print_json({"records": len(ways), "every_s": every, "seed": seed, "master": master, "seconds": rows})
        return
    columns = ("seconds", *(f"p{each}" for each in _PERCENT))
    print_table(columns, [(name, *(f"{value:.3f}" for value in each.values())) for name, each in rows.items()])


async def _measured(records: int, every_s: float, seed: int, master: str) -> list[Way]:
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name:
        async with AsyncExitStack() as stack:
            fleet = await stack.enter_async_context(Supervisor(Path(name)))
            spec = LocalSpec(sites=1, coordinators=1, cluster=3)
            config = load_config(await launch(fleet, spec))
            await until_led(config, spec.brokers)
            await keep(config, _TOPIC)
            store = await stack.enter_async_context(pipeline_store_of(config))
            feed = Feed("reports", "bench", f"topic:{_TOPIC}", _REPORTS.name)
            tables = await create_datasets(store, config, [_REPORTS], [feed])
            (channel,) = await create_channels(store, [_SPEC], tables, master)
            await fleet.start(pipeline_command(config, master))
            client = await stack.enter_async_context(open_client(config))
            published, told = await _published(client, records, every_s, seed)
            archive = Archive(tables[_REPORTS.name])
            await archive.look()
            executions = (await kept_of(store, config.tables, channel, 0)).executions
            rows = {row["id"]: row for row in archive.rows()}
    return [
        _way(published[number], rows[number]["_at"].timestamp(), rows[number][VERSION], executions, told[number])
        for number in range(_WARM_UP, len(published))
    ]


async def _published(client: Client, records: int, every_s: float, seed: int) -> tuple[list[float], dict[int, float]]:
    """When each was published, and when the subscriber was told of it."""
    chance, published, told = random.Random(seed), list[float](), dict[int, float]()
    subscription = await client.subscribe_channel(_SPEC.name, {"kind": _KIND}, timeout_s=_START_S)

    async def listen() -> None:
        async for notification in subscription:
            told.update({int(str(row["id"])): time.time() for row in notification.rows})

    async def all_told() -> None:
        deadline_s = time.monotonic() + _PATIENCE_S
        while len(told) < len(published):
            if time.monotonic() > deadline_s:
                raise FleetError(f"{len(published) - len(told)} notifications did not come within {_PATIENCE_S:g} s")
            await asyncio.sleep(0.1)

    listening = asyncio.create_task(listen())
    for number in range(records + _WARM_UP):
        published.append(time.time())
        await client.publish(_TOPIC, msgspec.json.encode({"id": number, "kind": _KIND}))
        if number < _WARM_UP:
            await all_told()
        else:
            await asyncio.sleep(chance.uniform(0.0, 2 * every_s))
    await all_told()
    listening.cancel()
    return published, told


def _way(published_s: float, batched_s: float, version: int, executions: Sequence[Execution], told_s: float) -> Way:
    windows = ((each, each.windows[_REPORTS.name]) for each in executions)
    found = next(each for each, window in windows if window.after < version <= window.until)
    return Way(published_s, batched_s, found.at_s, found.at_s + found.took_s, told_s)


def _shares(seconds: list[float]) -> dict[str, float]:
    return {f"p{each}": round(float(np.percentile(seconds, each)), 4) for each in _PERCENT}
