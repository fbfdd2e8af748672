"""`nearcast up`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from nearcast.cli.options import AsJson
from nearcast.cli.output import print_json
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.transport.process import run_until_stopped


def start_fleet(
    sites: Annotated[int, typer.Option(min=1, max=16, help="How many sites, each with a broker of its own.")] = 3,
    brokers: Annotated[Literal["nats", "redis"], typer.Option(help="The kind of servers.")] = "nats",
    state: Annotated[
        Path, typer.Option(metavar="DIR", help="Where everything is kept: configuration, data, logs.")
    ] = Path(".nearcast"),
    delay_ms: Annotated[
        float, typer.Option("--delay", min=0, max=1000, help="One-way ms between neighbouring sites; 0: all are near.")
    ] = 0.0,
    coordinators: Annotated[int, typer.Option(min=1, max=5, help="How many coordinators; one leads.")] = 2,
    *,
    as_json: AsJson = False,
) -> None:
    """Start servers, agents and coordinators on this machine, and keep them running until Ctrl-C.

    Other commands find the configuration in ./.nearcast, or by --config.
    """
    near_s = 0.0005 if delay_ms else 0.0
    spec = LocalSpec(sites=sites, kind=brokers, coordinators=coordinators, near_s=near_s, hop_s=delay_ms / 1e3)
    raise typer.Exit(run_until_stopped(lambda stopped: _serve(spec, state, as_json, stopped)))


async def _serve(spec: LocalSpec, state: Path, as_json: bool, stopped: asyncio.Event) -> None:
    def say(message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    async def start(supervisor: Supervisor) -> None:
        config = await launch(supervisor, spec)
        children = supervisor.status.children
        if as_json:
            print_json({"ready": True, "config": str(config), "children": children})
            sys.stdout.flush()
            return
        say(f"{len(children)} processes run: {', '.join(child.name for child in children)}")
        say(f"configuration: {config}    logs: {state / 'logs'}")
        say(
            "try `nearcast status`, `nearcast sub hello` and, elsewhere, `nearcast pub hello world`; Ctrl-C ends it all"
        )

    await Supervisor(state, say=say).run(start, stopped)
