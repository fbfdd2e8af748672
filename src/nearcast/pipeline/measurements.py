"""Rows that latency models are learned from: a run is a set of topics at one broker, and has a row for each of them.

Runs on real servers (`collected`), at the simulated broker (`simulated`) and from what a fleet leaves behind
(`telemetry`) have one schema. Whether a run is learned from or judges what was learned is said in its rows, so it is
settled before anything is trained; a simulated run never judges. A folder of rows grows by whole files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]  # untyped
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from nearcast.domain.errors import ModelError
from nearcast.pipeline.latency_fit import Sets

COLLECTED, SIMULATED, TELEMETRY = "collected", "simulated", "telemetry"
SOURCES = (COLLECTED, SIMULATED, TELEMETRY)
TRAIN, VALIDATE, DISCARDED = "train", "validate", "discarded"
PARTS = (TRAIN, VALIDATE, DISCARDED)

SCHEMA: Any = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("topics", pa.int32(), nullable=False),
        pa.field("topic", pa.int32(), nullable=False),
        pa.field("interval_ms", pa.float64(), nullable=False),
        pa.field("rate_hz", pa.float64(), nullable=False),
        pa.field("p50_ms", pa.float64()),
        pa.field("p90_ms", pa.float64(), nullable=False),
        pa.field("p99_ms", pa.float64()),
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("lag_ms", pa.float64(), nullable=False),
        pa.field("stolen", pa.float64(), nullable=False),
        pa.field("lasting_s", pa.float64(), nullable=False),
        pa.field("cores", pa.int32(), nullable=False),
    ]
)
"""`topics`: how many the run has; `topic`: which of them this is. `lag_ms`: how far behind its schedule the load
generator was; `stolen`: the part of the time in which the machine's host had a processor that was wanted.
`lasting_s`: how long load lasted, `cores` how many the broker had. Telemetry has no `p50_ms` and no
`p99_ms`."""

_POSITIVE = ("interval_ms", "rate_hz", "p90_ms", "lasting_s")


@dataclass(frozen=True, slots=True)
class Run:
    """The topics of one run, in order: interval and rate of each, and the latencies (ms) of its messages."""

    name: str
    source: str
    part: str
    interval_ms: tuple[float, ...]
    rate_hz: tuple[float, ...]
    late_ms: tuple[Sequence[float], ...]
    lasting_s: float
    cores: int = 1
    lag_ms: float = 0.0
    stolen: float = 0.0

    def rows(self) -> Iterator[dict[str, object]]:
        for topic, (interval_ms, rate_hz, late_ms) in enumerate(
            zip(self.interval_ms, self.rate_hz, self.late_ms, strict=True)
        ):
            p50_ms, p90_ms, p99_ms = np.percentile(late_ms, (50, 90, 99)).tolist()
            yield {
                "run": self.name,
                "source": self.source,
                "part": self.part,
                "topics": len(self.rate_hz),
                "topic": topic,
                "interval_ms": interval_ms,
                "rate_hz": rate_hz,
                "p50_ms": p50_ms,
                "p90_ms": p90_ms,
                "p99_ms": p99_ms,
                "messages": len(late_ms),
                "lag_ms": self.lag_ms,
                "stolen": self.stolen,
                "lasting_s": self.lasting_s,
                "cores": self.cores,
            }


def append(folder: Path, runs: Iterable[Run]) -> int:
    """One more file in the folder, there as a whole or not at all. Returns how many rows it has."""
    rows = [row for run in runs for row in run.rows()]
    if not rows:
        return 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.parquet")))
        while (file := folder / f"rows-{number:05}.parquet").exists():
            number += 1
        partial = file.with_suffix(".partial")
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), partial)
        partial.rename(file)
    except OSError as error:
        raise ModelError(f"{folder}: rows cannot be written there: {error}") from error
    return len(rows)


class Rows:
    """What files or folders hold, of runs that are whole. Discarded runs are counted and no more."""

    def __init__(self, paths: Iterable[Path]) -> None:
        found = [_read(file) for path in paths for file in _files(path)]
        if not found:
            raise ModelError("no rows: name a Parquet file, or a folder that `nearcast model collect` has filled")
        table = pa.concat_tables(found)
        self.discarded = _runs(table.filter(pc.equal(table["part"], DISCARDED)))
        self._table = table.filter(pc.not_equal(table["part"], DISCARDED))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def runs(self) -> dict[str, int]:
        """How many, by where they are from."""
        counts = {each: _runs(self._table.filter(pc.equal(self._table["source"], each))) for each in SOURCES}
        return {each: count for each, count in counts.items() if count}

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._table["run"].unique().to_pylist())

    @property
    def lasting_s(self) -> float:
        """How long load lasted, typically; what falls behind is as late as that lets it."""
        return float(np.median(self._table["lasting_s"].to_numpy()))

    @property
    def cores(self) -> int:
        found = sorted(self._table["cores"].unique().to_pylist())
        if len(found) > 1:
            raise ModelError(
                f"rows of brokers with {', '.join(map(str, found))} cores: a model is of one kind of broker"
            )
        return int(found[0])

    def sets(self, part: str, sources: Sequence[str] = SOURCES) -> dict[int, Sets]:
        """By the number of topics; runs in the order of their names."""
        mask = pc.and_(pc.equal(self._table["part"], part), pc.is_in(self._table["source"], pa.array(list(sources))))
        table = self._table.filter(mask).sort_by([("run", "ascending"), ("topic", "ascending")])
        topics = table["topics"].to_numpy()
        columns = [table[name].to_numpy() for name in ("interval_ms", "rate_hz", "p90_ms")]
        return {
            int(count): Sets(*(np.array(each[topics == count]).reshape(-1, count) for each in columns))
            for count in np.unique(topics).tolist()
        }

    def digest(self, part: str) -> str:
        """Of the names of a part's runs: who judges by the same ones can tell."""
        names = self._table.filter(pc.equal(self._table["part"], part))["run"].unique().to_pylist()
        return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def _runs(table: Any) -> int:
    return int(pc.count_distinct(table["run"]).as_py())


def _read(file: Path) -> Any:
    try:
        table = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise ModelError(f"{file}: cannot be read as Parquet: {error}") from error
    missing = [name for name in SCHEMA.names if name not in table.column_names]
    if missing:
        raise ModelError(f"{file}: no column {missing[0]!r}; rows have {', '.join(SCHEMA.names)}")
    try:
        table = pa.table({each.name: table[each.name].cast(each.type) for each in SCHEMA})
    except (ValueError, pa.ArrowException) as error:
        raise ModelError(f"{file}: a column is not of its type: {error}") from error
    if fault := _fault(table):
        raise ModelError(f"{file}: {fault}")
    return table


def _fault(table: Any) -> str | None:
    """Why these are no rows to learn from, or None."""
    for field in SCHEMA:
        if not field.nullable and table[field.name].null_count:
            return f"column {field.name!r} has rows without a value"
    for name in _POSITIVE:
        values = table[name].to_numpy()
        if not np.all(np.isfinite(values) & (values > 0.0)):
            return f"column {name!r} has values that are not more than 0"
    for name, known in (("source", SOURCES), ("part", PARTS)):
        other = set(table[name].unique().to_pylist()) - set(known)
        if other:
            return f"column {name!r} has {min(other)!r}; one of {', '.join(known)}"
    judging = pc.and_(pc.equal(table["source"], SIMULATED), pc.equal(table["part"], VALIDATE))
    if pc.any(judging).as_py():
        return "simulated runs are marked to validate: they may only train"
    shape = [("topics", "max"), ("topics", "min"), ("topic", "count_distinct"), ([], "count_all")]
    counts = table.group_by("run").aggregate(shape)
    columns = (counts[name].to_numpy() for name in ("topics_max", "topics_min", "topic_count_distinct", "count_all"))
    most, least, distinct, rows = columns
    broken = np.flatnonzero((most != least) | (most != distinct) | (most != rows))
    if len(broken):
        return f"run {counts['run'][int(broken[0])].as_py()!r} does not have one row for each of its topics"
    return None
