"""A channel's query tried out before the channel exists.

Spark refuses some shapes only when they are planned or run, and gives wrong answers to some others when they are asked
for many subscriptions at once (4.3: with a parameter in the ON of a FULL JOIN). So the query is run over made-up
records, for some subscriptions at once and for each alone, and the answers are compared.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from nearcast.domain.channel import Parameter
from nearcast.domain.errors import ChannelError
from nearcast.pipeline.answers import joined, literals, parameters_frame, plan, refusal, show
from nearcast.pipeline.sample import Source, records, values
from nearcast.pipeline.session import beside
from nearcast.pipeline.sql import KEY, PARAMETERS, Compiler
from nearcast.pipeline.sql_edits import Rewritten
from nearcast.pipeline.sql_reading import BEFORE, NOW
from nearcast.pipeline.sql_tokens import tokens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS, _SUBSCRIPTIONS = 12, 4
_SEED = 6
_TIMES = {NOW: datetime(2026, 1, 1, 2, tzinfo=UTC), BEFORE: datetime(2026, 1, 1, 1, tzinfo=UTC)}
_QUICK = {  # a few rows are no work for generated code or many partitions
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
# With these the same question may have several right answers: then only the number of rows is compared.
_SEVERAL_ANSWERS = {
    *("limit", "rand", "randn", "random", "uuid", "first", "last", "first_value", "last_value", "any_value"),
    *("collect_list", "collect_set", "array_agg", "listagg", "string_agg", "row_number", "ntile", "lag", "lead"),
    *("tablesample", "monotonically_increasing_id", "mode", "max_by", "min_by", "percentile_approx", "nth_value"),
}
_OTHER = (
    "Spark's answer for many subscriptions at once is not the one for each alone. It is known to go wrong with a"
    " parameter in the ON of an outer join: put it into a subquery that is joined instead"
)
_PAIRS = ("BroadcastNestedLoopJoin", "CartesianProduct")


@dataclass(frozen=True, slots=True)
class Trial:
    """What was found out: the names of the result's columns, which form Spark takes, and what a user should know."""

    columns: tuple[str, ...]
    bound: frozenset[str]
    warnings: tuple[str, ...]


def quick(spark: "SparkSession") -> "SparkSession":
    """A session for a few rows; its views are its own."""
    session = beside(spark)
    for key, value in _QUICK.items():
        session.conf.set(key, value)
    return session


def tried(
    spark: "SparkSession", compiler: Compiler, parameters: tuple[Parameter, ...], sources: Mapping[str, Source]
) -> Trial:
    """In the fastest form that is right. Raises ChannelError with Spark's own message, and the place if it has one."""
    session, chance = quick(spark), random.Random(_SEED)
    alone, given = compiler.alone(), [values(parameters, chance) for _ in range(_SUBSCRIPTIONS)]
    if parameters:  # two that share all but one
        given[1] = {**given[0], parameters[-1].name: given[1][parameters[-1].name]}
    asked = parameters_frame(session, parameters, {str(number): each for number, each in enumerate(given)})
    asked.createOrReplaceTempView(PARAMETERS)
    _make_up(session, {name: sources[name] for name in compiler.datasets}, _RECORDS, chance)
    with _refusing(alone):
        frames = [session.sql(alone.text, {**literals(parameters, each), **_TIMES}) for each in given]
    _must_differ(frames[0].columns)
    told: tuple[str, ...] = ()
    try:
        with _refusing(alone):
            wanted = _answers(frames)
    except ChannelError as error:  # a number that is none, a division by zero: real records may be better
        told = (f"it was tried out without records, because it fails on made-up ones: {error}",)
        wanted = Counter()
        _make_up(session, {name: sources[name] for name in compiler.datasets}, 0, chance)
    columns, exact = tuple(frames[0].columns), not told and _one_answer(alone.text)
    right: list[Trial] = []
    refused: list[ChannelError] = []
    for bound in compiler.bindings:
        compiled = compiler.compiled(columns, bound)
        try:
            with _refusing(compiled.joined):
                frame = joined(session, compiled, _TIMES, asked)
                found = _counted(frame.collect())
        except ChannelError as error:
            refused.append(error)
            continue
        if not told and not _alike(found, wanted, exact=exact):
            refused.append(ChannelError(_OTHER))
            continue
        right.append(Trial(columns, bound, (*told, *_pairs(plan(session, compiled)))))
        if right[-1].warnings == told:
            break
    if not right:
        raise refused[0]
    return right[-1] if right[-1].warnings == told else right[0]


def _make_up(session: "SparkSession", sources: Mapping[str, Source], count: int, chance: random.Random) -> None:
    for name, source in sources.items():
        frame = records(session, source, count, chance)
        marked = frame.withColumn("__new", _half(frame))
        show(name, frame, marked.where("__new").drop("__new"), marked)


def _half(frame: "DataFrame") -> Any:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415  # an extra; its usual name

    return F.hash(*frame.columns) % 2 == 0


def _answers(frames: Sequence["DataFrame"]) -> Counter[Any]:
    """Of each alone, in one job."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    keyed = [
        frame.select(F.lit(str(number)).alias(KEY), *(frame[column] for column in frame.columns))
        for number, frame in enumerate(frames)
    ]
    return _counted(reduce(lambda some, more: some.unionAll(more), keyed).collect())


def _counted(rows: Iterable[Any]) -> Counter[Any]:
    return Counter(_plain(tuple(row)) for row in rows)


def _plain(value: Any) -> Any:
    """Comparable, and without the last digits, which depend on the order of a sum."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return tuple(sorted((repr(_plain(key)), repr(_plain(each))) for key, each in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    return bytes(value) if isinstance(value, bytearray) else value


def _alike(found: Counter[Any], wanted: Counter[Any], *, exact: bool) -> bool:
    return found == wanted if exact else _per_key(found) == _per_key(wanted)


def _per_key(rows: Counter[Any]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row, count in rows.items():
        found[row[0]] += count
    return dict(found)


def _one_answer(text: str) -> bool:
    return not any(token.name in _SEVERAL_ANSWERS for token in tokens(text))


def _pairs(plan: str) -> tuple[str, ...]:
    found = next((join for join in _PAIRS if join in plan), None)
    if found is None:
        return ()
    said = (
        f"every record is compared with every subscription, or with every record of another dataset ({found}):"
        " an equality or within_km(...) as a condition of its own would be found by key"
    )
    return (said,)


def _must_differ(columns: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise ChannelError(f"two columns of the result are named {name!r}: give one of them another name with AS")
        seen.add(name.lower())


@contextlib.contextmanager
def _refusing(query: Rewritten) -> Iterator[None]:
    """Spark's errors about `query` as ours, at the place in the user's text."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise ChannelError(refusal(error, query)) from error
    except Py4JJavaError as error:  # some that come up only in a job are not made Python's own
        raise ChannelError(refusal(Exception(error.java_exception.getMessage()), query)) from error
