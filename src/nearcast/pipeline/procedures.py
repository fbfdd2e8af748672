"""Procedures at work: INSERT INTO ... SELECT, DELETE FROM ... WHERE, or a SELECT, over pinned versions of datasets.

A run has a number, and what it inserts is committed with it: one that was killed between its commit and its record is
not done twice.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from nearcast.domain.channel import Value
from nearcast.domain.errors import Conflict, StoreError
from nearcast.domain.execution import Schedule
from nearcast.domain.procedure import Procedure, Run, Verb
from nearcast.pipeline import answers, frames
from nearcast.pipeline.manifest import RECORDS
from nearcast.pipeline.pointer import put_surely
from nearcast.pipeline.runs import key_of, runs_of
from nearcast.pipeline.session import beside, is_end_of_spark
from nearcast.pipeline.sql import Compiler
from nearcast.pipeline.sql_tokens import tokens
from nearcast.pipeline.tables import Snapshot, Table, in_thread
from nearcast.store.store import Store
from nearcast.transport.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """`rows`: of a query, what it found, as far as it was asked for."""

    run: Run
    rows: tuple[dict[str, Any], ...] = ()


class ProcedureRunner:
    """One procedure in one process. `tables`: of the datasets that it reads and changes, by name."""

    def __init__(
        self,
        store: Store,
        procedure: Procedure,
        tables: Mapping[str, Table],
        *,
        spark: "SparkSession",
        clock: Clock | None = None,
    ) -> None:
        self.procedure = procedure
        self.store = store
        self._tables = dict(tables)
        self._spark = spark
        self._clock = clock or SystemClock()
        compiler = Compiler(procedure.query, procedure.parameters, list(tables))
        self._query = compiler.alone()

    async def run(self, values: Mapping[str, Value] | None = None, most: int = 1_000) -> Outcome:
        """Once. What goes wrong is in its run, and nothing has been changed then; of a query `most` rows are given."""
        runs, revision = await runs_of(self.store, self.procedure)
        began_s, at_s, number = self._clock.now(), self._clock.wall(), runs.next
        rows, error = 0, None
        found: tuple[dict[str, Any], ...] = ()
        try:
            rows, found = await self._done(number, values or {}, most)
        except (Conflict, StoreError):
            raise
        except Exception as raised:  # whatever Spark says: it is told, and others go on
            if is_end_of_spark(raised):
                raise
            error = answers.refusal(raised, self._query)
        run = Run(number, at_s, rows, round(self._clock.now() - began_s, 4), error)
        await put_surely(
            self.store, self._clock, key_of(self.procedure), msgspec.json.encode(runs.after(run)), revision
        )
        return Outcome(run, found)

    async def _done(
        self, number: int, values: Mapping[str, Value], most: int
    ) -> tuple[int, tuple[dict[str, Any], ...]]:
        async with AsyncExitStack() as pins:
            read = {name: await pins.enter_async_context(table.pinned()) for name, table in self._tables.items()}
            match self.procedure.verb:
                case Verb.QUERY:
                    found = await in_thread(self._found, read, values, most)
                    return len(found), found
                case Verb.INSERT:
                    return await self._insert(number, read, values), ()
                case Verb.DELETE:
                    return await self._delete(read, values), ()

    def _session(self, read: Mapping[str, Snapshot]) -> "SparkSession":
        session = beside(self._spark)
        for name, snapshot in read.items():
            snapshot.frame(session).drop(frames.VERSION, frames.AT).createOrReplaceTempView(name.lower())
        return session

    def _frame(self, read: Mapping[str, Snapshot], values: Mapping[str, Value]) -> "DataFrame":
        return self._session(read).sql(self._query.text, answers.literals(self.procedure.parameters, values))

    def _found(
        self, read: Mapping[str, Snapshot], values: Mapping[str, Value], most: int
    ) -> tuple[dict[str, Any], ...]:
        return tuple(row.asDict(recursive=True) for row in self._frame(read, values).limit(most).collect())

    async def _insert(self, number: int, read: Mapping[str, Snapshot], values: Mapping[str, Value]) -> int:
        table, source = self._target, self.procedure.id
        frame = await in_thread(self._frame, read, values)
        async with table.writing:
            while True:
                head = await table.head()
                if head.offsets.get(source) == str(number):
                    return 0  # it was killed before it could say so
                files = await table.write(head, frame)
                try:
                    await table.commit(head, files, {source: str(number)})
                except Conflict:
                    continue
                return sum(each.rows for each in files)

    async def _delete(self, read: Mapping[str, Snapshot], values: Mapping[str, Value]) -> int:
        """What is left of the files that were there, in other files, under the same version."""
        table = self._target
        assert self.procedure.target is not None
        snapshot = read[self.procedure.target]
        async with table.writing:
            old = tuple(each for each in snapshot.manifest.files if each.part == RECORDS)
            if not old:
                return 0
            kept, before = await in_thread(self._left, read, values)
            dataset, folder, keyed = table.dataset, table.folder, table.dataset.key is not None
            new = await in_thread(partial(frames.rewrite, dataset, folder, kept, old, _FILE_BYTES, base=keyed))
            gone = before - sum(each.rows for each in new)
            folded = snapshot.version if keyed else 0
            if gone and not await table.replace([each.path for each in old], new, folded=folded):
                raise Conflict(f"dataset {dataset.name}: its files were replaced meanwhile: run it again")
            return gone

    def _left(self, read: Mapping[str, Snapshot], values: Mapping[str, Value]) -> tuple["DataFrame", int]:
        """What stays, with its hidden columns, and how many records there are before."""
        assert self.procedure.target is not None
        text = self._query.text
        where = next(each for each in tokens(text) if each.is_word("WHERE"))
        left = f"{text[: where.stop]} NOT coalesce((\n{text[where.stop :].rstrip().rstrip(';')}\n), false)"
        session = self._session(read)
        everything = read[self.procedure.target].frame(session)
        everything.createOrReplaceTempView(self.procedure.target.lower())
        return session.sql(left, answers.literals(self.procedure.parameters, values)), everything.count()

    @property
    def _target(self) -> Table:
        assert self.procedure.target is not None
        return self._tables[self.procedure.target]


async def run_procedure(runner: ProcedureRunner, clock: Clock | None = None) -> None:
    """Every period, for ever."""
    clock, procedure = clock or SystemClock(), runner.procedure
    assert procedure.period_s is not None
    runs, _ = await runs_of(runner.store, procedure)
    last_s = runs.kept[-1].at_s if runs.kept else procedure.at_s
    schedule = Schedule(last_s + procedure.period_s, procedure.period_s)
    while True:
        await clock.sleep(max(0.0, schedule.due_s - clock.wall()))
        _, schedule = schedule.begun(clock.wall())
        await runner.run()
