"""What a query reads: datasets, and of each whether all of it, what is new, or all with a mark on what is new."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from nearcast.pipeline import grid
from nearcast.pipeline.sql_edits import Edits
from nearcast.pipeline.sql_scan import Block, Call, Relation, Scan

NEW, MARKED = "__new_", "__marked_"
"""Before a dataset's name: the view of what is new, and of everything with a column `__new` that says whether it is."""

NOW, BEFORE = "__now", "__before"
"""Spark's arguments for the times of this execution and of the one before it."""

ARGUMENTS = {"is_new": 1, "current_channel_time": 0, "previous_channel_time": 0, "within_km": 5}
"""Our functions, and how many arguments each takes."""

_FLAG = "__new"


class Spread(NamedTuple):
    """Expressions: the point of each record, how far around it cells are wanted, and how fine they are."""

    lat: str
    lon: str
    km: str
    per_unit: str


class Reading:
    """Raises ChannelError for a call that does not fit."""

    def __init__(self, scan: Scan) -> None:
        self.scan = scan
        found = [(block, each) for block in scan.blocks for each in block.relations]
        self.datasets = [(block, each) for block, each in found if block.query.cte(each.name) is None]
        self.fresh: dict[int, Relation] = {}  # by their first token: only what is new
        self._marked: dict[int, Relation] = {}
        for call in scan.calls:
            self._take(call)

    @property
    def asked_new(self) -> tuple[str, ...]:
        return tuple(sorted({each.name for each in (*self.fresh.values(), *self._marked.values())}))

    @property
    def views(self) -> frozenset[str]:
        """Those that the query reads when its relations are replaced."""
        return frozenset(self._kind(each) + each.name for _, each in self.datasets)

    def _kind(self, relation: Relation) -> str:
        return NEW if relation.first in self.fresh else MARKED if relation.first in self._marked else ""

    def replace_call(self, edits: Edits, call: Call, new: str | None = None) -> None:
        """By what it is for Spark, or by `new`."""
        start, stop = self.scan.tokens[call.first].start, self.scan.tokens[call.last].stop
        edits.within(start, stop)
        edits.replace(start, stop, self._meaning(call) if new is None else new)

    def replace_relations(self, edits: Edits, spread: Mapping[int, Spread]) -> None:
        """By the views that are read; of some, by their first token, once per cell around each record."""
        for _, each in self.datasets:
            kind = self._kind(each)
            alias, view = f"`{each.alias}`", f"`{kind}{each.name}`"
            if each.first in spread:
                new = f"{grid.spread(view, alias, *spread[each.first])} {alias}"
            elif kind:
                new = f"{view} {alias}"
            else:
                continue
            edits.replace(self.scan.tokens[each.first].start, self.scan.tokens[each.end - 1].stop, new)

    def narrow_stars(self, edits: Edits, bound: Mapping[Block, list[str]], spread: Collection[int]) -> None:
        """`*` stays what the user's datasets have."""
        tokens = self.scan.tokens
        for block in self.scan.blocks:
            added = [f"`{each.alias}`.{_FLAG}" for each in block.relations if each.first in self._marked]
            added += [f"`{each.alias}`.__c" for each in block.relations if each.first in spread]
            for star in block.stars:
                left = [*added, *bound.get(block, [])]
                if tokens[star - 1].is_sign("."):
                    left = [each for each in added if each.startswith(f"`{tokens[star - 2].name}`.")]
                if not left:
                    continue
                if tokens[star + 1].is_word("EXCEPT") and tokens[star + 2].is_sign("("):
                    edits.insert(tokens[star + 2].stop, ", ".join(left) + ", ")
                else:
                    edits.insert(tokens[star].stop, f" EXCEPT ({', '.join(left)})")

    def _take(self, call: Call) -> None:
        token, count = self.scan.tokens[call.first], ARGUMENTS[call.name]
        if len(call.arguments) != count:
            raise self.scan.error(token, f"{call.name} takes {count} arguments, found {len(call.arguments)}")
        if call.name != "is_new":
            return
        relation = self._asked(call)
        if relation is None:
            alias = self.scan.slice(*call.arguments[0])
            raise self.scan.error(token, f"is_new({alias}): no dataset has this name or alias in the same SELECT")
        only = not relation.optional if call.clause == "WHERE" else not call.block.outer
        if call.conjunct and only and relation.first not in self._marked:
            self.fresh[relation.first] = relation
        else:
            self.fresh.pop(relation.first, None)
            self._marked[relation.first] = relation

    def _asked(self, call: Call) -> Relation | None:
        alias = self.scan.slice(*call.arguments[0]).strip("`").lower()
        return next((each for block, each in self.datasets if block is call.block and each.alias == alias), None)

    def _meaning(self, call: Call) -> str:
        if call.name == "is_new":
            relation = self._asked(call)
            assert relation is not None
            return f"`{relation.alias}`.{_FLAG}" if relation.first in self._marked else "true"
        return f":{NOW if call.name == 'current_channel_time' else BEFORE}"
