"""`nearcast lab replay`."""

from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.output import print_json
from nearcast.control.rules import ALL_ON, NAMES
from nearcast.lab.experiments import dynamoth_reconfiguration, reloc_moves


def replay(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An experiment in virtual time.")],
    *,
    seed: Annotated[int, typer.Option(min=0, help="The seed to run again.")],
    faults: Annotated[bool, typer.Option("--faults", help="As the run had them.")] = False,
    elastic: Annotated[bool, typer.Option("--elastic", help="Likewise, with servers that come and go.")] = False,
    without: Annotated[
        str | None, typer.Option(metavar="RULE", help=f"With one rule off: {', '.join(NAMES)}.", show_default=False)
    ] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole history there.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts and the trace as JSON.")] = False,
) -> None:
    """Run one seed again, the same way to the last bit, and show what went wrong first.

    Exit code 1 when a message was lost without a report, repeated or out of order.
    """
    seeded = (dynamoth_reconfiguration.NAME, reloc_moves.NAME)
    if name not in seeded:
        raise typer.BadParameter(f"{name!r} has no seeds to replay; {' and '.join(seeded)} have")
    if elastic and name != dynamoth_reconfiguration.NAME:
        raise typer.BadParameter(f"{name} has no --elastic")
    if without is not None and without not in NAMES:
        raise typer.BadParameter(f"no rule {without!r}; rules are {', '.join(NAMES)}")
    from nearcast.sim.check import check  # noqa: PLC0415 other commands need no simulator
    from nearcast.sim.reconfiguration import Scale, grace_s, homed_scale, run_seed  # noqa: PLC0415 likewise
    from nearcast.sim.trace import first_finding, minimal_trace  # noqa: PLC0415 likewise

    rules = ALL_ON.without(without) if without else ALL_ON
    scale = homed_scale(seed) if name == reloc_moves.NAME else Scale(elastic=elastic)
    recorded = run_seed(seed, faults=faults, rules=rules, scale=scale)
    if history is not None:
        history.write_bytes(recorded.to_bytes())
    result = check(recorded, grace_s=grace_s(faults))
    found = first_finding(result)
    trace = minimal_trace(recorded, found[1]) if found else []
    if as_json:
        print_json({"seed": seed, "faults": faults, "elastic": elastic, **result.counts(), "trace": trace})
    else:
        for key, value in result.counts().items():
            print(f"{key:>16}  {value}")
        if found is not None:
            kind, finding = found
            print(f"\nfirst {kind}: message {finding.seq} of publisher {finding.publisher}, ", end="")
            print(f"subscription {finding.subscription}")
            print("\n".join(trace))
    if found is not None:
        raise typer.Exit(1)
