"""Channels and procedures on real Spark: what an execution reads, and what it leaves behind."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nearcast.domain.channel import Channel, ChannelSpec, Parameter
from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import CatalogRefused, ChannelError, Conflict
from nearcast.domain.execution import Execution, Failure, Window
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.catalog import Catalog
from nearcast.pipeline.channels import ChannelRunner, checked
from nearcast.pipeline.procedures import ProcedureRunner
from nearcast.pipeline.progress import drop
from nearcast.pipeline.runs import runs_of
from nearcast.pipeline.sample import few
from nearcast.pipeline.statement import parsed
from nearcast.pipeline.tables import Table
from nearcast.store.memory import MemoryStore
from nearcast.store.store import Store
from nearcast.transport.clock import SystemClock

REPORTS = Dataset("Reports", "r1", parse_schema("id INT, kind STRING, at TIMESTAMP"))
SHELTERS = Dataset("shelters", "s1", parse_schema("name STRING, kind STRING"), key="name")
SPEC = ChannelSpec(
    "emergencies",
    "SELECT r.id, r.at, s.name AS shelter FROM reports r LEFT JOIN shelters s ON s.kind = r.kind\n"
    "WHERE is_new(r) AND r.kind = :kind ORDER BY r.id DESC, shelter",
    (Parameter.parse("kind STRING"),),
    period_s=10.0,
)


async def opened(
    spark: SparkSession, folder: Path, spec: ChannelSpec = SPEC
) -> tuple[Store, Channel, dict[str, Table]]:
    store = MemoryStore(SystemClock()).handle(SystemClock())
    tables = {each.name: Table(store, folder, each) for each in (REPORTS, SHELTERS)}
    for table in tables.values():
        await table.create()
    await tables["shelters"].append(
        few(spark, [("hall", "fire"), ("gym", "fire"), ("boat", "flood")], "name STRING, kind STRING")
    )
    return store, checked(spark, spec, (REPORTS, SHELTERS), 0.0), tables


async def report(spark: SparkSession, tables: Mapping[str, Table], *rows: tuple[int, str]) -> None:
    await tables["Reports"].append(
        few(spark, rows, "id INT, kind STRING").selectExpr("*", "timestamp_seconds(id) AS at")
    )


@pytest.mark.usefixtures("way")
async def test_every_record_is_told_once_whatever_is_killed_in_between(spark: SparkSession, tmp_path: Path) -> None:
    store, channel, tables = await opened(spark, tmp_path)
    await report(spark, tables, (1, "fire"))
    runner = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
    await runner.create()
    fire, flood, none = (SPEC.bind({"kind": kind}) for kind in ("fire", "flood", "snow"))
    await runner.subscribe([fire, flood, none])
    await report(spark, tables, (2, "fire"), (3, "fire"))
    first = await runner.execute()
    assert isinstance(first, Execution)
    assert first.windows == {"Reports": Window(1, 2), "shelters": Window(1, 1)}
    assert (first.number, first.rows, first.keys) == (1, 4, 1)
    told = runner.results.notification(first, fire.key)
    assert told is not None
    assert [(row["id"], row["shelter"]) for row in told.rows] == [(3, "gym"), (3, "hall"), (2, "gym"), (2, "hall")]
    assert str(told.rows[0]["at"]) == "1970-01-01 00:00:03+00:00"
    assert told.previous is None
    assert runner.results.notification(first, flood.key) is None

    # Another process goes on from what the store has.
    await report(spark, tables, (4, "flood"))
    again = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
    second = await again.execute()
    await report(spark, tables, (5, "fire"), (6, "flood"), (7, "snow"))
    await again.unsubscribe([none])
    third = await again.execute()
    assert isinstance(second, Execution)
    assert isinstance(third, Execution)
    found = {told.key: told for told in again.results.notifications(third, [fire.key, flood.key, none.key])}
    assert {key: (told.previous, [row["id"] for row in told.rows]) for key, told in found.items()} == {
        fire.key: (1, [5, 5]),
        flood.key: (2, [6]),
    }
    assert again.results.keys(second) == {flood.key: 1}
    assert [each.number for each in (await again.kept(1)).executions] == [2, 3]
    assert await tables["Reports"].held() == 4
    with pytest.raises(Conflict):
        await _executed_twice(again, runner)


async def test_executions_are_put_aside_and_their_results_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("nearcast.domain.execution", "nearcast.pipeline.progress"):
        monkeypatch.setattr(f"{module}.RECENT", 2)
    spec = ChannelSpec("all_kinds", "SELECT id FROM reports r WHERE is_new(r)")
    store, channel, tables = await opened(spark, tmp_path, spec)
    runner = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
    await runner.create()
    key = spec.bind({}).key
    await runner.subscribe([spec.bind({})])
    for number in range(1, 6):
        if number != 3:
            await report(spark, tables, (number, "fire"))
        await runner.execute()
    assert [each.number for each in (await runner.progress()).executions] == [4, 5]
    again = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
    await report(spark, tables, (6, "fire"))
    last = await again.execute()
    assert isinstance(last, Execution)
    found = [again.results.notification(each, key) for each in (await again.kept(0)).executions]
    told = [(each.execution, each.previous, each.rows[0]["id"]) for each in found if each is not None]
    assert told == [(1, None, 1), (2, 1, 2), (4, 2, 4), (5, 4, 5), (6, 5, 6)]
    await again.clean(keep_s=-1.0)
    assert [each.number for each in (await again.kept(0)).executions] == [6]
    assert [path.name for path in again.folder.glob("0*")] == [last.path]
    await report(spark, tables, (7, "fire"))
    once_more = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
    newest = await once_more.execute()
    assert isinstance(newest, Execution)
    assert once_more.results.previous(newest, key) == 6


async def _executed_twice(one: ChannelRunner, other: ChannelRunner) -> None:
    """`one` commits while `other` is at work."""
    loop, whole = asyncio.get_running_loop(), other._asker.answered

    def slower(*args: Any) -> Any:
        asyncio.run_coroutine_threadsafe(one.execute(), loop).result(60)
        return whole(*args)

    other._asker.answered = slower  # type: ignore[method-assign,assignment]
    await other.execute()


async def test_a_failed_execution_is_written_down_and_its_window_is_not_used_up(
    spark: SparkSession, tmp_path: Path
) -> None:
    spec = ChannelSpec(
        "halves",
        "SELECT id, assert_true(id < 40 + :most) IS NULL AS fine FROM reports r WHERE is_new(r) AND id < 90 + :most",
        (Parameter.parse("most INT"),),
    )
    store, channel, tables = await opened(spark, tmp_path, spec)
    runner = ChannelRunner(store, tmp_path, channel, tables, spark=spark)
    await runner.create()
    small, large = spec.bind({"most": 3}), spec.bind({"most": 100})
    await runner.subscribe([small, large])
    assert not await runner.changed()
    await report(spark, tables, (1, "fire"), (60, "fire"))
    assert await runner.changed()
    failed = await runner.execute()
    assert isinstance(failed, Failure)
    assert "is not true" in failed.reason
    await runner.unsubscribe([small])
    done = await runner.execute()
    assert isinstance(done, Execution)
    assert (done.number, done.rows, done.windows["Reports"]) == (2, 2, Window(0, 1))
    progress = await runner.progress()
    assert [each.reason for each in progress.failures] == [failed.reason]
    assert "LocalTableScan" in progress.plan or "Scan" in progress.plan
    await drop(store, tmp_path, channel, tables)
    with pytest.raises(ChannelError, match=r"channel halves .* has been dropped"):
        await runner.execute()


# Procedures


async def test_procedures_insert_delete_and_ask(spark: SparkSession, tmp_path: Path) -> None:
    store, _, tables = await opened(spark, tmp_path, ChannelSpec("any", "SELECT 1 AS one"))
    await report(spark, tables, (1, "fire"), (2, "flood"), (3, "fire"))

    def made(text: str, *parameters: str) -> ProcedureRunner:
        declared = tuple(map(Parameter.parse, parameters))
        procedure = parsed("it", text, declared, (REPORTS, SHELTERS), 0.0)
        return ProcedureRunner(store, procedure, tables, spark=spark)

    insert = made(
        "INSERT INTO shelters\nSELECT concat('tent ', id) AS name, kind FROM reports WHERE kind = :kind", "kind STRING"
    )
    assert (await insert.run({"kind": "fire"})).run.rows == 2
    # Killed after its commit and before it could say so: what it inserted is there already.
    await store.delete(f"procedure/{insert.procedure.id}", (await runs_of(store, insert.procedure))[1])
    assert (await insert.run({"kind": "fire"})).run.rows == 0
    assert (await insert.run({"kind": "fire"})).run.rows == 2
    ask = made("SELECT name FROM shelters WHERE kind = :kind ORDER BY name", "kind STRING")
    everyone = await ask.run({"kind": "fire"})
    assert [row["name"] for row in everyone.rows] == ["gym", "hall", "tent 1", "tent 3"]
    assert (
        await made("DELETE FROM shelters s WHERE s.name IN (SELECT concat('tent ', id) FROM reports);").run()
    ).run.rows == 2
    assert [row["name"] for row in (await ask.run({"kind": "fire"})).rows] == ["gym", "hall"]
    gone = made("DELETE FROM reports WHERE id < :most", "most INT")
    assert [(await gone.run({"most": most})).run.rows for most in (3, 3)] == [2, 0]
    async with tables["Reports"].pinned() as snapshot:
        assert [tuple(row) for row in snapshot.frame(spark).select("id", "_version").collect()] == [(3, 1)]
    failed = (await made("INSERT INTO shelters SELECT name FROM shelters").run()).run
    assert failed.error is not None
    assert "kind" in failed.error
    with pytest.raises(ChannelError, match="procedure it: line 2, column 6: no dataset 'nowhere'"):
        made("INSERT INTO shelters SELECT *\nFROM nowhere")
    with pytest.raises(ChannelError, match="procedure it: line 1, column 13: no dataset 'nowhere'"):
        made("INSERT INTO nowhere SELECT * FROM shelters")
    with pytest.raises(ChannelError, match="expected DELETE FROM DATASET WHERE"):
        made("DELETE FROM shelters")


def test_a_dataset_that_a_channel_reads_cannot_be_dropped() -> None:
    catalog = Catalog().with_dataset(REPORTS).with_channel(Channel("c1", SPEC, ("reports",)))
    with pytest.raises(
        CatalogRefused, match="cannot drop dataset Reports: channel emergencies reads it; drop that first"
    ):
        catalog.without_dataset("reports")
    with pytest.raises(CatalogRefused, match="no dataset 'shelters'"):
        catalog.with_channel(Channel("c2", ChannelSpec("other", "SELECT 1"), ("shelters",)))
    assert catalog.without_channel("Emergencies").without_dataset("reports") == Catalog()
