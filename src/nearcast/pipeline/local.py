"""Tables of few records: read, sorted out and written by this process, without a job of Spark's.

A job over a few hundred records costs Spark a second of processor time, nearly all of it for planning, listing files
and code that is made anew because a version's number is part of it. What fits here is read with pyarrow; Spark is given
the records themselves where it has to join them. Everything here blocks, and is for a thread.
"""

import secrets
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from nearcast.domain.errors import PipelineError
from nearcast.pipeline.files import DATA, sync
from nearcast.pipeline.manifest import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_ROWS = 50_000
_MOST_BYTES = 8 << 20
_MOST_FILES = 256
_REWRITTEN = 32  # times as many are still few for who writes them again, and hands them to nobody: see ADR 28
_GROUP_ROWS = 1 << 17  # so that Spark's tasks can share a file
_ORDER = "_order"


def fits(kind: str, files: Sequence[DataFile], *, rewritten: bool = False) -> bool:
    """Whether these files, of the format `kind`, are few records."""
    rows, size = sum(each.rows for each in files), sum(each.size_bytes for each in files)
    times = _REWRITTEN if rewritten else 1
    return (
        kind == "parquet" and rows <= times * _MOST_ROWS and size <= times * _MOST_BYTES and len(files) <= _MOST_FILES
    )


def read(folder: Path, files: Sequence[DataFile], schema: str) -> pa.Table:
    """Every record of these files, in their order. Raises PipelineError."""
    wanted = arrow_schema(schema)
    tables = [_read(folder / each.path).select(wanted.names).cast(wanted) for each in files]
    return pa.concat_tables(tables) if tables else wanted.empty_table()


def between(table: pa.Table, column: str, after: int, until: int) -> pa.Table:
    """Those with a number after the one and up to the other."""
    number = table.column(column)
    return table.filter(pc.and_(pc.greater(number, after), pc.less_equal(number, until)))


def last_per_key(table: pa.Table, key: str, order: str) -> pa.Table:
    """Of each key the record with the highest number, the last of those that share it."""
    places = pa.array(np.arange(len(table)))
    ordered = table.append_column(_ORDER, places).sort_by([(order, "ascending"), (_ORDER, "ascending")])
    numbered = ordered.set_column(len(ordered.schema) - 1, _ORDER, places)
    found = numbered.group_by(key).aggregate([(_ORDER, "max")]).column(f"{_ORDER}_max")
    return numbered.take(found.combine_chunks().sort()).drop_columns([_ORDER])


def frame(spark: "SparkSession", table: pa.Table, schema: str) -> "DataFrame":
    """As Spark sees it: records at hand, of which it knows the number."""
    from pyspark.sql.types import StructType  # noqa: PLC0415  # an extra

    kind = StructType.fromDDL(schema)
    assert isinstance(kind, StructType)
    return spark.createDataFrame(table, kind)


def write(folder: Path, table: pa.Table, version: int) -> list[tuple[str, int, int]]:
    """(path, rows, bytes) of the one file, safely on disk."""
    into = folder / DATA / f"{version:010d}-{secrets.token_hex(6)}"
    into.mkdir(parents=True)
    path = into / "part-0.parquet"
    pq.write_table(table, path, row_group_size=_GROUP_ROWS)
    sync(into)
    sync(into.parent)
    return [(str(path.relative_to(folder)), len(table), path.stat().st_size)]


@lru_cache(256)
def arrow_schema(schema: str) -> pa.Schema:
    """Of columns in Spark's notation."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  # an extra
    from pyspark.sql.types import StructType  # noqa: PLC0415

    struct = StructType.fromDDL(schema)
    assert isinstance(struct, StructType)
    return to_arrow_schema(struct, timezone="UTC")


def _read(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            return file.read()
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"{path}: cannot be read: {error}") from error
