"""Tables on real Spark: versions, keys, compaction beside readers, and writers that lose."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import Conflict, TableGone
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.maintenance import Care, tend
from nearcast.pipeline.tables import Table
from tests.spark.conftest import memory_store as store
from tests.spark.conftest import rows, values

PLACES = Dataset("places", "p1", parse_schema("id BIGINT, name STRING"))
USERS = Dataset("users", "u1", parse_schema("id BIGINT, lat DOUBLE"), key="id")


@pytest.mark.usefixtures("way")
async def test_a_reader_sees_the_version_it_pinned_and_what_came_in_between(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(store(), tmp_path, PLACES)
    await table.create()
    for name in ("a", "b", "c"):
        frame = values(spark, "id, name", (1, name))
        await table.append(frame)
    async with table.pinned() as snapshot:
        await table.append(values(spark, "id, name", (2, "d")))
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


@pytest.mark.usefixtures("way")
async def test_a_keyed_dataset_holds_the_latest_record_of_each_key(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store(), tmp_path, USERS)
    await table.create()
    columns = "id, lat, _position"
    await table.append(values(spark, columns, (1, 1.0, 7), (1, 2.0, 9), (2, 3.0, 8), (1, 4.0, 8)))
    await table.append(values(spark, columns, (2, 5.0, 1), (3, 6.0, 2)))
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "lat") == [(1, 2.0), (2, 5.0), (3, 6.0)]
        assert rows(snapshot.frame(spark, 1), "id", "lat") == [(1, 2.0), (2, 3.0)]
        assert rows(snapshot.added(spark, 1), "id", "lat") == [(2, 5.0), (3, 6.0)]


async def test_of_two_writers_one_loses_and_nothing_else_happens(spark: SparkSession, tmp_path: Path) -> None:
    handle = store()
    one, other = Table(handle, tmp_path, PLACES), Table(handle, tmp_path, PLACES)
    await one.create()
    head = await one.head()
    frame = values(spark, "id, name", (1, "x"))
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
    files = await table.write(head, values(spark, "id, name", (1, "x")))
    await table.drop()
    with pytest.raises(TableGone, match=r"dataset places .* has been dropped"):
        await table.commit(head, files, {})


@pytest.mark.usefixtures("way")
async def test_compaction_beside_a_reader_keeps_what_it_pinned_and_every_version(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Table(store(), tmp_path, PLACES)
    await table.create()
    for number in range(4):
        await table.append(values(spark, "id, name", (number, "x")))
    async with table.pinned() as before:
        assert await tend(spark, table, Care(least_files=3, grace_s=-1.0)) >= 4
        assert len((await table.head()).files) == 1
        assert rows(before.frame(spark), "id") == [(0,), (1,), (2,), (3,)], "its files are still there"
    async with table.pinned() as after:
        assert after.version == 4
        assert rows(after.frame(spark), "id", "_version") == [(0, 1), (1, 2), (2, 3), (3, 4)]
        assert rows(after.added(spark, 1, 3), "id") == [(1,), (2,)]
    for _ in range(2):
        await table.clean(-1.0)
    assert len([*table.folder.glob("data/*/*")]) == 1, "nobody reads the old ones any more"
    assert len([*table.folder.glob("manifests/*")]) == 1


@pytest.mark.usefixtures("way")
async def test_deltas_are_folded_and_old_keys_leave(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store(), tmp_path, replace(USERS, retain_s=3600.0))
    await table.create()
    for number in range(3):
        await table.append(values(spark, "id, lat", (number, 1.0), (9, float(number))))
    assert await tend(spark, table, Care(least_deltas=2)) > 0
    await table.append(values(spark, "id, lat", (1, 7.0)))
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "lat") == [(0, 1.0), (1, 7.0), (2, 1.0), (9, 2.0)]
        assert rows(snapshot.added(spark, 2), "id") == [(1,), (2,), (9,)], "a base remembers what came when"
        with pytest.raises(TableGone, match="version 2 is no longer there: it was folded into version 3"):
            snapshot.frame(spark, 2)


async def test_records_leave_when_they_are_old_and_everybody_has_read_them(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(store(), tmp_path, replace(PLACES, retain_s=1e-3))
    await table.create()
    for number in range(3):
        await table.append(values(spark, "id, name", (number, "x")))
    await asyncio.sleep(0.01)
    await table.hold("channel late", 1)
    await table.hold("channel later", 2)
    await tend(spark, table, Care())
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id") == [(1,), (2,)]
        assert snapshot.manifest.floor == 1
    await table.hold("channel late", None)
    await tend(spark, table, Care())
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id") == [(2,)]


async def test_spark_reads_every_type_that_a_schema_may_have(spark: SparkSession, tmp_path: Path) -> None:
    plain = "BOOLEAN, BYTE, SHORT, INT, LONG, REAL, DOUBLE, STRING, BINARY, DATE, TIMESTAMP, TIMESTAMP_NTZ, DEC(8, 2)"
    nested = "ARRAY<INT>; MAP<STRING, ARRAY<DATE>>; STRUCT<x: INT, y: STRUCT<z: DECIMAL>>"
    types = [*plain.replace("(8, 2)", "(8 2)").split(", "), *nested.split("; ")]
    schema = parse_schema(", ".join(f"c{n} {each.replace('(8 2)', '(8, 2)')}" for n, each in enumerate(types)))
    table = Table(store(), tmp_path, Dataset("types", "t1", schema))
    await table.create()
    async with table.pinned() as snapshot:
        frame = snapshot.frame(spark)
        await table.append(frame.union(frame.sparkSession.range(1).selectExpr(*["NULL"] * len(frame.columns))))
    async with table.pinned() as snapshot:
        found = {each.name: each.dataType for each in snapshot.frame(spark).schema}
        assert snapshot.frame(spark).count() == 1
    assert {name: found[name].simpleString() for name in ("c1", "c5", "c12", "c14")} == {
        "c1": "tinyint",
        "c5": "float",
        "c12": "decimal(8,2)",
        "c14": "map<string,array<date>>",
    }
