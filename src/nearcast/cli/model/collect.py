"""`nearcast model collect`."""

import asyncio
import enum
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, parse_seconds
from nearcast.cli.output import print_json
from nearcast.cli.progress import progress_bar
from nearcast.domain.errors import ConfigError

_MOST_TOPICS = 16


class Brokers(enum.StrEnum):
    NATS = "nats"
    REDIS = "redis"


def collect_rows(
    rows: Annotated[Path, typer.Argument(metavar="ROWS", help="The folder that rows are added to.", file_okay=False)],
    *,
    topics: Annotated[str, typer.Option(metavar="K", help="How many topics together, like 3 or 1-6.")] = "1-6",
    runs: Annotated[int, typer.Option(min=0, help="Runs to learn from, for each number of topics.")] = 50,
    validate: Annotated[int, typer.Option(min=0, help="Runs to judge by, for each; simulated ones never do.")] = 50,
    lasting: Annotated[str, typer.Option(metavar="TIME", help="How long load lasts in each run.")] = "12s",
    warm_up: Annotated[str, typer.Option(metavar="TIME", help="What does not count at the begin of a run.")] = "2s",
    minutes: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after so long; the next call goes on.", show_default=False)
    ] = None,
    brokers: Annotated[Brokers, typer.Option(help="The kind of server.")] = Brokers.NATS,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="At a simulated broker, in seconds; such rows may only train.")
    ] = False,
    overhead: Annotated[
        float, typer.Option(metavar="MS", min=0.0, help="Simulated: what a message costs beside its interval.")
    ] = 0.5,
    delay: Annotated[float, typer.Option(metavar="MS", min=0.0, help="Simulated: its way there and back.")] = 2.0,
    seed: Annotated[int, typer.Option(min=0, help="Of intervals, rates and messages.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure how late topics are that are processed together, in many configurations, and keep it as rows.

    A real server, its agent and its processors have one core of this machine, publishers and subscribers another; each
    message is processed for 10 to 40 ms. Runs in which the load generator was more than 5 ms behind its schedule, or
    a virtual machine's host had 2 % of a core and more, are discarded, counted and tried again after the others. Which
    runs judge is settled here, before anything is learned. What the folder has is not measured again, so that the
    command can be interrupted and repeated.
    """
    from nearcast.lab import measuring  # noqa: PLC0415  # extras
    from nearcast.lab.workloads.colocated import most_rates_of  # noqa: PLC0415
    from nearcast.pipeline.measurements import COLLECTED, SIMULATED  # noqa: PLC0415
    from nearcast.predict.queueing import Processors  # noqa: PLC0415

    lasting_s, warm_up_s = parse_seconds("--lasting", lasting), parse_seconds("--warm-up", warm_up)
    assert lasting_s is not None
    assert warm_up_s is not None
    if not 0 <= warm_up_s < lasting_s:
        raise ConfigError(f"--warm-up {warm_up} does not leave anything of --lasting {lasting}")
    processors = Processors(1, overhead, delay, lasting_s)
    plan = measuring.planned(
        _numbers(topics),
        runs=runs,
        validate=0 if simulated else validate,
        most_hz=most_rates_of(processors),
        processors=processors,
        seed=seed,
        source=SIMULATED if simulated else COLLECTED,
    )
    with progress_bar(wanted=not as_json) as progress:
        if simulated:
            found = measuring.collect_simulated(plan, rows, processors, seed, progress)
        else:
            found = asyncio.run(
                measuring.collect(
                    plan,
                    rows,
                    kind=brokers,
                    lasting_s=lasting_s,
                    warm_up_s=warm_up_s,
                    for_s=None if minutes is None else 60 * minutes,
                    progress=progress,
                    say=lambda text: print(text, file=sys.stderr),
                )
            )
    if as_json:
        print_json({"rows": str(rows), "simulated": simulated, "seed": seed, **asdict(found)})
        return
    late = f", {found.discarded} discarded: the machine was disturbed" if found.discarded else ""
    left = f", {found.left} are left: repeat the command" if found.left else ""
    print(f"{rows}: {found.runs} runs more{late}{left}")


def _numbers(text: str) -> list[int]:
    first, dash, last = text.partition("-")
    try:
        found = list(range(int(first), int(last if dash else first) + 1))
    except ValueError:
        found = []
    if not found or not 1 <= found[0] <= found[-1] <= _MOST_TOPICS:
        raise ConfigError(f"--topics {text!r}: expected a number from 1 to {_MOST_TOPICS}, or two, like 1-6")
    return found
