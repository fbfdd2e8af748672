"""Compiled queries as Spark runs them: the views they read, the table of subscriptions, the answers to all at once."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from nearcast.domain.channel import Parameter, ParameterType, Value
from nearcast.pipeline import grid
from nearcast.pipeline.sample import few
from nearcast.pipeline.sql import KEY, Compiled
from nearcast.pipeline.sql_edits import Rewritten
from nearcast.pipeline.sql_reading import MARKED, NEW

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANSWERS = "__answers"
_NOWHERE = 0.0  # km


def show(name: str, everything: "DataFrame", new: "DataFrame", marked: "DataFrame") -> None:
    """As the views that compiled queries read."""
    everything.createOrReplaceTempView(name)
    new.createOrReplaceTempView(f"{NEW}{name}")
    marked.createOrReplaceTempView(f"{MARKED}{name}")


def joined(
    session: "SparkSession", compiled: Compiled, times: Mapping[str, datetime], asked: "DataFrame", partitions: int = 1
) -> "DataFrame":
    """The answers to all of `asked`, which is in sight as a view: `__key`, then the query's columns.

    All of one key are in one partition, and sorted there by key, then as the query says. With one partition, `asked`
    are few.
    """
    arguments: dict[str, Any] = dict(times)
    for each in compiled.grids:
        largest, common = (_reach if partitions > 1 else _reach_of_few)(each.radius, asked)
        arguments[each.argument] = grid.scale(largest, common)
        if each.reach:
            arguments[each.reach] = largest
    frame = session.sql(compiled.joined.text, arguments)
    (frame.repartition(partitions, KEY) if partitions > 1 else frame.coalesce(1)).createOrReplaceTempView(_ANSWERS)
    return session.sql(_sorted(compiled)).drop(*compiled.hidden)


def plan(session: "SparkSession", compiled: Compiled) -> str:
    """How Spark runs what `joined` was asked for last in this session. It is planned once more for that."""
    (row,) = session.sql(f"EXPLAIN {_sorted(compiled)}").collect()
    return str(row[0])


def _sorted(compiled: Compiled) -> str:
    order = ", ".join([KEY, *compiled.order])
    return f"SELECT * FROM {_ANSWERS} SORT BY {order}"  # noqa: S608  # a text that was checked


def parameters_frame(
    session: "SparkSession", parameters: Sequence[Parameter], tuples: Mapping[str, Mapping[str, Value]]
) -> "DataFrame":
    """`__key`, and a column for each parameter."""
    schema = ", ".join([f"{KEY} STRING", *(f"__{each.name} {each.type}" for each in parameters)])
    rows = [(key, *(literal(each.type, given[each.name]) for each in parameters)) for key, given in tuples.items()]
    return few(session, rows, schema)


def literals(parameters: Iterable[Parameter], given: Mapping[str, Value]) -> dict[str, Any]:
    """As arguments of Spark's own."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # an extra; its usual name

    found = {each.name: literal(each.type, given[each.name]) for each in parameters}
    wide = {each.name for each in parameters if each.type is ParameterType.BIGINT}
    return {name: F.expr(f"{value}L") if name in wide else value for name, value in found.items()}


def literal(kind: ParameterType, value: Value) -> Any:
    match kind:
        case ParameterType.DATE:
            return date.fromisoformat(str(value))
        case ParameterType.TIMESTAMP:
            return datetime.fromisoformat(str(value))
        case _:
            return value


def refusal(error: Exception, query: Rewritten) -> str:
    """Spark's first sentence, with the place in the user's text if it names one."""
    text = str(error)
    said = re.sub(r"\s*SQLSTATE: \w+.*", "", text.strip().partition("\n")[0])
    found = re.search(r"\bline (\d+),? pos(ition)? (\d+)", text)
    if found is None:
        return said
    lines = query.text.split("\n")
    first = 1 if found[2] else 0  # a `pos` is counted from 0, a `position` from 1
    at = sum(len(line) + 1 for line in lines[: int(found[1]) - 1]) + int(found[3]) - first
    return f"{query.place(at)}: {said}"


def _reach(radius: str, asked: "DataFrame") -> tuple[float, float]:
    """The largest distance that is asked for, and one that most keep to. Nothing is near anybody without any."""
    row = asked.selectExpr(f"max({radius}) AS largest", f"percentile_approx({radius}, 0.9) AS common").first()
    return (_NOWHERE, _NOWHERE) if row is None or row[0] is None else (float(row[0]), float(row[1]))


def _reach_of_few(radius: str, asked: "DataFrame") -> tuple[float, float]:
    """The same without a job: rows at hand are looked at where they are."""
    found = sorted(float(row[0]) for row in asked.selectExpr(radius).collect() if row[0] is not None)
    return (found[-1], found[math.ceil(0.9 * len(found)) - 1]) if found else (_NOWHERE, _NOWHERE)
