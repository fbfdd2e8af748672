"""Tables on real Spark: versions, keys, compaction beside readers, and writers that lose."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import Conflict, TableGone
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.tables import Table
from nearcast.store.memory import MemoryStore, MemoryStoreHandle
from nearcast.transport.clock import SystemClock

PLACES = Dataset("places", "p1", parse_schema("id BIGINT, name STRING"))
USERS = Dataset("users", "u1", parse_schema("id BIGINT, lat DOUBLE"), key="id")


def store() -> MemoryStoreHandle:
    return MemoryStore(SystemClock()).handle(SystemClock())


def rows(frame: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


async def test_a_reader_sees_the_version_it_pinned_and_what_came_in_between(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(store(), tmp_path, PLACES)
    await table.create()
    for name in ("a", "b", "c"):
        frame = spark.createDataFrame([(1, name)], "id BIGINT, name STRING")
        await table.append(frame)
    async with table.pinned() as snapshot:
        await table.append(spark.createDataFrame([(2, "d")], "id BIGINT, name STRING"))
        assert rows(snapshot.frame(spark), "name", "_version") == [("a", 1), ("b", 2), ("c", 3)]
        assert rows(snapshot.frame(spark, 1), "name") == [("a",)]
        assert rows(snapshot.frame(spark, 0), "name") == []
        assert rows(snapshot.added(spark, 1), "name") == [("b",), ("c",)]
        assert rows(snapshot.added(spark, 1, 2), "name") == [("b",)]
        with pytest.raises(TableGone, match="version 4 is not there yet; the newest is 3"):
            snapshot.frame(spark, 4)
    async with table.pinned() as snapshot:
        assert snapshot.version == 4
        assert rows(snapshot.rejected(spark), "reason") == []


async def test_a_keyed_dataset_holds_the_latest_record_of_each_key(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store(), tmp_path, USERS)
    await table.create()
    schema = "id BIGINT, lat DOUBLE, _position BIGINT"
    await table.append(spark.createDataFrame([(1, 1.0, 7), (1, 2.0, 9), (2, 3.0, 8), (1, 4.0, 8)], schema))
    await table.append(spark.createDataFrame([(2, 5.0, 1), (3, 6.0, 2)], schema))
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "lat") == [(1, 2.0), (2, 5.0), (3, 6.0)]
        assert rows(snapshot.frame(spark, 1), "id", "lat") == [(1, 2.0), (2, 3.0)]
        assert rows(snapshot.added(spark, 1), "id", "lat") == [(2, 5.0), (3, 6.0)]


async def test_of_two_writers_one_loses_and_nothing_else_happens(spark: SparkSession, tmp_path: Path) -> None:
    handle = store()
    one, other = Table(handle, tmp_path, PLACES), Table(handle, tmp_path, PLACES)
    await one.create()
    head = await one.head()
    frame = spark.createDataFrame([(1, "x")], "id BIGINT, name STRING")
    first, second = await asyncio.gather(one.write(head, frame), other.write(head, frame))
    await one.commit(head, first, {"s": "1"})
    with pytest.raises(Conflict, match="another has committed version 1"):
        await other.commit(head, second, {"s": "2"})
    assert (await other.head()).offsets == {"s": "1"}
    async with other.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "name", "_version") == [("x", 1)]


async def test_a_table_that_was_dropped_takes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store(), tmp_path, replace(PLACES, format="orc"))
    await table.create()
    head = await table.head()
    files = await table.write(head, spark.createDataFrame([(1, "x")], "id BIGINT, name STRING"))
    await table.drop()
    with pytest.raises(TableGone, match=r"dataset places .* has been dropped"):
        await table.commit(head, files, {})
