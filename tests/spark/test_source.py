"""nearcast as a Spark data source, on real brokers that keep logs."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from nearcast.cli.connect import operator_of
from nearcast.client import BlockingClient, Client, open_client
from nearcast.domain.log import LogSpec
from nearcast.domain.route import Strategy
from nearcast.pipeline.source import NearcastDataSource
from nearcast.transport.config import Config, load_config
from tests.live.conftest import Fleet


@pytest.fixture(scope="module")
def config(kept: Fleet, spark: SparkSession) -> Config:
    """Of a fleet that the session reads and writes."""
    spark.dataSource.register(NearcastDataSource)
    return load_config(kept.config)


async def keep(config: Config, topic: str, retain_messages: int | None = None) -> None:
    async with operator_of(config) as operator:
        await operator.keep(topic, LogSpec(1, retain_messages=retain_messages))


async def move(config: Config, topic: str, broker: str) -> None:
    async with operator_of(config) as operator:
        await operator.move(topic, Strategy.SINGLE, (broker,))


async def publish(client: Client, topic: str, numbers: range) -> None:
    await asyncio.gather(*(client.publish(topic, str(number).encode()) for number in numbers))


def read(spark: SparkSession, config: Config, topic: str, **options: str) -> DataFrame:
    return spark.read.format("nearcast").options(config=str(config.path), topic=topic, **options).load()


def numbers(frame: DataFrame) -> list[int]:
    return [int(row.value) for row in frame.orderBy("segment", "record", "seq").collect()]


def test_all_that_is_there_is_read_across_moves_and_again_from_any_position(
    spark: SparkSession, config: Config
) -> None:
    async def write() -> None:
        await keep(config, "moved")
        async with open_client(config) as client:
            await publish(client, "moved", range(1, 51))
            for number, broker in enumerate(("b1", "b2", "b1"), 1):
                await move(config, "moved", broker)
                await publish(client, "moved", range(50 * number + 1, 50 * number + 51))

    asyncio.run(write())
    frame = read(spark, config, "moved", minPartitions="3")
    assert numbers(frame) == list(range(1, 201))
    assert frame.schema.simpleString() == (
        "struct<topic:string,publisher:bigint,seq:bigint,segment:bigint,record:bigint,position:string,"
        "published_at:timestamp,value:binary>"
    )
    rows = frame.collect()
    assert {row.topic for row in rows} == {"moved"}
    assert [row.seq for row in sorted(rows, key=lambda row: int(row.value))] == list(range(1, 201))
    assert all(abs(row.published_at.timestamp() - time.time()) < 600 for row in rows)
    middle = next(row for row in rows if int(row.value) == 120)
    assert numbers(read(spark, config, "moved", startingPosition=middle.position)) == list(range(121, 201))
    # When it was published is the fleet's time, when it was kept is the server's: on a busy machine they are apart.
    later = middle.published_at.timestamp() - 2.0
    assert set(range(121, 201)) <= set(numbers(read(spark, config, "moved", startingPosition=str(later))))


def until(true: Callable[[], bool], what: str, query: StreamingQuery | None = None, deadline_s: float = 60.0) -> None:
    until_s = time.monotonic() + deadline_s
    while not true():
        assert query is None or query.exception() is None, query.exception()
        assert time.monotonic() < until_s, what
        time.sleep(0.1)


def test_a_stream_reads_on_across_a_move_and_from_its_checkpoint(
    spark: SparkSession, config: Config, tmp_path: Path
) -> None:
    batches: dict[int, list[int]] = {}

    def take(frame: DataFrame, batch: int) -> None:
        """Spark makes the last batch again if it was stopped before it had noted the end of it."""
        found = numbers(frame)
        assert batches.setdefault(batch, found) == found

    def stream(**options: str) -> DataStreamWriter:
        given = {"config": str(config.path), "topic": "streamed", "startingPosition": "first", **options}
        frame = spark.readStream.format("nearcast").options(**given).load()
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.foreachBatch(take)

    def got() -> list[int]:
        return [number for batch in batches.values() for number in batch]

    async def write() -> None:
        await keep(config, "streamed")
        async with open_client(config) as client:
            await publish(client, "streamed", range(1, 41))
            query = stream().start()
            try:
                await asyncio.to_thread(until, lambda: len(got()) >= 40, "the first 40", query)
                await move(config, "streamed", other_than(config, "streamed"))
                await publish(client, "streamed", range(41, 81))
                # Not later than the old segment's seal, which comes two leases after the move.
                await asyncio.to_thread(until, lambda: len(got()) >= 80, "what came after the move", query, 3.5)
            finally:
                query.stop()
            await publish(client, "streamed", range(81, 121))

    asyncio.run(write())
    assert got() == list(range(1, 81))
    stream(maxMessagesPerBatch="15").trigger(availableNow=True).start().awaitTermination()
    assert got() == list(range(1, 121))
    assert [len(batch) for batch in batches.values() if batch][-3:] == [15, 15, 10]
    stream().trigger(availableNow=True).start().awaitTermination()
    assert got() == list(range(1, 121)), "nothing has come since"


def other_than(config: Config, topic: str) -> str:
    return next(broker for broker in config.brokers if broker != config.ring.owner(topic))


def test_a_batch_is_written_once_and_a_task_that_fails_publishes_nothing(spark: SparkSession, config: Config) -> None:
    asyncio.run(keep(config, "written"))
    rows = spark.range(1000).repartition(3).selectExpr("CAST(id AS STRING) AS value")

    def write(frame: DataFrame) -> None:
        frame.write.format("nearcast").options(config=str(config.path), topic="written").mode("append").save()

    write(rows)
    assert sorted(numbers(read(spark, config, "written"))) == list(range(1000))
    with pytest.raises(PySparkException, match="a row has no value: it cannot be published"):
        write(rows.selectExpr("IF(value = '777', NULL, value) AS value"))
    with pytest.raises(PySparkException, match=r"at most \d+ are taken"):
        write(rows.selectExpr("IF(value = '777', repeat('x', 2000000), value) AS value"))
    assert len(numbers(read(spark, config, "written"))) == 1000


def test_a_commit_that_runs_again_publishes_nothing_twice(spark: SparkSession, config: Config, tmp_path: Path) -> None:
    """Spark runs a batch again that is not in its list of commits: as after a kill before it is written there."""
    checkpoint = tmp_path / "checkpoint"

    async def prepare() -> None:
        for topic in ("from", "to.kept"):
            await keep(config, topic)
        async with open_client(config) as client:
            await publish(client, "from", range(60))

    async def publish_more() -> None:
        async with open_client(config) as client:
            await publish(client, "from", range(60, 90))

    def run() -> None:
        given = {"config": str(config.path), "topic": "from", "startingPosition": "first"}
        frame = spark.readStream.format("nearcast").options(**given).load()
        named = frame.selectExpr("value", "IF(seq % 2 = 0, 'to.kept', 'to.heard') AS topic").repartition(2)
        sink = named.writeStream.format("nearcast").option("config", str(config.path))
        sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    asyncio.run(prepare())
    with BlockingClient(config) as client, client.subscribe("to.heard") as subscription:
        run()
        checkpoint.joinpath("commits/0").unlink()
        checkpoint.joinpath("commits/.0.crc").unlink(missing_ok=True)
        asyncio.run(publish_more())
        run()
        client.publish("to.heard", b"-1")
        heard = [int(message.payload) for message in iter(lambda: subscription.get(2), None)]
    assert heard[-1] == -1
    assert sorted(heard[:-1]) == list(range(0, 90, 2)), "numbers from 0 have sequence numbers from 1"
    assert sorted(numbers(read(spark, config, "to.kept"))) == list(range(1, 90, 2))


def test_what_cannot_be_read_or_written_is_refused_with_the_reason(spark: SparkSession, config: Config) -> None:
    for options, message in (
        ({}, "option topic is missing"),
        ({"topic": "plain"}, "topic 'plain' is not persistent: .*`nearcast topic set plain --persistent`"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("nearcast").options(config=str(config.path), **options).load().collect()
    with pytest.raises(PySparkException, match=r"leave \.schema\(\) out, and make other columns"):
        spark.read.format("nearcast").options(config=str(config.path), topic="t").schema("a INT").load().collect()
    writer = spark.range(1).write.format("nearcast").options(config=str(config.path), topic="t")
    with pytest.raises(PySparkException, match="column value is missing: it is the message; there are id"):
        writer.mode("append").save()
    with pytest.raises(PySparkException, match="what was published stays"):
        writer.mode("overwrite").save()


def test_a_fleet_that_is_away_and_messages_that_are_gone_are_said(
    spark: SparkSession, config: Config, tmp_path: Path
) -> None:
    async def write() -> str:
        await keep(config, "short", retain_messages=2)
        async with open_client(config) as client:
            for number in range(3):
                await publish(client, "short", range(number, number + 1))
            (row,) = read(spark, config, "short").where("seq = 2").collect()
            for number in range(3, 7):
                await publish(client, "short", range(number, number + 1))
        return str(row.position)

    position = asyncio.run(write())
    with pytest.raises(PySparkException, match="retention was faster than the reader"):
        numbers(read(spark, config, "short", startingPosition=position))
    assert numbers(read(spark, config, "short", startingPosition=position, failOnDataLoss="false")) == [5, 6]
    assert numbers(read(spark, config, "short")) == [5, 6]
    away = tmp_path / "away.toml"
    away.write_text(re.sub(r":\d+\"", ':1"', config.path.read_text()))
    (tmp_path / "key").write_text((config.path.parent / "key").read_text())
    with pytest.raises(PySparkException, match="no agent said within 1 s where it is; are the brokers and agents up"):
        spark.read.format("nearcast").options(config=str(away), topic="short", timeoutSeconds="1").load().collect()


def test_the_example_of_the_documentation_runs(spark: SparkSession, config: Config, tmp_path: Path) -> None:
    async def write() -> None:
        for topic in ("orders", "orders.large"):
            await keep(config, topic)
        async with open_client(config) as client:
            for amount in (50, 500, 5000):
                await client.publish("orders", json.dumps({"amount": amount}).encode())

    asyncio.run(write())
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len([line for line in example.splitlines() if line]) <= 10
    (tmp_path / "nearcast.toml").write_text(config.path.read_text())
    (tmp_path / "key").write_text((config.path.parent / "key").read_text())
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    argv = [sys.executable, "-c", example]
    done = subprocess.run(argv, cwd=tmp_path, env=env, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:]
    values = [json.loads(row.value) for row in read(spark, config, "orders.large").orderBy("seq").collect()]
    assert values == [{"amount": 500}, {"amount": 5000}]
