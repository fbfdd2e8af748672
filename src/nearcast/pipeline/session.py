"""The only place that begins a Spark session."""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from nearcast.domain.errors import ConfigError
from nearcast.fleet.programs import java_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"  # every core of this machine

_LOG = Path(__file__).with_name("log4j2.properties")
_LOOPBACK = "127.0.0.1"


@contextmanager
def session(name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """A session of its own on `master`, which ends with the block; `conf` goes before what is set here.

    FleetError without a Java that is new enough; ConfigError without pyspark, with a master that cannot be used or
    reached, or while this process has another session: Spark would silently hand out that one.
    """
    java_program()
    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError("Spark is not installed: pip install 'nearcast[spark]'") from error
    if SparkSession.getActiveSession() is not None:
        raise ConfigError("this process has a Spark session already: end that one first")
    # What Spark refuses is told by who asked it; its own logger would print pages of JSON as well.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # Workers run the interpreter and the packages of this process. A cluster that has them elsewhere says where.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_settings(master), **(conf or {})}.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except Py4JJavaError as error:
        raise ConfigError(f"Spark does not start on {master!r}: {error.java_exception.getMessage()}") from error
    except PySparkException as error:
        raise ConfigError(f"Spark does not start on {master!r}: {error}") from error
    try:
        yield spark
    finally:
        spark.stop()


def _settings(master: str) -> dict[str, str]:
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        # One that does not answer is given up after seconds, not after minutes.
        "spark.rpc.askTimeout": "30s",
        # A time means the same on every machine, and is written so that others can read it.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Files are named, not searched for: a job that looks for them costs more than looking.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    }
    if master.startswith("local"):
        # Frames of some thousand rows in 200 parts, which is the default, take seconds for nothing.
        found["spark.sql.shuffle.partitions"] = "16"
    if master.startswith("local") or urlsplit(master).hostname in {_LOOPBACK, "localhost"}:
        # Nobody else has to reach this process.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        found |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return found
