"""Where the tests of this folder find Spark: in their own process, or on a cluster of real processes.

pytest tests/spark                          # local, and what asks for `cluster` on a cluster
pytest tests/spark --master standalone      # what uses `spark` or `master` on a cluster, too
pytest tests/spark --master connect         # the same on a server of Spark Connect
"""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from nearcast.fleet.programs import java_program
from nearcast.pipeline.session import session
from nearcast.store.memory import MemoryStore, MemoryStoreHandle
from nearcast.testing import run_nats
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import new_key
from tests.live.conftest import Fleet

WORKERS = 2
DEADLINE_S = 180.0  # on a machine that has much else to do
CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Cluster(NamedTuple):
    master: str
    workers: tuple[Path, ...]

    @property
    def worked(self) -> list[str]:
        """The workers that something has run on."""
        return [worker.name for worker in self.workers if any(worker.glob("app-*/*"))]


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    java_program()
    folder = tmp_path_factory.mktemp("spark")
    workers = tuple(folder / f"worker-{number}" for number in range(WORKERS))
    children: list[subprocess.Popen[bytes]] = []
    try:
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        children.append(_started(folder / "master.log", "deploy.master.Master", *place))
        url = _said(folder / "master.log", r"Starting Spark master at (spark://\S+)")[0]
        for worker in workers:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(worker))
            children.append(_started(worker.with_suffix(".log"), "deploy.worker.Worker", *place, *size, url))
        _said(folder / "master.log", "Registering worker", times=WORKERS)
        yield Cluster(url, workers)
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait(60)


@pytest.fixture(scope="session")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Spark Connect, of two cores."""
    with connect_server(tmp_path_factory.mktemp("connect")) as (url, _):
        yield url


@pytest.fixture(scope="session")
def master(request: pytest.FixtureRequest) -> str:
    """What `--master` asks for."""
    match request.config.getoption("--master"):
        case "standalone":
            cluster: Cluster = request.getfixturevalue("cluster")
            return cluster.master
        case "connect":
            connect: str = request.getfixturevalue("connect")
            return connect
        case _:
            return "local[2]"


@pytest.fixture(scope="module")
def spark(master: str) -> Iterator[SparkSession]:
    """A session for the tests of a file: a process has one at a time."""
    with session("tests", master) as spark:
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        yield spark


@pytest.fixture(params=["few", "many"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether what a test has counts as few records, which need no job of Spark's to be read, or as many."""
    if request.param == "many":
        monkeypatch.setattr("nearcast.pipeline.local._MOST_ROWS", -1)


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    java_program()
    place = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    settings = [option for key, value in place.items() for option in ("--conf", f"{key}={value}")]
    server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    options = ("--master", "local[2]", *settings, *server)
    child = _started(folder / "server.log", "deploy.SparkSubmit", *options, memory="1g")
    try:
        port = _said(folder / "server.log", r"Spark Connect server started at: \S+:(\d+)")[0]
        yield f"sc://127.0.0.1:{port}", child
    finally:
        child.kill()
        child.wait(60)


def memory_store() -> MemoryStoreHandle:
    return MemoryStore(SystemClock()).handle(SystemClock())


def values(spark: SparkSession, columns: str, *rows: tuple[object, ...]) -> DataFrame:
    """Without a Python worker, which takes a second to start."""
    return spark.sql(f"SELECT * FROM VALUES {', '.join(map(repr, rows))} AS given({columns})")  # noqa: S608  # a test's


def rows(frame: DataFrame, *columns: str) -> list[Any]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def _started(log: Path, name: str, *options: str, memory: str = "256m") -> "subprocess.Popen[bytes]":
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": memory,
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false -XX:TieredStopAtLevel=1",
    }
    with log.open("wb") as out:
        return subprocess.Popen([CLASS, f"org.apache.spark.{name}", *options], stdout=out, stderr=out, env=env)


def _said(log: Path, pattern: str, times: int = 1) -> list[str]:
    until_s = time.monotonic() + DEADLINE_S
    while len(found := re.findall(pattern, log.read_text())) < times:
        assert time.monotonic() < until_s, log.read_text()
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two brokers that keep logs, one server each, where leases are short, so that a move is over in seconds."""
    folder = tmp_path_factory.mktemp("kept")
    with asyncio.Runner() as runner:
        servers = contextlib.AsyncExitStack()
        try:
            urls = [
                runner.run(servers.enter_async_context(run_nats(name, jetstream=True))).endpoint.url
                for name in ("bus", "b1", "b2")
            ]
            (folder / "key").write_text(new_key())
            config = folder / "nearcast.toml"
            config.write_text(
                f'name = "kept"\nkey_file = "key"\n[control]\nurl = "{urls[0]}"\n[timing]\nlease_s = 2.0\n'
                f'[[broker]]\nname = "b1"\nurl = "{urls[1]}"\n[[broker]]\nname = "b2"\nurl = "{urls[2]}"\n'
            )
            fleet = Fleet(folder, "--config", str(config), "--coordinators", "1")
            fleet.config = config
            try:
                fleet.until_well()
                yield fleet
            finally:
                fleet.stop()
        finally:
            runner.run(servers.aclose())
