"""`nearcast lab run`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.output import HOLDS, print_table, show_number
from nearcast.cli.progress import progress_bar
from nearcast.domain.errors import ConfigError
from nearcast.lab.experiment import Kind, Mode, RunSettings
from nearcast.lab.fanout import available_jobs
from nearcast.lab.result import RESULTS_ROOT, Result, check_writable, run_directory, write_result
from nearcast.pipeline.session import LOCAL

if TYPE_CHECKING:
    from nearcast.lab.experiment import Experiment


def run_experiment(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment that `nearcast lab list` names.")],
    *,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="Real servers, virtual time or a flow model; by default the experiment's first.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed, or the first one of several.")] = 0,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds, from --seed on; by default as many as the experiment asks for."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, the same rules; within minutes.")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="With crashes, cuts, pauses and partitions.")] = False,
    elastic: Annotated[bool, typer.Option("--elastic", help="With servers that come and go.")] = False,
    brokers: Annotated[
        Kind | None,
        typer.Option(help="The kind of real servers, with --mode live; by default nats.", show_default=False),
    ] = None,
    latency_matrix: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Real round-trip times: a square .npy matrix in ms.", show_default=False),
    ] = None,
    popularity: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Real topics' sizes: a CSV with a column `subscribers`, or counts per minute.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="NEARCAST_DATA",
            help="A folder of real data sets, for experiments that use some.",
            show_default=False,
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=1, help="How long the workload lasts, where it has a length.", show_default=False
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="HZ",
            min=0.1,
            help="Messages per second of each publisher, where there is a choice.",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(
            metavar="TIMES",
            min=1.0,
            help="Everything so many times as far, and promises as many times as long.",
            show_default=False,
        ),
    ] = None,
    followers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who follows whom: lines `follower, [followees...]`, or a pair each.",
            show_default=False,
        ),
    ] = None,
    recorded: Annotated[bool, typer.Option("--recorded", help="Clients go as real ones did; needs --data.")] = False,
    rows: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="What `nearcast model collect` measured, for experiments that learn.",
            show_default=False,
        ),
    ] = None,
    trips: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Real taxi trips or fixes: CSV or Parquet.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help=f"The directory for result.json, CSVs and PNGs; by default one below {RESULTS_ROOT}."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes to use; by default one per core.")] = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="On Spark, where the experiment can; the same numbers.")
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The Spark master (spark://...), with --spark; by default this machine.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print result.json, and no progress.")] = False,
) -> None:
    """Run one experiment and say which claims hold.

    Writes result.json, a CSV per table and a PNG per figure. Exit code 1 when a claim does not hold.
    """
    experiment = _find(name)
    if master is not None and not spark:
        raise typer.BadParameter("--master is for runs on Spark: add --spark, or leave it out")
    settings = RunSettings(
        mode=mode or experiment.modes[0],
        seed=seed,
        seeds=seeds,
        quick=quick,
        faults=faults,
        jobs=jobs or available_jobs(),
        brokers=brokers,
        latency_matrix=latency_matrix,
        popularity=popularity,
        elastic=elastic,
        data=data if "data" in experiment.options else None,  # it may be in the environment for others' sake
        spark=(master or LOCAL) if spark else None,
        duration_s=duration,
        rate_hz=rate,
        scale=scale,
        recorded=recorded,
        rows=rows,
        trips=trips,
        followers=followers,
    )
    if reason := experiment.refusal(settings):
        raise typer.BadParameter(reason)
    directory = out or run_directory(RESULTS_ROOT, name, settings)
    check_writable(directory)
    with progress_bar(wanted=not as_json) as progress:
        outcome = experiment.run(settings, progress)
    result = write_result(directory, name, settings, outcome)
    if as_json:
        print(result.to_json().decode(), end="")
    else:
        _show(result, directory)
    if not all(claim.holds for claim in result.claims):
        raise typer.Exit(1)


def _find(name: str) -> "Experiment":
    from nearcast.lab.registry import find  # noqa: PLC0415 other commands do not wait for every experiment

    try:
        return find(name)
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="NAME") from error


def _show(result: Result, directory: Path) -> None:
    print_table(
        ("claim", "statement", "expected", "measured", "holds"),
        [
            (claim.id, claim.statement, claim.expected, show_number(claim.measured), HOLDS[claim.holds])
            for claim in result.claims
        ],
    )
    for key, value in result.metrics.items():
        if isinstance(value, str | int | float):
            print(f"{key}: {value if isinstance(value, str) else show_number(value)}")
    for file in ("result.json", *result.artifacts):
        print(directory / file)
