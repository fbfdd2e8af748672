"""A query from topic to topic whose process is killed with -9."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearcast.cli.connect import operator_of
from nearcast.client import Client, open_client
from nearcast.domain.log import LogSpec
from nearcast.domain.route import Strategy
from nearcast.transport.config import Config, load_config
from tests.live.conftest import Fleet

QUERY = """
import sys
from nearcast.pipeline.session import session
from nearcast.pipeline.source import NearcastDataSource

master, config, checkpoint = sys.argv[1:]
with session("killed", master) as spark:
    spark.dataSource.register(NearcastDataSource)
    given = {"config": config, "topic": "in", "startingPosition": "first", "maxMessagesPerBatch": "80"}
    frame = spark.readStream.format("nearcast").options(**given, minPartitions="2").load()
    sink = frame.select("value").writeStream.format("nearcast").option("config", config).option("topic", "out")
    sink.option("checkpointLocation", checkpoint).start().awaitTermination()
"""
COUNT = 400
DEADLINE_S = 180.0  # on a machine that has much else to do


@pytest.mark.timeout(600)
def test_a_query_that_is_killed_goes_on_and_nothing_is_lost_or_doubled(
    kept: Fleet, master: str, tmp_path: Path
) -> None:
    config = load_config(kept.config)
    argv = [sys.executable, "-c", QUERY, master, str(kept.config), str(tmp_path / "checkpoint")]

    async def test() -> list[int]:
        async with operator_of(config) as operator:
            for topic in ("in", "out"):
                await operator.keep(topic, LogSpec(1))
        got: list[int] = []
        log = tmp_path / "query.log"
        async with open_client(config) as sender, open_client(config) as receiver:
            await receiver.subscribe("out", lambda message: got.append(int(message.payload)))
            writing = asyncio.create_task(write(sender))
            for enough in (60, COUNT):
                query = begun(argv, log)
                try:
                    await until_got(got, enough, query, log)
                finally:
                    os.killpg(query.pid, signal.SIGKILL)
                    query.wait()
                if enough < COUNT:
                    for topic in ("in", "out"):
                        await move(config, topic)
            await writing
            await sender.publish("out", b"-1")
        again: list[int] = []
        async with open_client(config) as later:
            subscription = await later.subscribe("out", since="first")
            while -1 not in again:
                again.append(int((await anext(subscription)).payload))
        assert sorted(again) == list(range(-1, COUNT))
        return got

    got = asyncio.run(test())
    assert sorted(got) in (list(range(COUNT)), list(range(-1, COUNT)))


async def write(client: Client) -> None:
    """All the time while the query is killed and begun again."""
    for number in range(COUNT):
        await client.publish("in", str(number).encode())
        await asyncio.sleep(0.02)


async def move(config: Config, topic: str) -> None:
    other = next(broker for broker in config.brokers if broker != config.ring.owner(topic))
    async with operator_of(config) as operator:
        await operator.move(topic, Strategy.SINGLE, (other,))


async def until_got(got: list[int], enough: int, query: "subprocess.Popen[bytes]", log: Path) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while len(got) < enough:
        assert query.poll() is None, said(log)
        assert time.monotonic() < until_s, f"{len(got)} of {enough}: {said(log)}"
        await asyncio.sleep(0.05)


def begun(argv: list[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("ab") as out:
        return subprocess.Popen(argv, stdout=out, stderr=out, start_new_session=True)


def said(log: Path) -> str:
    return log.read_text()[-4000:]
