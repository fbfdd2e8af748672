"""`nearcast bench channel`."""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json, print_table, show_number
from nearcast.domain.channel import Channel, ChannelSpec, Parameter, Subscription
from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import FleetError
from nearcast.domain.execution import Execution
from nearcast.domain.schema import parse_schema
from nearcast.store.memory import MemoryStore
from nearcast.transport.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from nearcast.pipeline.channels import ChannelRunner
    from nearcast.pipeline.tables import Table

_KINDS = ("fire", "flood", "storm", "crash", "spill", "outage", "rescue", "medical", "quake", "riot")
_REPORTS = Dataset("reports", "reports", parse_schema("id BIGINT, kind STRING, area INT, severity INT, text STRING"))
_SHELTERS = Dataset("shelters", "shelters", parse_schema("name STRING, area INT, beds INT"))
_QUERY = """SELECT r.id, r.kind, r.severity, r.text, s.name AS shelter
FROM reports r LEFT JOIN shelters s ON s.area = r.area
WHERE is_new(r) AND r.kind = :kind AND r.area = :area"""
_SPEC = ChannelSpec("nearby", _QUERY, (Parameter.parse("kind STRING"), Parameter.parse("area INT")), period_s=10.0)
_WARM_UP = 2
_EXECUTIONS = 3


def bench_channel(
    *,
    records: Annotated[list[int] | None, typer.Option(min=1, help="New records per execution.")] = None,
    subscriptions: Annotated[list[int] | None, typer.Option(min=1, help="Distinct subscriptions.")] = None,
    alone: Annotated[int, typer.Option(min=1, help="Subscriptions that are also asked one by one.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the records and subscriptions.")] = 1,
    master: Annotated[str, typer.Option(help="Of Spark.")] = "local[*]",
    as_json: AsJson = False,
) -> None:
    """Measure executions of a channel for all subscriptions at once, beside one query per subscription."""
    from nearcast.pipeline.session import session  # noqa: PLC0415  # an extra

    sizes = [
        (count, asked) for asked in subscriptions or (1_000, 10_000, 100_000) for count in records or (10_000, 100_000)
    ]
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as folder, session("bench channel", master) as spark:
        from nearcast.pipeline.channels import checked  # noqa: PLC0415  # needs what comes with Spark

        channel = checked(spark, _SPEC, (_REPORTS, _SHELTERS), time.time())
        rows = [
            asyncio.run(_measured(spark, channel, Path(folder) / str(place), count, asked, alone, seed))
            for place, (count, asked) in enumerate(sizes)
        ]
    if as_json:
        print_json({"query": _QUERY, "master": master, "seed": seed, "sizes": rows})
        return
    print_table(tuple(rows[0]), [tuple(show_number(value) for value in row.values()) for row in rows])


async def _measured(  # noqa: PLR0917  # private, and called in one place
    spark: "SparkSession", channel: Channel, folder: Path, count: int, asked: int, alone: int, seed: int
) -> dict[str, float]:
    from nearcast.pipeline.channels import ChannelRunner  # noqa: PLC0415
    from nearcast.pipeline.tables import Table  # noqa: PLC0415

    clock, chance = SystemClock(), random.Random(seed)
    store = MemoryStore(clock).handle(clock)
    tables = {each.name: Table(store, folder, each) for each in (_REPORTS, _SHELTERS)}
    for table in tables.values():
        await table.create()
    areas = -(-asked // len(_KINDS))
    shelters = ("concat('shelter ', id) AS name", "CAST(id AS INT) AS area", "CAST(id % 90 AS INT) AS beds")
    await tables["shelters"].append(spark.range(areas).selectExpr(*shelters))
    runner = ChannelRunner(store, folder, channel, tables, spark=spark)
    await runner.create()
    wanted = [_SPEC.bind({"kind": _KINDS[i % len(_KINDS)], "area": i // len(_KINDS)}) for i in range(asked)]
    await runner.subscribe(wanted)
    executions: list[Execution] = []
    for number in range(_WARM_UP + _EXECUTIONS):
        await tables["reports"].append(_reports(spark, count, areas, 1_000 * seed + number))
        execution = await runner.execute()
        if not isinstance(execution, Execution):
            raise FleetError(f"bench channel: an execution failed: {execution.reason}")
        executions.append(execution)
    at_once = executions[_WARM_UP:]
    each_s = await _one_by_one(spark, runner, tables, chance.sample(wanted, min(alone + _WARM_UP, asked)))
    took_s = statistics.median(each.took_s for each in at_once)
    return {
        "records": count,
        "subscriptions": asked,
        "matches_per_subscription": round(statistics.mean(each.rows for each in at_once) / asked, 4),
        "execution_s": round(took_s, 3),
        "per_subscription_ms": round(1e3 * took_s / asked, 5),
        "alone_ms": round(1e3 * statistics.median(each_s), 2),
        "alone_sampled": len(each_s),
        "times_faster": round(statistics.median(each_s) * asked / took_s, 1),
    }


async def _one_by_one(
    spark: "SparkSession", runner: "ChannelRunner", tables: "dict[str, Table]", wanted: Sequence[Subscription]
) -> list[float]:
    """Seconds for each of `wanted`, asked alone over the window of the last execution; its rows must be the same."""
    from nearcast.pipeline import answers, frames  # noqa: PLC0415
    from nearcast.pipeline.asking import channel_session  # noqa: PLC0415
    from nearcast.pipeline.sql import Compiler  # noqa: PLC0415
    from nearcast.pipeline.tables import in_thread  # noqa: PLC0415

    spec, last = runner.channel.spec, (await runner.progress()).last
    text = Compiler(spec.query, spec.parameters, runner.channel.datasets).alone().text

    def measure() -> list[float]:
        session = channel_session(spark)  # with as many partitions as a channel has: no more work than there is
        for name, snapshot in pinned.items():
            everything = snapshot.frame(session).drop(frames.VERSION, frames.AT)
            new = snapshot.added(session, last.windows[name].after).drop(frames.VERSION, frames.AT)
            answers.show(name, everything, new, everything)
        found: list[float] = []
        for each in wanted:
            began_s = time.perf_counter()
            rows = session.sql(text, answers.literals(spec.parameters, dict(each.values))).collect()
            found.append(time.perf_counter() - began_s)
            notification = runner.results.notification(last, each.key)
            at_once = () if notification is None else notification.rows
            if _sorted(row.asDict() for row in rows) != _sorted(at_once):
                raise FleetError(f"bench channel: {each.values} has other rows alone than at once")
        return found[_WARM_UP:]

    async with tables["reports"].pinned() as reports, tables["shelters"].pinned() as shelters:
        pinned = {"reports": reports, "shelters": shelters}
        return await in_thread(measure)


def _sorted(rows: Iterable[Mapping[str, object]]) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


def _reports(spark: "SparkSession", count: int, areas: int, seed: int) -> "DataFrame":
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    columns = (
        "id",
        f"element_at(array({kinds}), CAST(1 + floor(rand({seed}) * {len(_KINDS)}) AS INT)) AS kind",
        f"CAST(floor(rand({seed + 1}) * {areas}) AS INT) AS area",
        f"CAST(floor(rand({seed + 2}) * 5) AS INT) AS severity",
        "concat('report ', id, ': ', repeat('x', 80)) AS text",
    )
    return spark.range(count).selectExpr(*columns)
