"""The entry point: puts the nouns together, and turns every error of ours into one line and exit code 1."""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated

import typer

from nearcast.domain.errors import NearcastError

COMMANDS = {
    "up": "up:start_fleet",
    "status": "status:show_status",
    "doctor": "doctor:diagnose",
    "pub": "pub:publish",
    "sub": "sub:subscribe",
    "rtt": "rtt:measure_rtt",
    "homes": "homes:show_homes",
    "agent": "agent:run_agent",
    "coordinator": "coordinator:run_coordinator",
    "demo": "demo.app:app",
    "topic": "topic.app:app",
    "broker": "broker.app:app",
    "plan": "plan.app:app",
    "rebalance": "rebalance.app:app",
    "token": "token:app",
    "dataset": "dataset.app:app",
    "feed": "feed.app:app",
    "channel": "channel.app:app",
    "procedure": "procedure.app:app",
    "pipeline": "pipeline.app:app",
    "subscription": "subscription.app:app",
    "model": "model.app:app",
    "lab": "lab.app:app",
    "bench": "bench.app:app",
}
"""Every command, in the order of the help, and what runs it: an application for a noun, a function otherwise."""


def command_line(first: str = "") -> typer.Typer:
    """The commands, or only the one whose name comes `first`: what the others import would make each wait a second."""
    app = typer.Typer(
        name="nearcast",
        help="A fleet of ordinary pub/sub servers as one system that keeps a latency promise per topic.",
        epilog="Exit codes: 0 all well, 1 it failed or a claim does not hold, 2 wrong usage.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # Frames break an error message over lines that no grep finds.
    )
    app.callback()(nearcast)
    for name in [first] if first in COMMANDS else COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(f"nearcast.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nearcast {version('nearcast')}")
        raise typer.Exit


def nearcast(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line of this process, and exit."""
    try:
        command_line(*sys.argv[1:2])()
    except NearcastError as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        print(f"nearcast: {error}{notes}", file=sys.stderr)
        sys.exit(1)
