"""The Spark side of an execution: what the channel's query reads, the one job for all subscriptions, and its answers.

Most executions are of few records and few subscriptions. Those are given to Spark as they are, and answered in one job
of one task whose code stays the same from one execution to the next, without plans that adapt to what is found on the
way. What is more is read, shuffled and written by Spark.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.domain.channel import Channel
from nearcast.domain.execution import Window
from nearcast.pipeline import answers, frames
from nearcast.pipeline.progress import PARAMETER
from nearcast.pipeline.results import Written, write_few, write_results
from nearcast.pipeline.session import beside, cores_of, is_end_of_spark, spread
from nearcast.pipeline.sql import KEY, PARAMETERS, Compiled
from nearcast.pipeline.sql_reading import BEFORE, MARKED, NEW, NOW
from nearcast.pipeline.tables import Snapshot
from nearcast.transport.clock import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_PAIRS = 500_000  # of a subscription and a record; each may be a row, and all rows of few are in this process
_PLAN_S = 60.0  # how old the plan may be that is told: to explain one, Spark makes it anew
_FEW = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.adaptive.enabled": "false",  # it plans anew after every step, and there is nothing to learn
}


@dataclass(frozen=True, slots=True)
class Read:
    """What one execution reads: pinned, and settled."""

    number: int
    at_s: float
    before_s: float
    windows: Mapping[str, Window]
    datasets: Mapping[str, Snapshot]
    subscriptions: Snapshot

    def is_few(self, views: frozenset[str]) -> bool:
        """Whether all that the query reads of these views is few, and the answers cannot be many for that."""
        new: list[int] = []
        for name, snapshot in self.datasets.items():
            view, after = name.lower(), self.windows[name].after
            if f"{NEW}{view}" in views:
                if not snapshot.is_few(after):
                    return False
                new.append(snapshot.rows(after))
            if {view, f"{MARKED}{view}"} & views and not snapshot.is_few():
                return False
        most = max(new or [snapshot.rows() for snapshot in self.datasets.values()], default=1)
        return self.subscriptions.is_few() and self.subscriptions.rows() * most <= _MOST_PAIRS


class Asker:
    """Of one channel. `answered` and `explain` block; `plan` is how Spark ran one of the last executions."""

    def __init__(self, spark: "SparkSession", channel: Channel, compiled: Compiled, folder: Path, clock: Clock) -> None:
        self.plan = ""
        self._planned_s: float | None = None
        self._asked: SparkSession | None = None  # the session that was asked last
        self._spark = spark
        self._parameters = channel.spec.parameters
        self._compiled = compiled
        self._folder = folder
        self._clock = clock
        self._sessions: dict[bool, SparkSession] = {}

    def answered(self, read: Read, last: Mapping[str, int]) -> Written:
        """The results are on disk. `last`: the newest execution before this one that had rows, by key."""
        if read.is_few(self._compiled.views):
            try:
                return write_few(self._folder, read.number, self._found(read, few=True).toArrow(), last)
            except Exception as error:  # too many rows after all, or a type unknown to Arrow
                if is_end_of_spark(error):
                    raise
                # Whatever it is: if it is the query's fault, it is told below.
        return write_results(self._folder, read.number, self._found(read, few=False), last)

    def _found(self, read: Read, *, few: bool) -> "DataFrame":
        """The answers to all, sorted by key; of few in one partition."""
        if few not in self._sessions:
            self._sessions[few] = channel_session(self._spark, few=few)
        session = self._sessions[few]
        for name, snapshot in read.datasets.items():
            self._show(session, snapshot, name.lower(), read.windows[name].after)
        columns = [f"{PARAMETER}{each.name} AS __{each.name}" for each in self._parameters]
        asked = read.subscriptions.frame(session).where("active").selectExpr(f"key AS {KEY}", *columns)
        asked.createOrReplaceTempView(PARAMETERS)
        times = {NOW: _time(read.at_s), BEFORE: _time(read.before_s)}
        partitions = 1 if few else max(2, cores_of(self._spark))
        found = answers.joined(session, self._compiled, times, asked, partitions)
        self._asked = session
        if self._planned_s is None:  # so that the first execution tells of it already
            self.explain()
        return found

    def explain(self) -> None:
        """Makes `plan` anew, now and then: of what was asked last, as long as that can be read."""
        now_s = self._clock.now()
        if self._asked is not None and (self._planned_s is None or now_s > self._planned_s + _PLAN_S):
            self._planned_s = now_s
            with suppress(Exception):  # it ran: that it cannot be told how is no failure of it
                self.plan = answers.plan(self._asked, self._compiled)

    def _show(self, session: "SparkSession", snapshot: Snapshot, name: str, after: int) -> None:
        """As those views that the query reads."""
        views, hidden = self._compiled.views, (frames.VERSION, frames.AT)
        if f"{NEW}{name}" in views:
            snapshot.added(session, after).drop(*hidden).createOrReplaceTempView(f"{NEW}{name}")
        if not {name, f"{MARKED}{name}"} & views:
            return
        everything = snapshot.frame(session)
        everything.drop(*hidden).createOrReplaceTempView(name)
        marked = everything.selectExpr("*", f"{frames.VERSION} > {after} AS __new")
        marked.drop(*hidden).createOrReplaceTempView(f"{MARKED}{name}")


def channel_session(spark: "SparkSession", *, few: bool = False) -> "SparkSession":
    """With views of its own, and as many partitions as this Spark can work on, unless it was told otherwise."""
    session = beside(spark)
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # which others read as UTC
    spread(spark, session)
    for key, value in _FEW.items() if few else ():
        session.conf.set(key, value)
    return session


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
