"""Where things are in a query: its SELECTs and how they nest, what they read, parameters and calls of our functions.

So much of the grammar as the rewriting of `nearcast.pipeline.sql` needs. It need not be strict: Spark reads every text
before and after, and what it refuses is refused.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from nearcast.domain.errors import ChannelError
from nearcast.pipeline.sql_tokens import Kind, Token, partners, place, tokens

OWN = "__"
"""What names begin with that are put into a query."""

_SET = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_TAIL = ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET")
_CLAUSES = ("WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", *_TAIL)
_JOINS = ("JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL")
_NO_ALIAS = {*_SET, *_CLAUSES, *_JOINS, "ON", "USING", "LATERAL", "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "AS"}
# A colon after one of these begins a parameter; after any other word it is a path into it (`v:a.b`, `STRUCT<a:INT>`).
_BEFORE_OPERAND = {
    *("SELECT", "DISTINCT", "ALL", "WHERE", "AND", "OR", "NOT", "HAVING", "QUALIFY", "ON", "CASE", "WHEN", "THEN"),
    *("ELSE", "IN", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "BY", "LIMIT", "OFFSET", "VALUES", "FROM"),
    *("DIV", "INTERVAL", "IS", "ANY", "SOME", "ROWS", "RANGE", "USING", "BOTH", "LEADING", "TRAILING", "FOR", "TO"),
}


class Nesting(enum.Enum):
    """How a query stands in the one around it."""

    SAME = enum.auto()  # a derived table, a CTE or an operand of UNION: sees what the one around it sees from outside
    SUBQUERY = enum.auto()  # in an expression: sees one level further only
    LATERAL = enum.auto()  # as a subquery, of what stands before it in the same FROM


@dataclass(slots=True)
class Relation:
    """A name in a FROM. `first` and `last` are the tokens of the name, `end` is after its alias.

    `optional`: an outer join has rows without it.
    """

    name: str
    alias: str
    first: int
    last: int
    end: int
    optional: bool = False


@dataclass(slots=True)
class Call:
    """Of a function of ours: tokens from its name to its parenthesis, and of each argument (after the last one).

    `conjunct`: true of every row that the clause lets through.
    """

    name: str
    first: int
    last: int
    arguments: list[tuple[int, int]]
    clause: str
    conjunct: bool
    block: Block


@dataclass(slots=True, eq=False)
class Block:
    """One SELECT. `from_end` is where a further join may be written; None without FROM."""

    query: Query
    first: int
    stars: list[int] = field(default_factory=list)
    list_end: int = 0
    from_end: int | None = None
    after_from: int = 0  # the first relation of FROM
    relations: list[Relation] = field(default_factory=list)
    outer: bool = False  # has a join that keeps rows without a partner
    right: bool = False  # of the right side
    natural: bool = False  # has a join on all columns of the same name
    pivoted: bool = False  # its rows are made of all columns before PIVOT
    laterals: bool = False
    ranked: bool = False  # has LIMIT, OFFSET or OVER: what a row is depends on the other rows
    end: int = 0


@dataclass(slots=True, eq=False)
class Cte:
    """`name [(columns)] AS (query)` of a WITH: the token of its name, and those of the query's parentheses."""

    name: int
    opening: int
    closing: int


@dataclass(slots=True, eq=False)
class Query:
    """`within`: the SELECT whose text has it; None for the whole text."""

    nesting: Nesting
    within: Block | None
    ctes: dict[str, Cte] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)

    def cte(self, name: str) -> Cte | None:
        """The one in sight with this name."""
        found = self.ctes.get(name)
        return self.within.query.cte(name) if found is None and self.within is not None else found


@dataclass(slots=True)
class Use:
    """Of a parameter: the tokens of the colon and the name."""

    name: str
    colon: int
    query: Query
    block: Block | None
    clause: str


class Scan:
    """What is in `text`. Raises ChannelError for what is not one SELECT."""

    def __init__(self, text: str, functions: frozenset[str]) -> None:
        self.text = text
        self.tokens = tokens(text)
        for token in self.tokens:
            if token.kind in (Kind.WORD, Kind.QUOTED) and token.name.startswith(OWN):
                raise self.error(token, f"{token.text}: names that begin with {OWN} are nearcast's own")
        self.uses: list[Use] = []
        self.calls: list[Call] = []
        self.blocks: list[Block] = []
        self.ctes: list[Cte] = []
        self.made_lateral: list[int] = []  # parentheses of derived tables that must be LATERAL to use a parameter
        self.combined = False  # has UNION, EXCEPT or INTERSECT
        self.order_by: int | None = None  # the first token of what the whole result is sorted by
        self._pairs = partners(text, self.tokens)
        self.functions = functions
        end = len(self.tokens) - 1
        while end > 0 and self.tokens[end - 1].is_sign(";"):
            end -= 1
        self.end = end
        semicolon = next((token for token in self.tokens[:end] if token.is_sign(";")), None)
        if semicolon is not None:
            raise self.error(semicolon, "one SELECT is expected, and there is more than one statement")
        if not self._is_query(0, end):
            raise self.error(self.tokens[0], f"expected a SELECT, found {self.tokens[0].text or 'nothing'!r}")
        self.query = Query(Nesting.SAME, None)
        self._fill(self.query, 0, end)

    def error(self, token: Token, message: str) -> ChannelError:
        return ChannelError(f"{place(self.text, token.start)}: {message}")

    def slice(self, first: int, end: int) -> str:
        """The text of the tokens from `first` up to, and without, `end`."""
        return self.text[self.tokens[first].start : self.tokens[end - 1].stop] if end > first else ""

    def items(self, first: int) -> list[tuple[int, int]]:
        """Of a list that is divided by commas and ends with its clause: the first token of each, and what is after."""
        found, start, at = [], first, first
        while at < self.end and not self.tokens[at].is_word(*_TAIL):
            if self.tokens[at].is_sign(","):
                found.append((start, at))
                start = at + 1
            at = self._pairs[at] + 1 if self.tokens[at].is_sign("(") else at + 1
        return [*found, (start, at)]

    # Queries

    def _is_query(self, at: int, end: int) -> bool:
        token = self.tokens[at]
        if token.is_word("SELECT", "WITH"):
            return True
        if not token.is_sign("(") or not self._is_query(at + 1, self._pairs[at]):
            return False
        after = self._pairs[at] + 1
        return after >= end or self.tokens[after].is_word(*_SET, *_TAIL)

    def _query(self, at: int, end: int, nesting: Nesting, within: Block | None) -> Query:
        query = Query(nesting, within)
        self._fill(query, at, end)
        return query

    def _fill(self, query: Query, at: int, end: int) -> None:
        if self.tokens[at].is_word("WITH"):
            at = self._ctes(at + 1, end, query)
        while at < end:
            token = self.tokens[at]
            if token.is_word("SELECT"):
                at = self._block(at, end, query)
            elif token.is_sign("("):
                inner = self._query(at + 1, self._pairs[at], Nesting.SAME, query.within)
                inner.ctes = {**query.ctes, **inner.ctes}
                at = self._pairs[at] + 1
            elif token.is_word(*_SET):
                self.combined = True
                at += 2 if self.tokens[at + 1].is_word("ALL", "DISTINCT") else 1
            elif token.is_word(*_TAIL):
                at = self._tail(at, end, query, None)
            elif token.is_word("VALUES"):
                at = self._expressions(at, end, query, None, "VALUES")
            else:
                raise self.error(token, f"expected SELECT, found {token.text!r}")

    def _ctes(self, at: int, end: int, query: Query) -> int:
        if self.tokens[at].is_word("RECURSIVE"):
            raise self.error(self.tokens[at], "WITH RECURSIVE cannot be asked for many subscriptions at once")
        while at < end:
            name = self.tokens[at]
            body = at + 1
            while body < end and not self._is_body(body):
                body = self._pairs[body] + 1 if self.tokens[body].is_sign("(") else body + 1
            if body >= end:
                raise self.error(name, f"WITH {name.text}: its query is not there")
            inner = self._query(body + 1, self._pairs[body], Nesting.SAME, query.within)
            inner.ctes = {**query.ctes, **inner.ctes}
            query.ctes[name.name] = Cte(at, body, self._pairs[body])
            self.ctes.append(query.ctes[name.name])
            at = self._pairs[body] + 1
            if not self.tokens[at].is_sign(","):
                break
            at += 1
        return at

    def _is_body(self, at: int) -> bool:
        return self.tokens[at].is_sign("(") and self._is_query(at + 1, self._pairs[at])

    # One SELECT

    def _block(self, at: int, end: int, query: Query) -> int:
        block = Block(query, at)
        query.blocks.append(block)
        self.blocks.append(block)
        at = self._select_list(at + 1, end, block)
        block.list_end = at
        if at < end and self.tokens[at].is_word("FROM"):
            block.after_from = at + 1
            at = self._from(at + 1, end, block)
        while at < end and not self.tokens[at].is_word(*_SET):
            at = self._tail(at, end, query, block)
        block.end = at
        block.ranked = any(token.is_word("LIMIT", "OFFSET", "OVER") for token in self.tokens[block.first : at])
        return at

    def _tail(self, at: int, end: int, query: Query, block: Block | None) -> int:
        """One clause after the FROM."""
        clause = self.tokens[at].text.upper()
        if clause == "ORDER" and query is self.query:
            self.order_by = at + 2
        return self._expressions(at + 1, end, query, block, clause, stop=(*_CLAUSES, *_SET))

    def _select_list(self, at: int, end: int, block: Block) -> int:
        starts = True  # of an item
        while at < end:
            token, before = self.tokens[at], self.tokens[at - 1]
            if token.is_word(*_SET) and not (token.is_word("EXCEPT") and before.is_sign("*")):
                return at
            if token.is_word("FROM", *_CLAUSES) and not (token.is_word("FROM") and before.is_word("DISTINCT")):
                return at
            if token.is_sign("*") and (starts or before.is_sign(".")):
                block.stars.append(at)
            starts = token.is_sign(",") or (starts and token.is_word("DISTINCT", "ALL"))
            if token.is_sign("/*+"):
                while at < end and not self.tokens[at].is_sign("*/"):
                    at += 1
                starts = True
            at = self._step(at, block.query, block, "SELECT", conjunct=False)
        return at

    def _from(self, at: int, end: int, block: Block) -> int:
        """Relations and joins. Returns where the next clause begins."""
        expecting, lateral, left, right = True, False, False, False
        own = len(block.relations)
        while at < end:
            token = self.tokens[at]
            if token.is_word(*_CLAUSES, *_SET):
                break
            if token.is_word("LATERAL"):
                if self.tokens[at + 1].is_word("VIEW"):
                    break
                lateral = True
                at += 1
            elif token.is_sign(",") or token.is_word("JOIN"):
                expecting = True
                left, right = left and token.is_word("JOIN"), right and token.is_word("JOIN")
                at += 1
            elif self._is_join(at):
                left |= token.is_word("LEFT", "FULL")
                right |= token.is_word("RIGHT", "FULL")
                block.outer |= token.is_word("LEFT", "RIGHT", "FULL", "NATURAL")
                block.natural |= token.is_word("NATURAL")
                block.right |= token.is_word("RIGHT", "FULL")
                at += 1
            elif token.is_word("ON"):
                after = self._after_condition(at + 1, end)
                self._expressions(at + 1, after, block.query, block, "ON", stop=())
                at = after
            elif expecting:
                known = len(block.relations)
                at = self._relation(at, end, block, lateral=lateral, left=left)
                for place, each in enumerate(block.relations[own:], own):
                    each.optional |= left if place >= known else right
                expecting = lateral = left = right = False
            else:
                block.pivoted |= token.is_word("PIVOT", "UNPIVOT")
                at = self._step(at, block.query, block, "FROM", conjunct=False)
        block.from_end = at
        if at < end and self.tokens[at].is_word("LATERAL"):  # VIEW
            at = self._expressions(at, end, block.query, block, "VIEW", stop=(*_CLAUSES, *_SET))
        return at

    def _is_join(self, at: int) -> bool:
        function = self.tokens[at].is_word("LEFT", "RIGHT") and self.tokens[at + 1].is_sign("(")
        return self.tokens[at].is_word(*_JOINS) and not function

    def _after_condition(self, at: int, end: int) -> int:
        while at < end:
            token = self.tokens[at]
            if token.is_word(*_CLAUSES, *_SET, "ON", "LATERAL") or token.is_sign(",") or self._is_join(at):
                break
            at = self._pairs[at] + 1 if token.is_sign("(") else at + 1
        return at

    def _relation(self, at: int, end: int, block: Block, *, lateral: bool, left: bool) -> int:
        token = self.tokens[at]
        if token.is_sign("("):
            close = self._pairs[at]
            if self._is_query(at + 1, close) or self.tokens[at + 1].is_word("VALUES"):
                known = len(self.uses)
                query = self._query(at + 1, close, Nesting.LATERAL if lateral else Nesting.SAME, block)
                if left and not lateral and len(self.uses) > known:
                    # Spark takes no column of a query further out on this side of a join, but one of the left side.
                    query.nesting = Nesting.LATERAL
                    self.made_lateral.append(at)
                block.laterals |= query.nesting is Nesting.LATERAL
            else:
                kept = block.from_end
                self._from(at + 1, close, block)
                block.from_end = kept
            return self._alias(close + 1, end)[1]
        if token.is_word("VALUES"):
            at += 1
            while at < end and (self.tokens[at].kind is not Kind.WORD or self.tokens[at - 1].is_sign(",")):
                at = self._step(at, block.query, block, "FROM", conjunct=False)
            return self._alias(at, end)[1]
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            raise self.error(token, f"expected the name of a dataset, found {token.text!r}")
        last = at
        while self.tokens[last + 1].is_sign(".") and last + 2 < end:
            last += 2
        if self.tokens[last + 1].is_sign("("):  # a function that makes a table
            return self._alias(self._step(last + 1, block.query, block, "FROM", conjunct=False), end)[1]
        name = ".".join(each.name for each in self.tokens[at : last + 1 : 2])
        alias, after = self._alias(last + 1, end)
        block.relations.append(Relation(name, alias or self.tokens[last].name, at, last, after))
        return after

    def _alias(self, at: int, end: int) -> tuple[str, int]:
        if at < end and self.tokens[at].is_word("AS"):
            at += 1
        elif at >= end or self.tokens[at].is_word(*_NO_ALIAS):
            return "", at
        token = self.tokens[at]
        if at >= end or token.kind not in (Kind.WORD, Kind.QUOTED):
            return "", at
        after = at + 1
        if after < end and self.tokens[after].is_sign("("):
            after = self._pairs[after] + 1
        return token.name, after

    # Expressions

    def _expressions(  # noqa: PLR0917  # where, and in what
        self, at: int, end: int, query: Query, block: Block | None, clause: str, stop: tuple[str, ...] = _SET
    ) -> int:
        """Until one of `stop`. A call is a conjunct if nothing but AND joins it to the rest."""
        first, cases, either = at, 0, False
        own: list[Call] = []
        while at < end and not (at > first and self.tokens[at].is_word(*stop)):
            token = self.tokens[at]
            cases += token.is_word("CASE") - (token.is_word("END") and cases > 0)
            either |= token.is_word("OR") and cases == 0
            joined = at == first or self.tokens[at - 1].is_word("AND")
            known = len(self.calls)
            at = self._step(at, query, block, clause, conjunct=clause in ("WHERE", "ON") and joined and cases == 0)
            own += [
                call for call in self.calls[known:] if call.conjunct and call.last + 1 == at and call.block is block
            ]
        for call in own:
            alone = call.last + 1 >= end or self.tokens[call.last + 1].is_word("AND", *stop)
            call.conjunct = alone and not either
        return at

    def _step(self, at: int, query: Query, block: Block | None, clause: str, *, conjunct: bool) -> int:
        """One token, or all in its parentheses. Returns what comes after."""
        token = self.tokens[at]
        if token.is_sign(":") and self._is_parameter(at):
            self.uses.append(Use(self.tokens[at + 1].text.strip("`"), at, query, block, clause))
            return at + 2
        if token.is_sign("("):
            close = self._pairs[at]
            if self._is_query(at + 1, close):
                # Without a SELECT around it there is nowhere to bind anything: the query itself stands for one.
                self._query(at + 1, close, Nesting.SUBQUERY, block or query.within)
            else:
                inner = at + 1
                while inner < close:
                    inner = self._step(inner, query, block, clause, conjunct=False)
            return close + 1
        if self._is_call(at) and block is not None:
            close = self._pairs[at + 1]
            call = Call(token.name, at, close, self._arguments(at + 1), clause, conjunct, block)
            self.calls.append(call)
            self._step(at + 1, query, block, clause, conjunct=False)
            return close + 1
        return at + 1

    def _is_call(self, at: int) -> bool:
        token = self.tokens[at]
        named = token.kind is Kind.WORD and token.name in self.functions
        return named and self.tokens[at + 1].is_sign("(") and not (at and self.tokens[at - 1].is_sign("."))

    def _arguments(self, opening: int) -> list[tuple[int, int]]:
        close = self._pairs[opening]
        found, first, at = [], opening + 1, opening + 1
        while at < close:
            if self.tokens[at].is_sign(","):
                found.append((first, at))
                first = at + 1
            at = self._pairs[at] + 1 if self.tokens[at].is_sign("(") else at + 1
        return [*found, (first, close)] if close > opening + 1 else []

    def _is_parameter(self, at: int) -> bool:
        if self.tokens[at + 1].kind not in (Kind.WORD, Kind.QUOTED):
            return False
        before = self.tokens[at - 1] if at else None
        if before is None:
            return False
        if before.kind is Kind.WORD:
            return before.text.upper() in _BEFORE_OPERAND
        return before.kind is Kind.SIGN and not before.is_sign(")", "]")
