"""`nearcast plan evaluate`: what the homes that a snapshot has make of notifications."""

from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json
from nearcast.cli.plan.delay import facts_of, show_facts
from nearcast.cli.plan.read import snapshot_in
from nearcast.domain.area import NOWHERE
from nearcast.domain.errors import SnapshotError


def evaluate_plan(
    *,
    snapshot: Annotated[Path, typer.Option(metavar="FILE", help="A snapshot whose clients have homes.")],
    as_json: AsJson = False,
) -> None:
    """Tell how late notifications come by the homes that clients of a snapshot have: Y, Y1, Y2, storage and load.

    Topics are processed at the homes of their publishers; what servers lack storage or compute for goes by the cloud.
    """
    seen = snapshot_in(snapshot)
    area = seen.area
    if area is None or not area.clients:
        raise SnapshotError(f"{snapshot}: has no clients with places (`area`): there are no homes to evaluate")
    homeless = [name for name, at in zip(area.clients, area.home.tolist(), strict=True) if at == NOWHERE]
    if homeless:
        raise SnapshotError(
            f"{snapshot}: {len(homeless)} clients have no home, such as {homeless[0]!r};"
            " `nearcast plan compute --policy reloc` gives them one"
        )
    facts = facts_of(seen, area.home)
    assert facts is not None, "everybody has a home"
    if as_json:
        print_json(facts)
    else:
        show_facts(facts)
