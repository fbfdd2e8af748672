"""`nearcast lab area`: a field of clients, servers and topics as a snapshot."""

from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json
from nearcast.domain.errors import ConfigError
from nearcast.domain.snapshot_json import write_snapshot
from nearcast.lab.workloads.field import MOST_MEMBERS, Field, drawn_area, read_followers, snapshot_of

_DEFAULT = Field()


def draw_area(
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The snapshot to write.", dir_okay=False)],
    seed: Annotated[int, typer.Option(min=0)] = 0,
    topics: Annotated[int, typer.Option(min=1, help="How many topics.")] = _DEFAULT.topics,
    servers: Annotated[int, typer.Option(min=1, help="How many servers, on a grid.")] = _DEFAULT.servers,
    sigma: Annotated[
        float, typer.Option(metavar="KM", min=0.001, help="How far members of a topic are from its middle.")
    ] = _DEFAULT.sigma_km,
    side: Annotated[float, typer.Option(metavar="KM", min=0.001, help="The side of the field.")] = _DEFAULT.side_km,
    spool: Annotated[
        float, typer.Option(min=0.0, help="Messages that a processor keeps, for each client of its topic.")
    ] = _DEFAULT.spool,
    storage: Annotated[float, typer.Option(min=0.001, help="Messages that a server may keep.")] = _DEFAULT.storage,
    compute: Annotated[float, typer.Option(min=0.001, help="Messages it may look at, once each.")] = _DEFAULT.compute,
    most_members: Annotated[int, typer.Option(min=2, help="Clients of a topic at most.")] = MOST_MEMBERS,
    disjoint: Annotated[bool, typer.Option("--disjoint", help="No client has two topics.")] = False,
    followers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who follows whom: lines `follower, [followees...]`, or a pair each; by default a graph is drawn.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a field as RELOC's authors draw theirs, for `plan compute`: clients around the middles of their topics.

    Nobody has a home yet. A topic is a follower with all whom it follows.
    """
    field = Field(topics, servers, sigma, spool, storage, compute, not disjoint, most_members, side)
    area = drawn_area(field, seed, None if followers is None else read_followers(followers))
    try:
        out.write_bytes(write_snapshot(snapshot_of(area)))
    except OSError as error:
        raise ConfigError(f"{out}: cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"file": str(out), "clients": len(area.clients), "topics": topics, "servers": servers})
    else:
        print(f"{out}: {len(area.clients)} clients, {topics} topics, {servers} servers; `plan compute` reads it")
