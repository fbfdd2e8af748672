"""Files of a folder, or that match a pattern, each read once.

Files are moved into place when they are whole, as with Spark's own file source: what appears is read. Names that begin
with a dot or an underscore are left alone.
"""

import asyncio
import csv
import glob
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import PipelineError
from nearcast.pipeline import records
from nearcast.pipeline.frames import POSITION
from nearcast.pipeline.records import FAULT, RAW, SOURCE
from nearcast.pipeline.sources import Batch, Judged

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LOOK_S = 0.5
_MOST_FILES = 1_000
_MOST_BYTES = 1 << 30  # of one batch, unless its first file has more

_Read = Callable[[list[Path], "SparkSession", Dataset], "DataFrame"]


class FileSource:
    """`where`: a folder, a file, or a pattern. The offset is the names that were taken, of those that are there."""

    def __init__(self, where: str, kind: str, look_s: float = _LOOK_S) -> None:
        self._where = where
        self._read = _READERS[kind]
        self._look_s = look_s

    async def next(self, offset: str | None) -> Batch:
        taken = frozenset(msgspec.json.decode(offset, type=list[str]) if offset else ())
        while True:
            there = await asyncio.to_thread(_there, self._where)
            new = _some([path for path in there if str(path) not in taken])
            if new:
                now = sorted({*(str(path) for path in there if str(path) in taken), *map(str, new)})
                return Batch(partial(self._read, new), msgspec.json.encode(now).decode(), len(new))
            await asyncio.sleep(self._look_s)

    async def close(self) -> None:
        pass


def judged_files(where: str, kind: str) -> Judged:
    """All files that are there now. Raises PipelineError when there is none."""
    there = [path.absolute() for path in _there(where)]
    if not there:
        raise PipelineError(f"{where}: no file is there; expected a file, a folder of files, or a pattern")
    return partial(_READERS[kind], there)


def _there(where: str) -> list[Path]:
    path = Path(where)
    found = path.iterdir() if path.is_dir() else map(Path, glob.glob(where))  # noqa: PTH207  # absolute patterns too
    return sorted(each for each in found if each.is_file() and not each.name.startswith((".", "_")))


def _some(paths: list[Path]) -> list[Path]:
    size_bytes = 0
    for count, path in enumerate(paths):
        size_bytes += path.stat().st_size
        if count == _MOST_FILES or (count and size_bytes > _MOST_BYTES):
            return paths[:count]
    return paths


def _read_json(paths: list[Path], spark: "SparkSession", dataset: Dataset) -> "DataFrame":
    """A line each; empty ones are nobody's."""
    lines = spark.read.text([*map(str, paths)]).where("trim(value) != ''")
    return records.from_json(lines.select(_column("value", RAW), *_place()), dataset)


def _read_csv(paths: list[Path], spark: "SparkSession", dataset: Dataset) -> "DataFrame":
    """The first line of each file names its columns, in any order."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # an extra; its usual name

    out: list[DataFrame] = []
    for header, group in _grouped(paths, _header).items():
        if reason := _unusable(header, dataset):
            out.append(_refused(spark, group, dataset, reason))
            continue
        texts = ", ".join(f"{_quoted(name)} STRING" for name in header)
        read = spark.read.schema(f"{texts}, _corrupt STRING").option("columnNameOfCorruptRecord", "_corrupt")
        # A line is judged by all its fields, also where only some of them are columns.
        frame = read.option("header", "true").option("columnPruning", "false").csv([*map(str, group)])
        count = f"does not have the {len(header)} fields of the first line"
        fault = F.when(F.col("_corrupt").isNotNull(), F.lit(count))
        raw = F.coalesce(F.col("_corrupt"), F.to_csv(F.struct(*map(_quoted, header))))
        out.append(_judged(frame, header, fault, raw, dataset))
    return records.union(out)


def _read_parquet(paths: list[Path], spark: "SparkSession", dataset: Dataset) -> "DataFrame":
    from pyspark.errors import AnalysisException  # noqa: PLC0415  # an extra
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    out: list[DataFrame] = []
    for fields, group in _grouped(paths, _parquet_fields).items():
        names = tuple(field.partition("\0")[0] for field in fields)
        if reason := _unusable(names, dataset):
            out.append(_refused(spark, group, dataset, reason))
            continue
        frame = spark.read.parquet(*map(str, group))
        raw = F.to_json(F.struct(*map(_quoted, names)))
        try:
            out.append(_judged(frame, names, F.lit(None).cast("string"), raw, dataset))
        except AnalysisException as error:
            out.append(_refused(spark, group, dataset, f"the columns of the file do not fit: {error.getCondition()}"))
    return records.union(out)


def _judged(frame: "DataFrame", names: Sequence[str], fault: "Column", raw: "Column", dataset: Dataset) -> "DataFrame":
    wanted = {name.lower() for name in dataset.schema.names}
    columns = [_quoted(name) for name in names if name.lower() in wanted]
    return records.from_columns(frame.select(*columns, fault.alias(FAULT), raw.alias(RAW), *_place()), dataset)


_READERS: dict[str, _Read] = {"json": _read_json, "csv": _read_csv, "parquet": _read_parquet}


def _place() -> tuple["Column", "Column"]:
    """Which file a row is from, and what orders rows: files by name, then as they are written."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    path, start = F.col("_metadata.file_path"), F.col("_metadata.file_block_start")
    return path.alias(SOURCE), _order(path, start)


def _order(path: "Column", start: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    row = F.monotonically_increasing_id()
    return F.struct(path.alias("file"), start.alias("block"), row.alias("row")).alias(POSITION)


def _column(name: str, alias: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    return F.col(name).alias(alias)


def _refused(spark: "SparkSession", paths: Sequence[Path], dataset: Dataset, reason: str) -> "DataFrame":
    """Whole files: a row each in the side table."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    text, count = pa.string(), len(paths)
    where = pa.array([f"file:{path.absolute()}" for path in paths], text)
    columns = {FAULT: pa.array([reason] * count, text), RAW: pa.nulls(count, text), SOURCE: where}
    frame = spark.createDataFrame(pa.table(columns))
    return records.from_columns(frame.select("*", _order(F.col(SOURCE), F.lit(0).cast("bigint"))), dataset)


def _grouped(paths: list[Path], what: Callable[[Path], tuple[str, ...]]) -> dict[tuple[str, ...], list[Path]]:
    out: defaultdict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path in paths:
        out[what(path)].append(path)
    return out


def _header(path: Path) -> tuple[str, ...]:
    with path.open(newline="", encoding="utf-8", errors="replace") as lines:
        return tuple(name.strip() for name in next(csv.reader(lines), ()))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _parquet_fields(path: Path) -> tuple[str, ...]:
    from pyarrow import ArrowException, parquet  # noqa: PLC0415

    try:
        return tuple(f"{field.name}\0{field.type}" for field in parquet.read_schema(path))
    except (ArrowException, OSError):
        return ()


def _unusable(header: tuple[str, ...], dataset: Dataset) -> str | None:
    """Why a file with these columns is of no use."""
    names = [name.lower() for name in header]
    if not any(name.lower() in names for name in dataset.schema.names):
        return f"the file has none of the columns {', '.join(dataset.schema.names)}"
    if len(set(names)) != len(names):
        return "two columns of the file have the same name"
    if absent := [name for name in records.required(dataset) if name.lower() not in names]:
        return f"the file has no column {', '.join(absent)}"
    return None
