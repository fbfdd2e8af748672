"""REL-6: RELOC far beyond the paper: 100,000 clients, 10,000 topics and 1,000 servers, and relations mined from 100
million rows of telemetry.

The field is as wide as has the paper's servers per area, with limits in proportion to topics per server. Homes are
given in memory: relations, every K that is tried, the delays of each. Beside it telemetry of the same clients is
written to Parquet, mined on Spark (pattern, factors, strongest relations), and homes are given by what was mined. On
the small field of the paper both ways are compared, from the same factors and from Spark's own. Memory is the most that
this process and Spark's had at once, added up.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.errors import ConfigError
from nearcast.domain.places import Ints
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.workloads.field import Field, drawn_area
from nearcast.pipeline.session import LOCAL, is_remote
from nearcast.policies.relations import factors_of, relations_of, strongest
from nearcast.policies.reloc import best_allocated
from nearcast.policies.settings import Allocation
from nearcast.predict.homed import delay_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SIDE_KM = 25.0 * (1000 / 16) ** 0.5
_LARGE = Field(10_000, 1_000, storage=2_500.0, compute=12_500.0, most_members=32, side_km=_SIDE_KM)
_QUICK = replace(_LARGE, topics=300, servers=36, side_km=_SIDE_KM / 5)
_ROWS, _QUICK_ROWS = 100_000_000, 200_000
_GB = 1e9
_KB = 1024
_HEAP = "6g"  # of Spark

CLIENTS = Expectation("REL-6", "clients that homes were given to", ">= 100000")
SECONDS = Expectation("REL-6", "seconds for relations, homes and K, in memory", "<= 600")
MEMORY = Expectation("REL-6", "GB of memory, this process and Spark's", "<= 16")
MINED = Expectation("REL-6", "rows of telemetry that relations were mined from", ">= 100000000")
MINED_SECONDS = Expectation("REL-6", "seconds for mining them on Spark", "<= 600")
SAME = Expectation(
    "REL-6", "clients with another home by Spark's relations from the same factors (small field)", "== 0"
)
NEAR = Expectation(
    "REL-6", "Y by relations that Spark mined by itself, over Y in memory (small field)", ">= 0.99 and <= 1.01"
)


class _Timed:
    """Steps with the time they took, on the clock and on this process's cores."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total = progress, total
        self.rows: list[tuple[str, float, float]] = []

    def run(self, name: str, step: Callable[[], T]) -> T:
        self._progress(len(self.rows), self._total, name)
        begun_s, busy_s = time.perf_counter(), time.process_time()
        found = step()
        self.rows.append((name, round(time.perf_counter() - begun_s, 2), round(time.process_time() - busy_s, 2)))
        return found

    def seconds(self, *names: str) -> float:
        return round(sum(clock_s for name, clock_s, _ in self.rows if name in names), 2)


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    from nearcast.pipeline.session import session  # noqa: PLC0415  # an extra, and slow to import

    if is_remote(settings.spark or LOCAL):
        raise ConfigError(f"--master {settings.spark}: relations are made of distributed matrices, which sc:// lacks")
    field, rows = (_QUICK, _QUICK_ROWS) if settings.quick else (_LARGE, _ROWS)
    timed, allocation = _Timed(progress, 8), Allocation()
    area = timed.run("drawing the field", lambda: drawn_area(field, settings.seed))
    related = timed.run("relations", lambda: relations_of(area, allocation.relations, allocation.factors))
    home, clusters = timed.run("homes", lambda: best_allocated(area, allocation, related))
    y_s = delay_of(area, home).y_s
    nearest_s = delay_of(area, _nearest(area)).y_s
    with session("nearcast lab", settings.spark or LOCAL, {"spark.driver.memory": _HEAP}) as spark:
        small = drawn_area(Field(), settings.seed)
        same, near = timed.run("both ways on a small field", lambda: _compared(spark, small))
        with TemporaryDirectory() as folder:
            count, mined = _mined(spark, timed, area, rows, Path(folder))
        java: Any = spark.sparkContext._gateway  # noqa: SLF001  # there is no other way to its process
        spark_gb = _peak_gb(java.proc.pid)
    by_mined = timed.run(
        "homes by what was mined", lambda: best_allocated(area, replace(allocation, clusters=clusters), mined)
    )
    memory_gb = _peak_gb() + spark_gb
    claims = (
        SECONDS.judge(timed.seconds("relations", "homes")),
        MEMORY.judge(round(memory_gb, 2)),
        MINED_SECONDS.judge(timed.seconds("the pattern", "factors", "strongest relations")),
        SAME.judge(same),
        NEAR.judge(near),
        *(() if settings.quick else (CLIENTS.judge(len(area.clients)), MINED.judge(count))),
    )
    metrics: dict[str, Metric] = {
        "clients": len(area.clients),
        "topics": len(area.spool),
        "servers": len(area.servers),
        "memberships": len(area.topic),
        "clusters": clusters,
        "y_ms": round(1e3 * y_s, 4),
        "y_ms_by_what_was_mined": round(1e3 * delay_of(area, by_mined[0]).y_s, 4),
        "y_ms_of_nearest_servers": round(1e3 * nearest_s, 4),
        "telemetry_rows": count,
        "gb_here": round(_peak_gb(), 2),
        "gb_spark": round(spark_gb, 2),
    }
    return Outcome(claims, metrics, {"steps": Table(("step", "seconds", "core_seconds_here"), tuple(timed.rows))})


def _nearest(area: Area) -> Ints:
    return np.asarray(area.at.to(area.servers).argmin(axis=1))


def _mined(spark: "SparkSession", timed: _Timed, area: Area, rows: int, folder: Path) -> tuple[int, Ints]:
    from nearcast.pipeline.relations import factors_on, numbered, pattern_of, strongest_on, telemetry_of  # noqa: PLC0415

    allocation = Allocation()
    file = str(folder / "telemetry")
    timed.run("writing telemetry", lambda: telemetry_of(spark, area, rows).write.parquet(file))
    telemetry = spark.read.parquet(file)
    count = telemetry.count()
    pattern = pattern_of(telemetry).cache()
    numbers = timed.run("the pattern", lambda: numbered(pattern))
    factors = timed.run("factors", lambda: factors_on(numbers, allocation.factors))
    return count, timed.run("strongest relations", lambda: strongest_on(spark, numbers, factors, allocation.relations))


def _compared(spark: "SparkSession", area: Area) -> tuple[int, float]:
    """How many homes differ from the same factors, and Y by Spark's own over Y here."""
    from nearcast.pipeline.relations import factors_on, numbered, pattern_of, strongest_on, telemetry_of  # noqa: PLC0415

    allocation = Allocation(clusters=4)
    most = allocation.relations
    numbers = numbered(pattern_of(telemetry_of(spark, area, 10 * len(area.topic))).cache())
    here = factors_of(area, allocation.factors)
    home = best_allocated(area, allocation, strongest(area, here, most))[0]
    there = best_allocated(area, allocation, strongest_on(spark, numbers, here, most))[0]
    own = strongest_on(spark, numbers, factors_on(numbers, allocation.factors), most)
    own_home = best_allocated(area, allocation, own)[0]
    return int((home != there).sum()), round(delay_of(area, own_home).y_s / delay_of(area, home).y_s, 6)


def _peak_gb(pid: int | None = None) -> float:
    """The most memory that a process had at once, as the kernel counts it."""
    text = Path(f"/proc/{pid or 'self'}/status").read_text(encoding="ascii", errors="replace")
    (line,) = [line for line in text.splitlines() if line.startswith("VmHWM:")]
    return float(line.split()[1]) * _KB / _GB


EXPERIMENT = Experiment(
    name="reloc.scale",
    paper="ours, for RELOC",
    summary="100,000 clients, 10,000 topics, 1,000 servers, and relations from 100 million rows of telemetry on Spark",
    expectations=(CLIENTS, SECONDS, MEMORY, MINED, MINED_SECONDS, SAME, NEAR),
    modes=("flow",),
    measure=measure,
    options=("spark",),
)
