"""The rewriting of a query for all subscriptions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearcast.pipeline import grid
from nearcast.pipeline.sql_edits import Edits
from nearcast.pipeline.sql_reading import Reading, Spread
from nearcast.pipeline.sql_scan import Block, Call, Nesting, Query, Relation, Scan
from nearcast.pipeline.sql_tokens import Kind


@dataclass(frozen=True, slots=True)
class Grid:
    """A `within_km` that runs through cells. `radius`: its distance, over the columns of the table of parameters.

    Spark's argument `argument` says how fine the cells are. `reach`, where there is one, is to be the largest distance:
    cells around records are the same for all subscriptions, whatever each of them asks for.
    """

    radius: str
    argument: str
    reach: str = ""


class Joined:
    """The rewriting for all subscriptions at once."""

    def __init__(self, reading: Reading, bound: frozenset[str]) -> None:
        self.edits = Edits()
        self.grids: list[Grid] = []
        self.spread: dict[int, Spread] = {}  # relations that are read once per cell around each record
        self.bound: dict[Block, list[str]] = {}  # columns that a SELECT was given
        self._scan = scan = reading.scan
        self._reading = reading
        self._bindings: dict[Block, list[str]] = {}
        self._hidden: list[str] = []
        self._by_binding = bound
        for use in scan.uses:
            start, stop = scan.tokens[use.colon].start, scan.tokens[use.colon + 1].stop
            source = self._source(use.query, use.name)
            if use.block is not None and self._is_bound(use.block, use.clause):
                source = self._bound(use.block, use.name)
            self.edits.replace(start, stop, f"{source}.__{use.name}")
        if scan.combined:  # Spark 4.3 cuts or ranks there by the parameters of this SELECT, for all who share them
            for block in {use.block: None for use in scan.uses if use.block is not None and use.block.ranked}:
                for name in dict.fromkeys(use.name for use in scan.uses):
                    self._bound(block, name)
        for block, names in self._bindings.items():
            self._bind(block, names)
        for opening in scan.made_lateral:
            self.edits.insert(scan.tokens[opening].start, "LATERAL ")

    def _is_bound(self, block: Block, clause: str) -> bool:
        """Whether parameters go through a binding there. The ON of a join sees one only if that comes before it."""
        return clause in self._by_binding and not (clause == "ON" and _comes_last(block))

    def _source(self, query: Query, name: str) -> str:
        """The alias by which the SELECTs of `query` see a parameter."""
        around = query.within
        if around is None:
            return "__p"
        if query.nesting is Nesting.SAME:
            return self._source(around.query, name)
        return self._bound(around, name)

    def _bound(self, block: Block, name: str) -> str:
        """The alias of what binds a parameter within `block`."""
        names = self._bindings.setdefault(block, [])
        if name not in names:
            names.append(name)
        self._source(block.query, name)
        return self._alias(block)

    def _alias(self, block: Block) -> str:
        return f"__b{self._scan.blocks.index(block) + 1}"

    def _bind(self, block: Block, names: Sequence[str]) -> None:
        alias = self._alias(block)
        columns = ", ".join(f"{self._source(block.query, name)}.__{name} AS __{name}" for name in names)
        self.bound.setdefault(block, []).extend(f"{alias}.__{name}" for name in names)
        self._join(block, f"(SELECT {columns}) {alias}")

    def _join(self, block: Block, relation: str, *, early: bool = False) -> None:
        """Before everything else, so that joins begin with what is asked for; or after it, where it must be.

        `early`: something else in FROM needs it.
        """
        tokens = self._scan.tokens
        if block.from_end is None:
            self.edits.insert(tokens[block.list_end - 1].stop, f" FROM {relation}")
        elif not _comes_last(block):
            self.edits.insert(tokens[block.after_from].start, f"{relation} CROSS JOIN ")
        elif early or block.laterals:
            beside = "beside a RIGHT or FULL JOIN, or a PIVOT"
            raise self._scan.error(tokens[block.first], f"a parameter in LATERAL, or in the ON of a join, {beside}")
        else:
            self.edits.insert(tokens[block.from_end - 1].stop, f" CROSS JOIN {relation}")

    # within_km

    def place(self, call: Call) -> None:
        """By a grid where one can be: else every pair is compared."""
        lat, lon, lat2, lon2, km = (rendered(self._scan, self.edits, *each) for each in call.arguments)
        exact = grid.within(lat, lon, lat2, lon2, km)
        points = (lat, lon), (lat2, lon2)
        number = len(self.grids) + 1
        argument, reach = f"__scale{number}", ""
        found = self._boxed(call)
        if found is not None:
            relation, side = found
            own = f"__g{number}.__c"
            if relation is None:
                cells = grid.cells(*points[side], km, f":{argument}")
                lateral = "LATERAL " if self._is_bound(call.block, call.clause) else ""  # it sees the binding
                self._join(call.block, f"{lateral}{cells} __g{number}", early=call.clause == "ON")
                self.bound.setdefault(call.block, []).append(own)
            else:
                if self._asked_for(call):
                    reach = f"__reach{number}"
                own = f"`{relation.alias}`.__c"
                self.spread[relation.first] = Spread(*points[side], f":{reach}" if reach else km, f":{argument}")
            exact = f"({grid.cell(*points[1 - side], f':{argument}')} = {own} AND {exact})"
            self.grids.append(Grid(rendered(self._scan, self._columns_of(call), *call.arguments[4]), argument, reach))
        self._reading.replace_call(self.edits, call, exact)

    def _boxed(self, call: Call) -> tuple[Relation | None, int] | None:
        """Around which of the two points cells are enumerated: one that is the same for all records, or one of a
        dataset, of which the new is preferred. None when neither will do.
        """
        if not call.conjunct or self._names(call.arguments[4]):
            return None
        reads = [[name for each in call.arguments[side : side + 2] for name in self._names(each)] for side in (0, 2)]
        if call.clause == "ON" and _comes_last(call.block):
            return None
        if call.clause == "ON" and call.block.outer:
            added = self._added(call)
            if added is None:
                return None
            if added.optional:  # rows that do not meet the condition are kept
                return self._beside(call, added, reads)
        for side in range(2):
            if not reads[side]:
                return None, side
        return self._between(call, reads)

    def _between(self, call: Call, reads: Sequence[Sequence[str]]) -> tuple[Relation, int] | None:
        """Of two datasets, one record of each: one of the two, if every row has a record of both."""
        block = call.block
        if block.right or block.natural or block.pivoted:
            return None
        mine = [each for own, each in self._reading.datasets if own is block]
        by_alias = {each.alias: each for each in mine if not each.optional}
        found = [(by_alias[names[0]], side) for side, names in enumerate(reads) if {*names} <= {*by_alias}]
        one_each = len(found) == 2 and all(len({*names}) == 1 for names in reads) and found[0][0] is not found[1][0]
        if not one_each or any(each.first in self.spread for each, _ in found):
            return None
        return min(found, key=lambda each: (each[0].first not in self._reading.fresh, each[1]))

    def _added(self, call: Call) -> Relation | None:
        """The dataset that a join adds whose own ON has the call."""
        before = [each for block, each in self._reading.datasets if block is call.block and each.end < call.first]
        if not before:
            return None
        added = max(before, key=lambda each: each.first)
        between = self._scan.tokens[added.end : call.first]
        return added if between[0].is_word("ON") and not any(each.is_word("JOIN") for each in between) else None

    def _beside(self, call: Call, added: Relation, reads: Sequence[Sequence[str]]) -> tuple[Relation, int] | None:
        """What a LEFT JOIN adds, if the condition is about it and what was there before.

        A record has one cell, so it meets each of these once at most, and stays alone where it meets none.
        """
        asks = any(call.first <= use.colon < call.last for use in self._scan.uses)
        if added.first in self.spread or (asks and not self._is_bound(call.block, "ON")):
            return None
        for side in range(2):
            if {*reads[side]} == {added.alias} and reads[1 - side] and not {*reads[1 - side]} & {"", added.alias}:
                return added, side
        return None

    def _asked_for(self, call: Call) -> bool:
        """Whether its distance is a subscription's own."""
        first, end = call.arguments[4]
        return any(first <= use.colon < end for use in self._scan.uses)

    def _columns_of(self, call: Call) -> Edits:
        first, end = call.arguments[4]
        edits = Edits()
        for use in self._scan.uses:
            if first <= use.colon < end:
                start, stop = self._scan.tokens[use.colon].start, self._scan.tokens[use.colon + 1].stop
                edits.replace(start, stop, f"__{use.name}")
        return edits

    def _names(self, argument: tuple[int, int]) -> list[str]:
        """Columns in an expression, with what stands before the dot."""
        tokens, found = self._scan.tokens, []
        first, end = argument
        for at in range(first, end):
            token = tokens[at]
            named = token.kind in (Kind.WORD, Kind.QUOTED) and not tokens[at - 1].is_sign(":", ".", "::")
            if named and not tokens[at + 1].is_sign("(") and not token.is_word("AS", "DOUBLE", "FLOAT"):
                found.append(token.name if tokens[at + 1].is_sign(".") else "")
        return found

    # ORDER BY

    def order(self, columns: Sequence[str]) -> tuple[list[str], list[str]]:
        """By what the rows of one subscription are sorted, and the columns that were added for that."""
        scan = self._scan
        first = scan.order_by
        if first is None:
            return [], []
        found, hidden, known = [], [], [each.lower() for each in columns]
        for number, (start, end) in enumerate(scan.items(first), 1):
            stop = end
            while stop - 1 > start and scan.tokens[stop - 1].is_word("ASC", "DESC", "NULLS", "FIRST", "LAST"):
                stop -= 1
            direction = scan.slice(stop, end)
            token = scan.tokens[start]
            if stop - start == 1 and token.kind is Kind.NUMBER and token.text.isdigit():
                name = columns[int(token.text) - 1]
            elif stop - start == 1 and token.name in known:
                name = token.name
            else:
                name = f"__o{number}"
                text = rendered(scan, self.edits, start, stop)
                if len(scan.query.blocks) != 1:
                    found.append(scan.slice(start, end))  # it may use the result's columns only
                    continue
                hidden.append(name)
                self._hidden.append(f", {text} AS {name}")
            found.append(f"`{name}` {direction}".strip())
        return found, hidden

    def add_hidden(self) -> None:
        """Last, because `* EXCEPT (...)` may come before it at the same place."""
        for text in self._hidden:
            self.edits.insert(self._scan.tokens[self._scan.query.blocks[0].list_end - 1].stop, text)


def _comes_last(block: Block) -> bool:
    """Whether what is joined in must follow everything else: rows without a partner would be without it."""
    return block.right or block.pivoted


def rendered(scan: Scan, edits: Edits, first: int, end: int) -> str:
    """The text of some tokens, with what `edits` changes in it."""
    start, stop = scan.tokens[first].start, scan.tokens[end - 1].stop
    return Edits(list(edits.made)).within(start, stop).apply(scan.text[start:stop]).text
