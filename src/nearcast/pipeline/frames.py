"""A table's files as Spark reads and writes them. Everything here blocks, and is for a thread."""

import math
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.domain.dataset import Dataset
from nearcast.domain.schema import Column, Schema
from nearcast.pipeline.files import DATA, sync
from nearcast.pipeline.manifest import RECORDS, REJECTED, DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSION, AT, POSITION = "_version", "_at", "_position"
HIDDEN = (Column(VERSION, "BIGINT"), Column(AT, "TIMESTAMP"))
"""What every record has besides the dataset's columns."""

SIDE = Schema((Column("reason", "STRING"), Column("raw", "STRING"), Column("source", "STRING")))
"""The columns of a side table."""


def schema_of(dataset: Dataset, part: str = RECORDS) -> Schema:
    """Of the files, with hidden columns. Nothing is NOT NULL for Spark: what is null was refused before."""
    columns = (SIDE if part == REJECTED else dataset.schema).columns
    return Schema((*(Column(each.name, each.type) for each in columns), *HIDDEN))


def read(
    spark: "SparkSession", dataset: Dataset, folder: Path, files: Sequence[DataFile], part: str = RECORDS
) -> "DataFrame":
    """Every record of these files."""
    schema = schema_of(dataset, part)
    if not files:
        return spark.range(0).selectExpr(*(f"CAST(NULL AS {each.type}) AS {each.name}" for each in schema.columns))
    paths = [str(folder / each.path) for each in files]
    return spark.read.format(dataset.format).schema(str(schema)).load(paths)


def latest(
    spark: "SparkSession", dataset: Dataset, folder: Path, files: Sequence[DataFile], version: int
) -> "DataFrame":
    """What a dataset holds at `version`, from files that have it; of a keyed one the latest record of each key."""
    if dataset.key is None:
        return _until(read(spark, dataset, folder, files), files, version)
    base = [each for each in files if each.base]
    deltas = [each for each in files if not each.base]
    if not deltas:
        return read(spark, dataset, folder, base)
    new = _until(read(spark, dataset, folder, deltas), deltas, version)
    newest = _last_per_key(new, dataset.key, VERSION)
    if not base:
        return newest
    # The base has one record per key already: only what is new has to be sorted out.
    old = read(spark, dataset, folder, base).join(new.select(dataset.key), dataset.key, "left_anti")
    return old.select(newest.columns).unionAll(newest)


def write(
    dataset: Dataset, folder: Path, frame: "DataFrame", version: int, at_s: float, *, part: str = RECORDS
) -> tuple[DataFile, ...]:
    """The records of one version, as files that nobody knows yet, safely on disk. Empty ones are not kept."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # an extra; its usual name

    if part == RECORDS and dataset.key is not None:
        key = dataset.key
        if POSITION not in frame.columns:
            frame = frame.withColumn(POSITION, F.monotonically_increasing_id())
        null = F.raise_error(F.lit(f"dataset {dataset.name}: a record has no {key}, which is the key"))
        frame = _last_per_key(frame, key, POSITION).withColumn(key, F.coalesce(F.col(key), null))
    columns = (SIDE if part == REJECTED else dataset.schema).columns
    stamped = frame.select(
        *(F.col(each.name).cast(each.type.lower()).alias(each.name) for each in columns),
        F.lit(version).cast("bigint").alias(VERSION),
        F.lit(datetime.fromtimestamp(at_s, tz=UTC)).alias(AT),
    )
    paths = _written(dataset, folder, stamped, version)
    return tuple(DataFile(path, version, version, rows, size, at_s, part) for path, rows, size in paths)


def write_rows(
    dataset: Dataset, folder: Path, rows: Sequence[Sequence[Any]], version: int, at_s: float
) -> tuple[DataFile, ...]:
    """A few records that this process has, as one file, without a job of Spark's; of a keyed dataset one per key.

    Parquet only, which is what tables of our own are.
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
    from pyarrow import parquet  # noqa: PLC0415
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    at = datetime.fromtimestamp(at_s, tz=UTC)
    struct = StructType.fromDDL(str(schema_of(dataset)))
    assert isinstance(struct, StructType)
    schema = to_arrow_schema(struct, timezone="UTC")
    columns = zip(*((*row, version, at) for row in rows), strict=True)
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)]
    into = folder / DATA / f"{version:010d}-{secrets.token_hex(6)}"
    into.mkdir(parents=True)
    path = into / "part-0.parquet"
    parquet.write_table(pa.table(arrays, schema=schema), path)
    sync(into)
    sync(into.parent)
    name, size = str(path.relative_to(folder)), path.stat().st_size
    return (DataFile(name, version, version, len(rows), size, at_s),)


def rewrite(
    dataset: Dataset, folder: Path, frame: "DataFrame", old: Sequence[DataFile], target_bytes: int, *, base: bool
) -> tuple[DataFile, ...]:
    """The records of `frame`, which are those of the files `old` or some of them, in fewer files."""
    first, last = min(each.first for each in old), max(each.last for each in old)
    at_s, part = max(each.at_s for each in old), old[0].part
    wanted = math.ceil(sum(each.size_bytes for each in old) / target_bytes)
    if base:  # large as a rule: every core takes its part
        wanted = max(wanted, frame.sparkSession.sparkContext.defaultParallelism)
    paths = _written(dataset, folder, frame.coalesce(wanted), last)
    return tuple(DataFile(path, first, last, rows, size, at_s, part, base) for path, rows, size in paths)


def _until(frame: "DataFrame", files: Sequence[DataFile], version: int) -> "DataFrame":
    later = any(each.last > version for each in files)
    return frame.where(f"{VERSION} <= {version}") if later else frame


def _last_per_key(frame: "DataFrame", key: str, order: str) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    record = F.struct(*(F.col(name) for name in frame.columns))
    return frame.groupBy(F.col(key).alias("_key")).agg(F.max_by(record, F.col(order)).alias("_last")).select("_last.*")


def _written(dataset: Dataset, folder: Path, frame: "DataFrame", version: int) -> list[tuple[str, int, int]]:
    """(path, rows, bytes) of each file."""
    into = folder / DATA / f"{version:010d}-{secrets.token_hex(6)}"
    frame.write.format(dataset.format).mode("error").save(str(into))
    found: list[tuple[str, int, int]] = []
    for path in sorted(into.iterdir()):
        rows = 0 if path.name.startswith(("_", ".")) else _rows(dataset.format, path)
        if rows:
            found.append((str(path.relative_to(folder)), rows, path.stat().st_size))
        else:
            path.unlink()
    sync(into)
    sync(into.parent)
    return found


def _rows(kind: str, path: Path) -> int:
    """From the file's own count, without its records."""
    if kind == "orc":
        from pyarrow import orc  # noqa: PLC0415  # an extra

        return int(orc.ORCFile(path).nrows)
    from pyarrow import parquet  # noqa: PLC0415

    return int(parquet.read_metadata(path).num_rows)
