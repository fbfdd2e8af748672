"""`nearcast lab scoreboard`."""

from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.output import HOLDS, print_json, print_table, show_number
from nearcast.lab.result import RESULTS_ROOT, results_under
from nearcast.lab.scoreboard import ScoreRow, scoreboard


def show_scoreboard(
    results: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where results lie, at any depth; the newest that measured a claim counts."),
    ] = RESULTS_ROOT,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one object per claim.")] = False,
) -> None:
    """Print every claim with what was last measured.

    Claims are those of the registered experiments; one that no result measured is "not run". Exit code 1 when a claim
    was measured and does not hold.
    """
    from nearcast.lab.registry import EXPERIMENTS  # noqa: PLC0415 other commands do not wait for every experiment

    if results != RESULTS_ROOT and not results.is_dir():
        raise typer.BadParameter(f"{results} is not a directory", param_hint="--results")
    rows = scoreboard(EXPERIMENTS, results_under(results))
    if as_json:
        print_json(rows)
    elif rows:
        _show(rows)
    else:
        print("No experiment is registered.")
    if any(row.holds is False for row in rows):
        raise typer.Exit(1)


def _show(rows: tuple[ScoreRow, ...]) -> None:
    print_table(
        ("claim", "experiment", "statement", "expected", "measured", "holds", "run"),
        [
            (
                row.id,
                row.experiment,
                row.statement,
                row.expected,
                "not run" if row.holds is None else show_number(row.measured),
                HOLDS[row.holds],
                "" if row.mode is None else f"{row.mode}{', quick' if row.quick else ''}, seed {row.seed}",
            )
            for row in rows
        ],
    )
    holding = sum(row.holds is True for row in rows)
    failing = sum(row.holds is False for row in rows)
    print(f"{holding} hold, {failing} do not, {len(rows) - holding - failing} not run")
