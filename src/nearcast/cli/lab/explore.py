"""`nearcast lab explore`."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.output import print_json, print_table
from nearcast.cli.progress import progress_bar
from nearcast.control.rules import NAMES
from nearcast.lab.fanout import available_jobs, map_seeds
from nearcast.sim.counterexamples import COUNTEREXAMPLES, find, page
from nearcast.sim.explore import Exploration
from nearcast.sim.explore import explore as explore_scenario
from nearcast.sim.scenarios import QUICK, SCENARIOS


def explore(
    config: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A configuration; may be given more than once.")
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Turn one rule off; by default where its counterexample is known to be."),
    ] = None,
    *,
    full: Annotated[bool, typer.Option("--full", help="All configurations: half an hour, not two minutes.")] = False,
    counterexamples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Find a counterexample for every rule and write them here.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes to use; by default one per core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one object per configuration.")] = False,
) -> None:
    """Run every interleaving of small configurations on the protocol's machines.

    Exit code 1 when a violation is found with every rule on, or none with one off.
    """
    if counterexamples is not None:
        _write_counterexamples(counterexamples)
        return
    if without is not None and without not in NAMES:
        raise typer.BadParameter(f"{without!r} is not a rule; one of {', '.join(NAMES)}", param_hint="--without")
    if without is not None and not config:
        runs = [find(without)]
    else:
        names = tuple(config) if config else tuple(SCENARIOS) if full else QUICK
        for name in names:
            if name not in SCENARIOS:
                known = ", ".join(SCENARIOS)
                raise typer.BadParameter(f"{name!r} is not a configuration; one of {known}", param_hint="--config")
        with progress_bar(wanted=not as_json) as progress:
            one = partial(_explore_one, names, without)
            runs = map_seeds(one, range(len(names)), jobs or available_jobs(), progress, "configurations")
    if as_json:
        print_json([_as_dict(run) for run in runs])
    else:
        _show(runs)
    if any(run.violation is None for run in runs) if without else any(not run.fine for run in runs):
        raise typer.Exit(1)


def _explore_one(names: tuple[str, ...], without: str | None, number: int) -> Exploration:
    scenario = SCENARIOS[names[number]]
    if without is not None:
        scenario = replace(scenario, rules=scenario.rules.without(without))
    return explore_scenario(scenario, name=names[number])


def _show(runs: list[Exploration]) -> None:
    print_table(
        ("configuration", "states", "transitions", "last states", "seconds", "found"),
        [
            (
                run.scenario,
                str(run.states),
                str(run.transitions),
                str(run.final_states),
                f"{run.seconds:.1f}",
                _found(run),
            )
            for run in runs
        ],
    )
    states, transitions = sum(run.states for run in runs), sum(run.transitions for run in runs)
    print(f"{states} states, {transitions} transitions, {sum(run.seconds for run in runs):.0f} s of one core")
    for run in runs:
        if run.violation is not None:
            print(f"\n{run.scenario}: {run.violation}")


def _found(run: Exploration) -> str:
    if run.violation is not None:
        return run.violation.what
    if run.walks:
        return f"nothing, in {run.walks} random runs"
    return "nothing" if run.complete else "too many states"


def _as_dict(run: Exploration) -> dict[str, object]:
    violation = run.violation
    return {
        "configuration": run.scenario,
        "states": run.states,
        "transitions": run.transitions,
        "final_states": run.final_states,
        "seconds": round(run.seconds, 3),
        "complete": run.complete,
        "random_runs": run.walks,
        "violation": None if violation is None else {"what": violation.what, "trace": violation.trace},
    }


def _write_counterexamples(path: Path) -> None:
    found = {rule: find(rule) for rule in COUNTEREXAMPLES}
    path.write_text(page(found))
    for rule, run in found.items():
        print(
            f"{rule}: {run.violation.what if run.violation else 'nothing'} ({run.states} states, {run.seconds:.1f} s)"
        )
    if any(run.violation is None for run in found.values()):
        raise typer.Exit(1)
