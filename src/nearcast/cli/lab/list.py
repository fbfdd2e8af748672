"""`nearcast lab list`."""

from typing import Annotated

import typer

from nearcast.cli.output import print_json, print_table


def list_experiments(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: one object per experiment.")] = False,
) -> None:
    """List the experiments, their claims and modes."""
    from nearcast.lab.registry import EXPERIMENTS  # noqa: PLC0415 other commands do not wait for every experiment

    if as_json:
        print_json(
            [
                {
                    "name": one.name,
                    "paper": one.paper,
                    "summary": one.summary,
                    "modes": one.modes,
                    "options": one.options,
                    "claims": one.expectations,
                }
                for one in EXPERIMENTS.values()
            ]
        )
        return
    if not EXPERIMENTS:
        print("No experiment is registered.")
        return
    print_table(
        ("experiment", "claims", "modes", "shows"),
        [
            (
                one.name,
                ", ".join(dict.fromkeys(claim.id for claim in one.expectations)),
                ", ".join(one.modes),
                one.summary,
            )
            for one in EXPERIMENTS.values()
        ],
    )
