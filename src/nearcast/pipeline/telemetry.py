"""Rows to learn from, of what a fleet leaves behind: snapshots (`nearcast plan show --snapshot FILE`), weeks of them.

A run is one broker over one window of time in which its topics were the same and their rates steady. Every step is a
function from a frame to a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nearcast.domain.errors import ModelError
from nearcast.domain.snapshot_json import SNAPSHOT_VERSION
from nearcast.pipeline.measurements import TELEMETRY, TRAIN, VALIDATE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

STEADY = 1.25  # the highest rate of a window over the lowest
ONE_IN = 5  # runs validate, by a hash of their names: settled before anything is learned

_SNAPSHOT = """
schema STRING, at_s DOUBLE,
brokers ARRAY<STRUCT<name: STRING, report: STRUCT<
    at_s: DOUBLE, topics: ARRAY<STRUCT<topic: STRING, publications: DOUBLE>>>>>,
processing ARRAY<STRUCT<topic: STRING, interval_ms: DOUBLE, p90_ms: DOUBLE>>
"""


def rows_from_snapshots(spark: SparkSession, path: str, *, window_s: float, cores: int, most: int) -> DataFrame:
    """In the schema of `measurements`: runs of up to `most` topics at brokers with so many cores."""
    return (
        _read(spark, path)
        .transform(processed)
        .transform(in_windows(window_s))
        .transform(settled)
        .transform(as_runs(window_s, cores, most))
    )


def _read(spark: SparkSession, path: str) -> DataFrame:
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    try:
        found = spark.read.schema(_SNAPSHOT).json(path, multiLine=True)
    except AnalysisException as error:
        raise ModelError(f"{path}: no snapshots can be read there: {error.getErrorClass() or error}") from error
    return found.where(f"schema = '{SNAPSHOT_VERSION}'")  # what is no snapshot has no schema


def processed(snapshots: DataFrame) -> DataFrame:
    """A row for each processed topic in each report of a broker; a report that several snapshots have counts once.

    What was measured of a topic on several brokers is told of none of them.
    """
    times = "map_from_entries(transform(processing, each -> struct(each.topic, each))) AS times"
    return (
        snapshots.where("processing IS NOT NULL")
        .selectExpr("explode(brokers) AS broker", times)
        .selectExpr(
            "broker.name AS broker", "broker.report.at_s AS at_s", "explode(broker.report.topics) AS load", "times"
        )
        .selectExpr("broker", "at_s", "load.topic", "load.publications AS rate_hz", "times[load.topic] AS told")
        .where("told.interval_ms > 0 AND rate_hz > 0")
        .dropDuplicates(["broker", "at_s", "topic"])
        .selectExpr(
            "*",
            "told.interval_ms AS interval_ms",
            "IF(count(1) OVER (PARTITION BY at_s, topic) = 1, told.p90_ms, NULL) AS p90_ms",
        )
        .drop("told")
    )


def in_windows(window_s: float) -> Callable[[DataFrame], DataFrame]:
    """A row for each topic of each broker and window: the means, the median of the percentiles, how steady it was."""

    def step(reports: DataFrame) -> DataFrame:
        return (
            reports.withColumn("window", _expr(f"CAST(floor(at_s / {window_s}) AS BIGINT)"))
            .groupBy("broker", "window", "topic")
            .agg(
                _expr("avg(interval_ms) AS interval_ms"),
                _expr("avg(rate_hz) AS rate_hz"),
                _expr("max(rate_hz) / min(rate_hz) AS steady"),
                _expr("median(p90_ms) AS p90_ms"),
                _expr("count(1) AS reports"),
            )
        )

    return step


def settled(topics: DataFrame) -> DataFrame:
    """Without the windows in which a topic came, went or changed its rate, or was not measured."""
    whole = f"""
    min(reports) OVER run = max(reports) OVER run AND max(steady) OVER run <= {STEADY}
    AND count(p90_ms) OVER run = count(1) OVER run
    """.replace("OVER run", "OVER (PARTITION BY broker, window)")
    return topics.withColumn("whole", _expr(whole)).where("whole").drop("whole")


def as_runs(window_s: float, cores: int, most: int) -> Callable[[DataFrame], DataFrame]:
    def step(topics: DataFrame) -> DataFrame:
        within = "OVER (PARTITION BY broker, window"
        return (
            topics.withColumn("run", _expr("concat(broker, '@', window)"))
            .withColumn("topics", _expr(f"CAST(count(1) {within}) AS INT)"))
            .where(f"topics <= {most}")
            .selectExpr(
                "run",
                f"'{TELEMETRY}' AS source",
                f"IF(pmod(xxhash64(run), {ONE_IN}) = 0, '{VALIDATE}', '{TRAIN}') AS part",
                "topics",
                f"CAST(row_number() {within} ORDER BY topic) - 1 AS INT) AS topic",
                "interval_ms",
                "rate_hz",
                "CAST(NULL AS DOUBLE) AS p50_ms",
                "p90_ms",
                "CAST(NULL AS DOUBLE) AS p99_ms",
                f"CAST(rate_hz * {window_s} AS BIGINT) AS messages",
                "CAST(0 AS DOUBLE) AS lag_ms",
                "CAST(0 AS DOUBLE) AS stolen",
                f"CAST({window_s} AS DOUBLE) AS lasting_s",
                f"{cores} AS cores",
            )
        )

    return step


def _expr(text: str) -> Column:
    from pyspark.sql.functions import expr  # noqa: PLC0415

    return expr(text)
