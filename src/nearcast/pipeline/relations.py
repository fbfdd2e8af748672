"""RELOC's relations from telemetry, on Spark: who publishes and hears what, what clients have in common, and the
strongest relations of each (RELOC, section 6).

Rows are (topic, client, role), as many as there were publications and deliveries; a role is `pub` or `sub`. What is
large is the telemetry: `pattern_of` makes of it a row per client and topic. `numbered` gives clients and topics the
numbers that an area has, by name. `factors_on` finds the factors of B (see `nearcast.policies.relations`) by Lanczos'
method with a multiplication on Spark for each step; `strongest_on` has the same answer as `strongest` there, from the
same factors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.errors import SchemaError
from nearcast.domain.places import Bools, Floats, Ints
from nearcast.policies.relations import DIGITS, NOBODY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUBLISHES, HEARS = "pub", "sub"
COLUMNS = ("topic", "client", "role")


class Numbers(NamedTuple):
    """Clients and topics by name, and a row (client, topic, publishes, subscribes) for each pair, by numbers."""

    clients: tuple[str, ...]
    topics: tuple[str, ...]
    rows: DataFrame


def pattern_of(telemetry: DataFrame, least: int = 1) -> DataFrame:
    """A row for each client and topic: how often it published, how often it heard. Pairs that were seen less than
    `least` times are left out.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # as all of Spark's users call it; an extra

    if missing := [name for name in COLUMNS if name not in telemetry.columns]:
        raise SchemaError(f"telemetry has no column {missing[0]!r}: it has {', '.join(telemetry.columns)}")
    return (
        telemetry.groupBy("topic", "client")
        .agg(
            F.count_if(F.col("role") == PUBLISHES).alias("published"), F.count_if(F.col("role") == HEARS).alias("heard")
        )
        .where(F.col("published") + F.col("heard") >= least)
    )


def numbered(pattern: DataFrame) -> Numbers:
    """Both kinds of names are collected: they are as few as an area has."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    spark = pattern.sparkSession
    names = {}
    for of in ("client", "topic"):
        names[of] = tuple(sorted(row[0] for row in pattern.select(of).distinct().collect()))
    tables = {of: _table(spark, of, found) for of, found in names.items()}
    rows = (
        pattern.join(F.broadcast(tables["client"]), "client")
        .join(F.broadcast(tables["topic"]), "topic")
        .select(
            F.col("client_number").alias("client"),
            F.col("topic_number").alias("topic"),
            (F.col("published") > 0).alias("publishes"),
            (F.col("heard") > 0).alias("subscribes"),
        )
    )
    return Numbers(names["client"], names["topic"], rows)


def memberships_in(numbers: Numbers) -> tuple[Ints, Ints, Bools, Bools]:
    """`first`, `topic`, `publishes` and `subscribes` of an area, in the order of clients and topics."""
    client, topic, publishes, subscribes = _collected(numbers.rows, "client", "topic", "publishes", "subscribes")
    order = np.lexsort((topic, client))
    first = np.searchsorted(client[order], np.arange(len(numbers.clients) + 1))
    return first, topic[order], publishes[order].astype(np.bool_), subscribes[order].astype(np.bool_)


def factors_on(numbers: Numbers, rank: int) -> Floats:
    """F = B V, a row per client: V are the first right singular vectors of B."""
    from pyspark.ml.feature import CountVectorizerModel  # noqa: PLC0415
    from pyspark.mllib.linalg.distributed import RowMatrix  # noqa: PLC0415
    from pyspark.mllib.util import MLUtils  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    clients, topics = len(numbers.clients), len(numbers.topics)
    by_client = numbers.rows.groupBy("client").agg(F.collect_list(F.col("topic").cast("string")).alias("topics"))
    # Vectors are made in the JVM and stay there: each step of the method goes through all of them.
    counting = CountVectorizerModel.from_vocabulary([str(topic) for topic in range(topics)], "topics", "row")
    rows = MLUtils.convertVectorColumnsFromML(counting.transform(by_client).select("row"), "row").cache()
    rank = min(rank, clients, topics)
    across = RowMatrix(rows, clients, topics).computeSVD(rank).V.toArray()
    rows.unpersist()
    first, topic, _, _ = memberships_in(numbers)
    owner = np.repeat(np.arange(clients), np.diff(first))
    return np.stack([np.bincount(owner, column[topic], clients) for column in across.T], axis=1)


def strongest_on(spark: SparkSession, numbers: Numbers, factors: Floats, most: int) -> Ints:
    """For each client those it shares a topic with whose factors are nearest to its own, the strongest first."""
    from pyspark.sql import Window  # noqa: PLC0415
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    rank = factors.shape[1]
    mine, theirs = ([f"{side}{number}" for number in range(rank)] for side in ("mine", "theirs"))
    pairs = numbers.rows.select("client", "topic")
    together = (
        pairs.join(pairs.withColumnRenamed("client", "other"), "topic")
        .where(F.col("client") != F.col("other"))
        .select("client", "other")
        .distinct()
        .join(F.broadcast(_factors_table(spark, "client", mine, factors)), "client")
        .join(F.broadcast(_factors_table(spark, "other", theirs, factors)), "other")
    )
    products = [F.col(one) * F.col(other) for one, other in zip(mine, theirs, strict=True)]
    strength = products[0]
    for each in products[1:]:
        strength = strength + each
    order = Window.partitionBy("client").orderBy(F.col("strength").desc(), F.col("other"))
    ranked = (
        together.select("client", "other", F.bround(strength, DIGITS).alias("strength"))
        .select("client", "other", F.row_number().over(order).alias("place"))
        .where(F.col("place") <= most)
    )
    client, other, place = _collected(ranked, "client", "other", "place")
    found = np.full((len(numbers.clients), most), NOBODY, dtype=np.int64)
    found[client, place - 1] = other
    return found


def telemetry_of(spark: SparkSession, area: Area, rows: int, seed: int = 0) -> DataFrame:
    """As much telemetry as an area's clients would make, for trials: every role of every pair is there, most of them
    many times, and some much more often than others.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    kept = np.stack([area.publishes, area.subscribes], axis=1).ravel()
    width = len(str(len(area.spool)))
    columns = {
        "pair": np.arange(int(kept.sum())),
        "topic": [f"t{topic:0{width}}" for topic in np.repeat(area.topic, 2)[kept].tolist()],
        "client": [area.clients[client] for client in np.repeat(area.owner, 2)[kept].tolist()],
        "role": np.tile(np.array([PUBLISHES, HEARS]), len(area.topic))[kept].tolist(),
    }
    pairs = _frame(spark, columns)
    count = int(kept.sum())
    # The first rows name every pair once; of the others, the square of a chance makes early pairs common.
    pair = F.when(F.col("id") < count, F.col("id")).otherwise(F.floor(F.pow(F.rand(seed), 2) * count))
    return (
        spark.range(rows)
        .select("id", pair.cast("long").alias("pair"))
        .join(F.broadcast(pairs), "pair")
        .select("topic", "client", "role", (F.col("id") / 1000.0).alias("at_s"))
    )


def _collected(frame: DataFrame, *columns: str) -> list[Ints]:
    """What is as small as an area."""
    table = frame.select(*columns).toArrow()
    return [table[name].to_numpy().astype(np.int64) for name in columns]


def _table(spark: SparkSession, of: str, names: tuple[str, ...]) -> DataFrame:
    return _frame(spark, {of: list(names), f"{of}_number": np.arange(len(names))})


def _factors_table(spark: SparkSession, of: str, columns: list[str], factors: Floats) -> DataFrame:
    return _frame(spark, {of: np.arange(len(factors)), **dict(zip(columns, factors.T, strict=True))})


def _frame(spark: SparkSession, columns: Mapping[str, Ints | Floats | list[str]]) -> DataFrame:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

    return spark.createDataFrame(pa.table(dict(columns)))
