"""`nearcast lab report`."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.output import print_json
from nearcast.cli.progress import progress_bar
from nearcast.domain.errors import NearcastError
from nearcast.lab.experiment import RunSettings
from nearcast.lab.fanout import available_jobs
from nearcast.lab.result import RESULTS_ROOT, located_results, run_directory, write_result

if TYPE_CHECKING:
    from nearcast.lab.experiment import Experiment


def write_report(
    results: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Where results lie, at any depth; the newest that measured a claim counts."),
    ] = RESULTS_ROOT,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The page; by default report.html there.")] = None,
    *,
    quick: Annotated[
        bool, typer.Option("--quick", help="First run every experiment quickly: some 40 minutes on two processors.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The seed of those runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: the page and the counts.")] = False,
) -> None:
    """Write one HTML page with every claim, what was measured, and the plots. It needs no other file.

    Exit code 1 when a claim was measured and does not hold, or an experiment could not be run.
    """
    from nearcast.lab.registry import EXPERIMENTS  # noqa: PLC0415 other commands do not wait for every experiment
    from nearcast.lab.report import report  # noqa: PLC0415
    from nearcast.lab.scoreboard import scoreboard  # noqa: PLC0415

    if results != RESULTS_ROOT and not results.is_dir() and not quick:
        raise typer.BadParameter(f"{results} is not a directory", param_hint="--results")
    failed = run_all(EXPERIMENTS, results, seed, quiet=as_json) if quick else {}
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


def run_all(experiments: "dict[str, Experiment]", root: Path, seed: int, *, quiet: bool) -> dict[str, str]:
    """Runs each in its first mode; those that could not be, and why."""
    failed: dict[str, str] = {}
    begun_s = time.monotonic()
    for number, (name, experiment) in enumerate(experiments.items(), 1):
        passed_s = time.monotonic() - begun_s
        left_s = passed_s / (number - 1) * (len(experiments) - number + 1) if number > 1 else 0.0
        if not quiet:
            left = f", about {left_s / 60:.0f} min left" if number > 1 else ""
            print(f"[{number}/{len(experiments)}] {name}{left}", file=sys.stderr, flush=True)
        settings = RunSettings(mode=experiment.modes[0], seed=seed, quick=True, jobs=available_jobs())
        try:
            with progress_bar(wanted=not quiet) as progress:
                outcome = experiment.run(settings, progress)
            write_result(run_directory(root, name, settings), name, settings, outcome)
        except NearcastError as error:
            failed[name] = str(error)
    return failed
