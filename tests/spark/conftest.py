"""A Spark cluster of real processes, for tests that must not work in one process only."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyspark
import pytest

from nearcast.fleet.programs import java_program

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


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    java_program()
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_DAEMON_MEMORY", "256m")
    monkeypatch.setenv("SPARK_DAEMON_JAVA_OPTS", "-Dspark.master.rest.enabled=false -XX:TieredStopAtLevel=1")
    folder = tmp_path / "spark"
    workers = tuple(folder / f"worker-{number}" for number in range(WORKERS))
    children: list[subprocess.Popen[bytes]] = []
    try:
        place = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        children.append(_started(folder / "master.log", "master.Master", *place))
        url = _said(folder / "master.log", r"Starting Spark master at (spark://\S+)")[0]
        for worker in workers:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(worker))
            children.append(_started(worker.with_suffix(".log"), "worker.Worker", *place, *size, url))
        _said(folder / "master.log", "Registering worker", times=WORKERS)
        yield Cluster(url, workers)
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            child.wait(60)


def _started(log: Path, name: str, *options: str) -> "subprocess.Popen[bytes]":
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as out:
        return subprocess.Popen([CLASS, f"org.apache.spark.deploy.{name}", *options], stdout=out, stderr=out)


def _said(log: Path, pattern: str, times: int = 1) -> list[str]:
    until_s = time.monotonic() + DEADLINE_S
    while len(found := re.findall(pattern, log.read_text())) < times:
        assert time.monotonic() < until_s, log.read_text()
        time.sleep(0.1)
    return found
