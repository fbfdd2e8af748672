"""A table's files as Spark reads and writes them. Everything here blocks, and is for a thread.

What has few records is read and written by this process (`local`): the same records, without a job of Spark's.
"""

import math
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nearcast.domain.dataset import Dataset
from nearcast.domain.schema import Column, Schema
from nearcast.pipeline import local
from nearcast.pipeline.files import DATA, sync
from nearcast.pipeline.manifest import RECORDS, REJECTED, DataFile
from nearcast.pipeline.session import cores_of

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame, SparkSession

PARQUET = "parquet"
VERSION, AT, POSITION = "_version", "_at", "_position"
HIDDEN = (Column(VERSION, "BIGINT"), Column(AT, "TIMESTAMP"))
"""What every record has besides the dataset's columns."""

SIDE = Schema((Column("reason", "STRING"), Column("raw", "STRING"), Column("source", "STRING")))
"""The columns of a side table."""

_LOOSE_KEYS = ("DOUBLE", "FLOAT")  # of which Spark takes some for the same that are not (-0.0)


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
    table = few_latest(dataset, folder, files, version)
    if table is not None:
        return local.frame(spark, table, str(schema_of(dataset)))
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


def few_latest(
    dataset: Dataset, folder: Path, files: Sequence[DataFile], version: int, *, rewritten: bool = False
) -> "pa.Table | None":
    """The same as records at hand, if they are few, or are to be `rewritten` and not too many; else None."""
    if not are_few(dataset, files, rewritten=rewritten):
        return None
    table = local.between(local.read(folder, files, str(schema_of(dataset))), VERSION, -1, version)
    return table if dataset.key is None else local.last_per_key(table, dataset.key, VERSION)


def added(  # noqa: PLR0917  # of what, and which of it
    spark: "SparkSession", dataset: Dataset, folder: Path, files: Sequence[DataFile], after: int, until: int
) -> "DataFrame":
    """Of a dataset without keys: what came with versions after the one up to the other, from files that have it."""
    if are_few(dataset, files):
        schema = str(schema_of(dataset))
        return local.frame(spark, local.between(local.read(folder, files, schema), VERSION, after, until), schema)
    return read(spark, dataset, folder, files).where(f"{VERSION} > {after} AND {VERSION} <= {until}")


def are_few(dataset: Dataset, files: Sequence[DataFile], *, rewritten: bool = False) -> bool:
    """Whether they are read by this process."""
    key = None if dataset.key is None else dataset.schema.column(dataset.key)
    return local.fits(dataset.format, files, rewritten=rewritten) and (key is None or key.type not in _LOOSE_KEYS)


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
    """Records that this process has, as one file, without a job of Spark's; of a keyed dataset the last of each key.

    Parquet only. Raises ArrowInvalid or OverflowError for a value that its column cannot have.
    """
    import pyarrow as pa  # noqa: PLC0415  # an extra

    if dataset.key is not None:
        place = [name.lower() for name in dataset.schema.names].index(dataset.key.lower())
        rows = list({row[place]: row for row in rows}.values())
    if not rows:
        return ()
    schema = local.arrow_schema(str(schema_of(dataset)))
    arrays = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=False)]
    arrays.append(pa.repeat(pa.scalar(version, schema.field(VERSION).type), len(rows)))
    arrays.append(pa.repeat(pa.scalar(datetime.fromtimestamp(at_s, tz=UTC), schema.field(AT).type), len(rows)))
    paths = local.write(folder, pa.table(arrays, schema=schema), version)
    return tuple(DataFile(path, version, version, count, size, at_s) for path, count, size in paths)


def rewrite_few(dataset: Dataset, folder: Path, old: Sequence[DataFile], *, base: bool) -> tuple[DataFile, ...] | None:
    """As `rewrite`, of all their records, or as a `base` the latest of each key; None if they are not few."""
    last, part = max(each.last for each in old), old[0].part
    if base:
        table = few_latest(dataset, folder, old, last, rewritten=True)
    elif local.fits(dataset.format, old, rewritten=True):
        table = local.read(folder, old, str(schema_of(dataset, part)))
    else:
        table = None
    if table is None:
        return None
    return _replacing(old, local.write(folder, table, last) if len(table) else [], base=base)


def rewrite(
    dataset: Dataset, folder: Path, frame: "DataFrame", old: Sequence[DataFile], target_bytes: int, *, base: bool
) -> tuple[DataFile, ...]:
    """The records of `frame`, which are those of the files `old` or some of them, in fewer files."""
    last = max(each.last for each in old)
    wanted = math.ceil(sum(each.size_bytes for each in old) / target_bytes)
    if base:  # large as a rule: every core takes its part
        wanted = max(wanted, cores_of(frame.sparkSession))
    return _replacing(old, _written(dataset, folder, frame.coalesce(wanted), last), base=base)


def _replacing(old: Sequence[DataFile], paths: Sequence[tuple[str, int, int]], *, base: bool) -> tuple[DataFile, ...]:
    first, last = min(each.first for each in old), max(each.last for each in old)
    at_s, part = max(each.at_s for each in old), old[0].part
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
