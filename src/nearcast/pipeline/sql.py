"""A channel's query in the two forms that Spark runs: for one subscription alone, and for all of them in one job.

The user's text is kept; only parameters, names of datasets and calls of our functions are replaced, by their tokens.

    alone    the text with `:name` parameters of Spark's own: what one subscription would get by itself
    joined   SELECT __p.__key, __q.* FROM __params __p JOIN LATERAL (the text with :x -> __p.__x) __q

A subquery in an expression sees one level of the queries around it only. Where it uses a parameter, the SELECT around
it gets a one-row binding, `CROSS JOIN (SELECT __p.__x AS __x) __b1`, and the subquery uses that.

Functions of ours: `is_new(alias)`, `current_channel_time()`, `previous_channel_time()`, and
`within_km(lat, lon, lat2, lon2, km)`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nearcast.domain.channel import Parameter
from nearcast.domain.errors import ChannelError
from nearcast.pipeline import grid
from nearcast.pipeline.sql_edits import Edits, Rewritten
from nearcast.pipeline.sql_inline import inlined
from nearcast.pipeline.sql_joined import Grid, Joined, rendered
from nearcast.pipeline.sql_reading import ARGUMENTS, Reading
from nearcast.pipeline.sql_scan import Block, Scan

PARAMETERS, KEY = "__params", "__key"

_LATE = ("ORDER", "SORT", "GROUP", "VIEW")
BINDINGS = tuple(map(frozenset, (_LATE, (*_LATE, "SELECT", "HAVING"), (*_LATE, "SELECT", "HAVING", "WHERE", "ON"))))
"""In which clauses parameters go through a binding of the same SELECT: in some Spark takes no column of a query further
out, and which these are depends on more than the clause.
"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """`order`: what rows of one subscription are sorted by, over the columns of `joined`; `hidden` of them are no part
    of the result. `views`: which ones `joined` reads.
    """

    alone: Rewritten
    joined: Rewritten
    datasets: tuple[str, ...]
    asked_new: tuple[str, ...]
    grids: tuple[Grid, ...]
    order: tuple[str, ...]
    hidden: tuple[str, ...]
    views: frozenset[str]


class Compiler:
    """Raises ChannelError, with line and column, for what is no query over `datasets` with these parameters."""

    def __init__(self, text: str, parameters: Sequence[Parameter], datasets: Collection[str]) -> None:
        self._reading = Reading(Scan(text, frozenset(ARGUMENTS)))
        self._check_parameters(parameters)
        self._check_datasets({each.lower() for each in datasets})

    @property
    def datasets(self) -> tuple[str, ...]:
        """In lower case."""
        return tuple(sorted({each.name for _, each in self._reading.datasets}))

    @property
    def bindings(self) -> tuple[frozenset[str], ...]:
        """All of BINDINGS, the fastest first as a rule: to be tried in turn.

        Conditions are best left to Spark, which looks up subscriptions by them, after all joins. Where all records of a
        dataset are joined, and not only new ones, that is too late: a binding comes first.
        """
        asking = {use.block for use in self._reading.scan.uses if use.clause in {"WHERE", "ON"}}
        return (BINDINGS[-1], *BINDINGS[:-1]) if any(map(self._joins_all, asking)) else BINDINGS

    def _joins_all(self, block: Block | None) -> bool:
        mine = [each for own, each in self._reading.datasets if own is block]
        return len(mine) > 1 and any(each.first not in self._reading.fresh and not each.optional for each in mine)

    def alone(self) -> Rewritten:
        edits, reading = Edits(), self._reading
        reading.replace_relations(edits, {})
        for call in reading.scan.calls:
            exact = None
            if call.name == "within_km":
                lat, lon, lat2, lon2, km = (rendered(reading.scan, edits, *each) for each in call.arguments)
                exact = grid.within(lat, lon, lat2, lon2, km)
            reading.replace_call(edits, call, exact)
        reading.narrow_stars(edits, {}, {})
        return edits.apply(reading.scan.text)

    def compiled(self, columns: Sequence[str], bound: frozenset[str] = BINDINGS[0]) -> Compiled:
        """`columns`: the names that the query's result has, as Spark tells of `alone`. `bound`: one of BINDINGS."""
        reading = Reading(inlined(self._reading.scan))
        joined = Joined(reading, bound)
        order, hidden = joined.order(columns)
        for call in reading.scan.calls:
            if call.name == "within_km":
                joined.place(call)
            else:
                reading.replace_call(joined.edits, call)
        reading.replace_relations(joined.edits, joined.spread)
        reading.narrow_stars(joined.edits, joined.bound, joined.spread)
        joined.add_hidden()
        before = f"SELECT __p.{KEY}, __q.* FROM {PARAMETERS} __p JOIN LATERAL ("  # noqa: S608  # no input
        return Compiled(
            self.alone(),
            joined.edits.apply(reading.scan.text, before, "\n) __q"),
            self.datasets,
            reading.asked_new,
            tuple(joined.grids),
            tuple(order),
            tuple(hidden),
            reading.views,
        )

    def _check_parameters(self, parameters: Sequence[Parameter]) -> None:
        scan, declared = self._reading.scan, [each.name for each in parameters]
        for use in scan.uses:
            if use.name not in declared:
                there = ", ".join(f":{name}" for name in declared) or "none"
                raise scan.error(scan.tokens[use.colon], f"parameter :{use.name} is not declared; declared: {there}")
        used = {use.name for use in scan.uses}
        unused = [name for name in declared if name not in used]
        if unused:
            raise ChannelError(f"parameter {unused[0]!r} is declared, and the query does not use it")

    def _check_datasets(self, known: set[str]) -> None:
        scan = self._reading.scan
        for _, each in self._reading.datasets:
            if each.name not in known:
                there = ", ".join(sorted(known)) or "none"
                raise scan.error(scan.tokens[each.first], f"no dataset {each.name!r}; datasets: {there}")
