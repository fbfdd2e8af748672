"""WITH queries that use a parameter, put where they are read: there it is known from where they can see it."""

from __future__ import annotations

from nearcast.pipeline.sql_edits import Edits
from nearcast.pipeline.sql_scan import Cte, Scan


def inlined(scan: Scan) -> Scan:
    """The same query without WITH queries that use parameters. Their values are the same wherever they are made."""
    while True:
        cte = next((each for each in scan.ctes if _uses(scan, each)), None)
        if cte is None:
            return scan
        scan = Scan(_without(scan, cte), scan.functions)


def _uses(scan: Scan, cte: Cte) -> bool:
    return any(cte.opening < use.colon < cte.closing for use in scan.uses)


def _without(scan: Scan, cte: Cte) -> str:
    tokens, edits = scan.tokens, Edits()
    body = scan.slice(cte.opening, cte.closing + 1)
    columns = scan.slice(cte.name + 2, _end_of_columns(scan, cte)) if tokens[cte.name + 1].is_sign("(") else ""
    columns = f"({columns}" if columns else ""
    for block in scan.blocks:
        for each in block.relations:
            if block.query.cte(each.name) is cte:
                edits.replace(tokens[each.first].start, tokens[each.last].stop, body)
                if each.end == each.last + 1:
                    edits.insert(tokens[each.last].stop, f" AS {tokens[cte.name].text}{columns}")
                elif not tokens[each.end - 1].is_sign(")"):
                    edits.insert(tokens[each.end - 1].stop, columns)
    first, last = cte.name, cte.closing
    if tokens[last + 1].is_sign(","):
        last += 1
    else:
        first -= 1  # the comma before it, or WITH itself
    start, stop = tokens[first].start, tokens[last].stop
    edits.within(start, stop)
    edits.replace(start, stop, "")
    return edits.apply(scan.text).text


def _end_of_columns(scan: Scan, cte: Cte) -> int:
    at = cte.name + 2
    while not scan.tokens[at].is_sign(")"):
        at += 1
    return at + 1
