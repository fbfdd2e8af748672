"""The only place that begins a Spark session, and the only one that knows whether Spark is this process's own.

A master is where Spark runs: local[N], spark://..., yarn, k8s://... With sc://HOST:PORT somebody else runs it (Spark
Connect): this process needs no Java, its files must be where that Spark has them too, and what a session cannot
change there (memory, scheduling) is for who started it.
"""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nearcast.domain.errors import ConfigError
from nearcast.fleet.programs import java_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"  # every core of this machine

_REMOTE = "sc://"
_ENABLED = "SPARK_CONNECT_MODE_ENABLED"  # pyspark's own, set while a session is on such a Spark
_REMOTE_PORT = 15002
_REMOTE_RETRIES = 6  # a minute, each wait four times as long as the one before; its client's own 15 take ten
_REACHED_S = 5.0
_LOG = Path(__file__).with_name("log4j2.properties")
_LOOPBACK = "127.0.0.1"
_PARTITIONS, _PER_CORE = "spark.sql.shuffle.partitions", 4
_SQL = {
    # A time means the same on every machine, and is written so that others can read it.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Files are named, not searched for: a job that looks for them costs more than looking.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}


@contextmanager
def session(name: str, master: str = LOCAL, conf: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """A session of its own on `master`, which ends with the block; `conf` goes before what is set here.

    FleetError without a Java that is new enough; ConfigError without pyspark, with a master that cannot be used or
    reached, or while this process has another session: Spark would silently hand out that one.
    """
    if not is_remote(master):
        java_program()
    try:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
        from pyspark.errors import PySparkException  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError("Spark is not installed: pip install 'nearcast[spark]'") from error
    if SparkSession.getActiveSession() is not None or _ENABLED in os.environ:
        raise ConfigError("this process has a Spark session already: end that one first")
    # What Spark refuses is told by who asked it; its own logger would print pages of JSON as well.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    # Workers run the interpreter and the packages of this process. A cluster that has them elsewhere says where.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        spark = _connected(master, conf or {}) if is_remote(master) else _begun(name, master, conf or {})
    except Py4JJavaError as error:
        raise ConfigError(f"Spark does not start on {master!r}: {error.java_exception.getMessage()}") from error
    except (OSError, PySparkException) as error:
        raise ConfigError(f"Spark does not start on {master!r}: {error}") from error
    try:
        yield spark
    finally:
        spark.stop()
        os.environ.pop(_ENABLED, None)  # or the next session of this process would look for that server


def is_remote(master: str) -> bool:
    return master.startswith(_REMOTE)


def beside(spark: "SparkSession") -> "SparkSession":
    """Another session of the same Spark, with views and changes of settings of its own."""
    if not _is_connected(spark):
        return spark.newSession()
    connected: Any = spark  # another class: its `newSession` would have nothing of what was set
    return _patient(connected.cloneSession())


@lru_cache(8)
def cores_of(spark: "SparkSession") -> int:
    """How many tasks this Spark works on at a time."""
    if _is_connected(spark):
        return spark.range(1 << 14).selectExpr("spark_partition_id() AS part").distinct().count()
    return spark.sparkContext.defaultParallelism


def spread(spark: "SparkSession", session: "SparkSession") -> None:
    """`session` shuffles into as many partitions as its Spark can work on, unless that was told otherwise.

    Whether it was is not known of a Spark that somebody else runs: its settings stand.
    """
    if not _is_connected(spark) and not spark.sparkContext.getConf().contains(_PARTITIONS):
        session.conf.set(_PARTITIONS, str(_PER_CORE * cores_of(spark)))


def is_end_of_spark(error: Exception) -> bool:
    """Whether Spark itself is gone, and nobody's query has failed."""
    from py4j.protocol import Py4JNetworkError  # noqa: PLC0415  # an extra

    if isinstance(error, ConnectionError | Py4JNetworkError):
        return True
    if _ENABLED not in os.environ:
        return False
    from grpc import StatusCode  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException  # noqa: PLC0415

    return isinstance(error, SparkConnectGrpcException) and (
        error.getGrpcStatusCode() is StatusCode.UNAVAILABLE  # nobody answers
        or (error.getCondition() or "").startswith("INVALID_HANDLE.SESSION")  # somebody else does
    )


def _begun(name: str, master: str, conf: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**_settings(master), **conf}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _connected(master: str, conf: Mapping[str, str]) -> "SparkSession":
    from pyspark.sql import SparkSession  # noqa: PLC0415

    place = urlsplit(master)
    # Asked before Spark's own client, which would try for ten minutes.
    socket.create_connection((place.hostname or _LOOPBACK, place.port or _REMOTE_PORT), _REACHED_S).close()
    builder = SparkSession.builder.remote(master)
    for key, value in {**_SQL, **conf}.items():
        if key.startswith("spark.sql."):
            builder = builder.config(key, value)
    return _patient(builder.getOrCreate())


def _patient(spark: "SparkSession") -> "SparkSession":
    from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415

    spark.client.set_retry_policies([DefaultPolicy(max_retries=_REMOTE_RETRIES)])
    return spark


def _is_connected(spark: "SparkSession") -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _settings(master: str) -> dict[str, str]:
    found = _SQL | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG.as_uri()}",
        # One that does not answer is given up after seconds, not after minutes.
        "spark.rpc.askTimeout": "30s",
    }
    if master.startswith("local"):
        # Frames of some thousand rows in 200 parts, which is the default, take seconds for nothing.
        found[_PARTITIONS] = "16"
    if master.startswith("local") or urlsplit(master).hostname in {_LOOPBACK, "localhost"}:
        # Nobody else has to reach this process.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        found |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return found
