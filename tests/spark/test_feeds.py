"""Feeds from files on real Spark: what fits is in the dataset once, what does not is beside it with the reason."""

import asyncio
from pathlib import Path

from pyspark.sql import SparkSession

from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.feeds import run_feed, take_batch
from nearcast.pipeline.file_source import FileSource
from nearcast.pipeline.tables import Table
from tests.spark.conftest import memory_store, rows, values

REPORTS = Dataset("reports", "r1", parse_schema("id BIGINT NOT NULL, kind STRING, lat DOUBLE"))
KEYED = Dataset("users", "u1", parse_schema("id BIGINT, lat DOUBLE"), key="id")


async def new_table(folder: Path, dataset: Dataset) -> Table:
    table = Table(memory_store(), folder / "tables", dataset)
    await table.create()
    return table


def feed(dataset: Dataset) -> Feed:
    return Feed("calls", "c1", "file:anywhere", dataset.name)


async def test_json_lines_that_do_not_fit_are_told_apart_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "kind": "fire", "lat": 52.5, "more": [1]}',
        '{"id": 2, "lat": 7}',
        '{"id": "three", "kind": "fire"}',
        '{"id": 4, "lat": {"deg": 1}}',
        "{not json",
        "[1, 2]",
        '{"kind": "fire"}',
        "",
    ]
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jsonl").write_text("\n".join(lines))
    (source / ".hidden").write_text("{}")
    table = await new_table(tmp_path, REPORTS)
    await take_batch(spark, feed(REPORTS), table, FileSource(str(source), "json"))
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "kind", "lat") == [(1, "fire", 52.5), (2, None, 7.0)]
        found = dict(rows(snapshot.rejected(spark), "raw", "reason"))
        assert found == {
            lines[2]: "id: 'three' is no BIGINT",
            lines[3]: "lat: '{\"deg\":1}' is no DOUBLE",
            lines[4]: "is no JSON",
            lines[5]: "is no JSON object",
            lines[6]: "id is missing",
        }
        assert rows(snapshot.rejected(spark), "source")[0] == (f"file:{source / 'a.jsonl'}",)


async def test_a_file_is_read_once_however_often_the_feed_begins_again(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    table = await new_table(tmp_path, KEYED)
    (source / "1.json").write_text('{"id": 1, "lat": 1}\n{"id": 1, "lat": 2}\n{"id": 2, "lat": 3}')
    for number in (2, 3):
        await take_batch(spark, feed(KEYED), table, FileSource(str(source / "*.json"), "json"))
        (source / f"{number}.json").write_text(f'{{"id": 1, "lat": {number * 10}}}\n{{"lat": 1}}')
    running = asyncio.create_task(run_feed(spark, feed(KEYED), table, FileSource(str(source), "json", look_s=0.01)))
    while (await table.head()).version < 3:
        await asyncio.sleep(0.05)
        assert not running.done(), running.exception()
    running.cancel()
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "lat") == [(1, 30.0), (2, 3.0)], "later lines and later files win"
        assert rows(snapshot.rejected(spark), "reason", "_version") == [("id is missing", 2), ("id is missing", 3)]


async def test_csv_and_parquet_files_are_read_by_the_names_of_their_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text('lat,id,source\n1.5,1,"a, b"\nnorth,2,c\n2.5,3\n')
    (source / "2.csv").write_text("ID,kind\n4,flood\n,fire\n")
    (source / "3.csv").write_text("name,age\nx,1\n")
    (source / "4.csv").write_text("kind\nx\n")
    table = await new_table(tmp_path, REPORTS)
    await take_batch(spark, feed(REPORTS), table, FileSource(str(source), "csv"))
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "lat") == [(1, 1.5), (4, None)]
        found = dict(rows(snapshot.rejected(spark), "reason", "raw"))
    assert found == {
        "lat: 'north' is no DOUBLE": "north,2,c",
        "does not have the 3 fields of the first line": "2.5,3",
        "id is missing": ",fire",
        "the file has none of the columns id, kind, lat": None,
        "the file has no column id": None,
    }
    parquet = tmp_path / "parquet"
    parquet.mkdir()
    one = values(spark, "id, lat", (5, "1.5"), (6, "x")).coalesce(1)
    two = one.selectExpr("CAST(id AS BIGINT) AS id", "array(lat) AS lat")
    one.write.parquet(str(tmp_path / "one"))
    two.write.parquet(str(tmp_path / "two"))
    for number, folder in enumerate(("one", "two")):
        next((tmp_path / folder).glob("*.parquet")).rename(parquet / f"{number}.parquet")
    (parquet / "9.parquet").write_text("no parquet")
    table = await new_table(tmp_path, Dataset("more", "m1", REPORTS.schema))
    await take_batch(spark, feed(REPORTS), table, FileSource(str(parquet), "parquet"))
    async with table.pinned() as snapshot:
        assert rows(snapshot.frame(spark), "id", "lat") == [(5, 1.5)]
        reasons = [str(reason) for (reason,) in rows(snapshot.rejected(spark), "reason")]
    assert reasons[0] == "lat: 'x' is no DOUBLE"
    assert reasons[1].startswith("the columns of the file do not fit")
    assert reasons[2] == "the file has none of the columns id, kind, lat"
