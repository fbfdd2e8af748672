"""`nearcast lab report`."""

import math
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Annotated

import typer

from nearcast.cli.output import print_json
from nearcast.cli.progress import progress_bar
from nearcast.domain.errors import NearcastError
from nearcast.lab.result import RESULTS_ROOT, located_results


def write_report(
    results: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where results lie, at any depth; the newest that measured a claim counts."),
    ] = RESULTS_ROOT,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page; by default report.html there.")] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="First run every experiment quickly: within 20 minutes on two processors.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of those runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the page and the counts.")] = False,
) -> None:
    """Write one HTML page with every claim, what was measured, and the plots. It needs no other file.

    Exit code 1 when a claim was measured and does not hold, or an experiment could not be run.
    """
    from nearcast.lab.quick import run_all  # noqa: PLC0415
    from nearcast.lab.registry import EXPERIMENTS  # noqa: PLC0415 other commands do not wait for every experiment
    from nearcast.lab.report import report  # noqa: PLC0415
    from nearcast.lab.scoreboard import scoreboard  # noqa: PLC0415

    if results != RESULTS_ROOT and not results.is_dir() and not quick:
        raise typer.BadParameter(f"{results} is not a directory", param_hint="--results")
    failed: dict[str, str] = {}
    if quick:
        count = _Count(len(EXPERIMENTS), quiet=as_json)
        failed = run_all(
            EXPERIMENTS, results, seed, ended=count.ended, shown=lambda _name: progress_bar(wanted=not as_json)
        )
    found = located_results(results) if results.is_dir() else []
    page = out or results / "report.html"
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(report(EXPERIMENTS, found, made, failed), encoding="utf-8")
    except OSError as error:
        raise NearcastError(f"{page} cannot be written: {error.strerror}") from error
    rows = scoreboard(EXPERIMENTS, [result for _, result in found])
    counts = {
        "holds": sum(row.holds is True for row in rows),
        "does_not_hold": sum(row.holds is False for row in rows),
        "not_run": sum(row.holds is None for row in rows),
    }
    if as_json:
        print_json({"page": str(page), **counts, "failed": failed})
    else:
        print(f"{page}: {counts['holds']} hold, {counts['does_not_hold']} do not, {counts['not_run']} not run")
        for name, why in failed.items():
            print(f"{name} could not be run: {why}")
    if counts["does_not_hold"] or failed:
        raise typer.Exit(1)


class _Count:
    """Says how many have ended, to who waits for them."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total = total
        self._quiet = quiet
        self._done = 0
        self._begun_s = time.monotonic()
        self._lock = Lock()

    def ended(self, name: str) -> None:
        with self._lock:
            self._done += 1
            left_s = (time.monotonic() - self._begun_s) / self._done * (self._total - self._done)
            if not self._quiet:
                left = f", about {math.ceil(left_s / 60)} min left" if left_s else ""
                print(f"[{self._done}/{self._total}] {name}{left}", file=sys.stderr, flush=True)
