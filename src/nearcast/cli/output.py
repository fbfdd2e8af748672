"""How commands print: JSON for programs, tables for people."""

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

# By word, not only by colour: a log has none.
HOLDS: dict[bool | None, str] = {True: "yes", False: "NO", None: ""}

_NAME_WIDTH = 28
"""Names up to here stay on one line, so that they can be found and copied."""


def print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Folds long cells, but no short names in the first column, and cuts none off. Cells are text, not markup."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for place, column in enumerate(columns):
        short = all(len(row[place]) <= _NAME_WIDTH for row in rows)
        table.add_column(column, overflow="fold", no_wrap=place == 0 and short)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def show_number(value: float | None) -> str:
    """Whole numbers in full, others to four digits."""
    if value is None:
        return "not measured"
    return str(int(value)) if float(value).is_integer() else f"{value:.4g}"


def show_rate(bytes_per_s: float) -> str:
    """To three digits, in steps of a thousand."""
    for unit in ("B/s", "kB/s", "MB/s"):
        if bytes_per_s < 999.5:
            return f"{bytes_per_s:.3g} {unit}"
        bytes_per_s /= 1e3
    return f"{bytes_per_s:.3g} GB/s"
