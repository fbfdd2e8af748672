"""What executions found, as files: written by Spark, read for one subscription without it.

    FOLDER/0000000012-5f0c.../data/part-....parquet     rows, sorted by `__key`
    FOLDER/0000000012-5f0c.../index.parquet             of each key: its file, its rows there, the execution before

An execution that no progress names does not exist for anybody.
"""

import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from nearcast.domain.channel import Notification, SubscriptionKey
from nearcast.domain.errors import PipelineError
from nearcast.domain.execution import Execution
from nearcast.pipeline.files import remove_folder, sync
from nearcast.pipeline.sql import KEY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DATA, _INDEX = "data", "index.parquet"
_FEW = "part-0.parquet"
_ROW_GROUP_BYTES = 1 << 20  # what is read for one key at least
_INDEXES = 16


@dataclass(frozen=True, slots=True)
class Written:
    path: str
    rows: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    file: str
    first: int
    rows: int
    previous: int | None


def write_results(folder: Path, number: int, answers: "DataFrame", last: Mapping[str, int]) -> Written:
    """By Spark, all on disk when this returns. `last`: the newest execution before this one that had rows, by key."""
    path = _place(folder, number)
    answers.write.option("parquet.block.size", _ROW_GROUP_BYTES).parquet(str(path / _DATA))
    files = sorted((path / _DATA).glob("*.parquet"))
    return _indexed(path, {each.name: pq.read_table(each, columns=[KEY]).column(KEY) for each in files}, last)


def write_few(folder: Path, number: int, answers: pa.Table, last: Mapping[str, int]) -> Written:
    """As `write_results`, of what this process has, sorted by key."""
    if not len(answers):
        return Written("", 0, ())
    path = _place(folder, number)
    (path / _DATA).mkdir(parents=True)
    rows = max(1, len(answers) * _ROW_GROUP_BYTES // max(1, answers.nbytes))
    pq.write_table(answers, path / _DATA / _FEW, row_group_size=rows)
    return _indexed(path, {_FEW: answers.column(KEY)}, last)


def _place(folder: Path, number: int) -> Path:
    return folder / f"{number:010d}-{secrets.token_hex(6)}"


def _indexed(path: Path, found: Mapping[str, pa.ChunkedArray], last: Mapping[str, int]) -> Written:
    """`found`: the keys of each file's rows."""
    files: list[str] = []
    firsts: list[int] = []
    rows: list[int] = []
    keys: list[str] = []
    for name, chunks in found.items():
        column = chunks.combine_chunks()
        if len(column) == 0:
            continue
        runs = pc.run_end_encode(column)
        ends = [0, *runs.run_ends.to_pylist()]
        keys += runs.values.to_pylist()
        files += [name] * len(runs.values)
        firsts += ends[:-1]
        rows += [end - start for start, end in pairwise(ends)]
    if not keys:
        return Written("", 0, ())
    previous = pa.array([last.get(key) for key in keys], pa.int64())
    columns = {"key": keys, "file": files, "first": firsts, "rows": rows, "previous": previous}
    pq.write_table(pa.table(columns), path / _INDEX)
    sync(path / _DATA)
    sync(path)
    return Written(path.name, sum(rows), tuple(keys))


def write_last(folder: Path, name: str, last: Mapping[str, int]) -> None:
    """The newest execution with rows, by key."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"key": list(last), "last": list(last.values())}), folder / name)


def read_last(folder: Path, name: str) -> dict[str, int]:
    table = pq.read_table(folder / name)
    return dict(zip(table.column("key").to_pylist(), table.column("last").to_pylist(), strict=True))


def remove_results(folder: Path, named: Collection[str], last: int) -> None:
    """Those of executions up to `last` that are not among `named`."""
    for path in folder.glob("*-*"):
        number = path.name.partition("-")[0]
        if path.is_dir() and number.isdigit() and int(number) <= last and path.name not in named:
            remove_folder(path)


class Results:
    """Of one channel. Everything here blocks for a moment: files are read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index = lru_cache(_INDEXES)(self._read_index)

    def keys(self, execution: Execution) -> dict[SubscriptionKey, int]:
        """Those that have rows, and how many."""
        if not execution.path:
            return {}
        return {SubscriptionKey(key): place.rows for key, place in self._index(execution.path).items()}

    def previous(self, execution: Execution, key: SubscriptionKey) -> int | None:
        """The execution before this one that had rows for the key. KeyError without rows in this one."""
        return self._index(execution.path)[key].previous

    def notifications(self, execution: Execution, keys: Iterable[SubscriptionKey]) -> Iterator[Notification]:
        """For those of `keys` that have rows, by file and place there, so that each part is read once."""
        if not execution.path:
            return
        index = self._index(execution.path)
        wanted = sorted(((index[key], key) for key in set(keys) if key in index), key=lambda each: _where(each[0]))
        reader: _Rows | None = None
        for place, key in wanted:
            if reader is None or reader.name != place.file:
                reader = _Rows(self._folder / execution.path / _DATA / place.file)
            yield Notification(key, execution.number, place.previous, reader.rows(place.first, place.rows))

    def notification(self, execution: Execution, key: SubscriptionKey) -> Notification | None:
        return next(self.notifications(execution, [key]), None)

    def update_last(self, execution: Execution, last: MutableMapping[str, int]) -> None:
        """`last` as it is after this execution."""
        last.update(dict.fromkeys(self._index(execution.path) if execution.path else (), execution.number))

    def _read_index(self, path: str) -> dict[str, _Place]:
        try:
            table = pq.read_table(self._folder / path / _INDEX)
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{self._folder / path / _INDEX}: cannot be read: {error}") from error
        columns = [table.column(name).to_pylist() for name in ("key", "file", "first", "rows", "previous")]
        return {key: _Place(*place) for key, *place in zip(*columns, strict=True)}


def _where(place: _Place) -> tuple[str, int]:
    return place.file, place.first


class _Rows:
    """One file, with the row groups that were read last."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        try:
            self._file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{path}: cannot be read: {error}") from error
        meta = self._file.metadata
        self._starts = [0, *accumulate(meta.row_group(i).num_rows for i in range(meta.num_row_groups))]
        self._read: tuple[tuple[int, ...], pa.Table] | None = None

    def rows(self, first: int, count: int) -> tuple[dict[str, object], ...]:
        end = first + count
        pairs = enumerate(pairwise(self._starts))
        groups = tuple(number for number, (start, stop) in pairs if start < end and stop > first)
        if self._read is None or self._read[0] != groups:
            self._read = groups, self._file.read_row_groups(list(groups)).drop_columns([KEY])
        return tuple(self._read[1].slice(first - self._starts[groups[0]], count).to_pylist())
