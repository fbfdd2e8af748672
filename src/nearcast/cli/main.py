"""The entry point: puts the nouns together, and turns every error of ours into one line and exit code 1."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from nearcast.cli.agent import run_agent
from nearcast.cli.bench.app import app as bench_app
from nearcast.cli.broker.app import app as broker_app
from nearcast.cli.coordinator import run_coordinator
from nearcast.cli.demo.run import show_demo
from nearcast.cli.doctor import diagnose
from nearcast.cli.lab.app import app as lab_app
from nearcast.cli.plan.app import app as plan_app
from nearcast.cli.pub import publish
from nearcast.cli.rebalance.app import app as rebalance_app
from nearcast.cli.rtt import measure_rtt
from nearcast.cli.status import show_status
from nearcast.cli.sub import subscribe
from nearcast.cli.topic.app import app as topic_app
from nearcast.cli.up import start_fleet
from nearcast.domain.errors import NearcastError

app = typer.Typer(
    name="nearcast",
    help="A fleet of ordinary pub/sub servers as one system that keeps a latency promise per topic.",
    epilog="Exit codes: 0 all well, 1 it failed or a claim does not hold, 2 wrong usage.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Frames break an error message over lines that no grep finds.
)
app.command("demo")(show_demo)
app.command("up")(start_fleet)
app.command("status")(show_status)
app.command("doctor")(diagnose)
app.command("pub")(publish)
app.command("sub")(subscribe)
app.add_typer(topic_app, name="topic")
app.add_typer(broker_app, name="broker")
app.add_typer(plan_app, name="plan")
app.add_typer(rebalance_app, name="rebalance")
app.command("rtt")(measure_rtt)
app.command("agent")(run_agent)
app.command("coordinator")(run_coordinator)
app.add_typer(lab_app, name="lab")
app.add_typer(bench_app, name="bench")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nearcast {version('nearcast')}")
        raise typer.Exit


@app.callback()
def nearcast(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line of this process, and exit."""
    try:
        app()
    except NearcastError as error:
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        print(f"nearcast: {error}{notes}", file=sys.stderr)
        sys.exit(1)
