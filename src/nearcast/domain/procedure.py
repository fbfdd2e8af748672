"""Procedures: one statement over datasets, run once or again and again, for nobody in particular."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from nearcast.domain.channel import Parameter

_RUNS = 32


class Verb(enum.StrEnum):
    INSERT = "insert"
    DELETE = "delete"
    QUERY = "query"


@dataclass(frozen=True, slots=True)
class Procedure:
    """`query`: the SELECT of it, with the text's own lines and columns: what is inserted, deleted or asked for.

    `target`: the dataset that it changes. `period_s` None: it runs when somebody says so.
    """

    id: str
    name: str
    text: str
    verb: Verb
    query: str
    target: str | None = None
    parameters: tuple[Parameter, ...] = ()
    datasets: tuple[str, ...] = ()
    period_s: float | None = None
    at_s: float = 0.0

    @property
    def work(self) -> str:
        """What the pipeline calls the running of it."""
        return f"procedure {self.name} {self.id}"


@dataclass(frozen=True, slots=True)
class Run:
    """`rows`: inserted, deleted or found. `error` None: it went well."""

    number: int
    at_s: float
    rows: int = 0
    took_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """Of one procedure, the newest last, so many as are worth a look."""

    kept: tuple[Run, ...] = ()

    @property
    def next(self) -> int:
        return self.kept[-1].number + 1 if self.kept else 1

    def after(self, run: Run) -> Runs:
        return replace(self, kept=(*self.kept, run)[-_RUNS:])
