"""The verbs of `nearcast plan`."""

import typer

from nearcast.cli.plan.compute import compute_plan
from nearcast.cli.plan.evaluate import evaluate_plan
from nearcast.cli.plan.show import show_plan

app = typer.Typer(help="See the plan: the ring and the routes over it; and compute another.", no_args_is_help=True)
app.command("show")(show_plan)
app.command("compute")(compute_plan)
app.command("evaluate")(evaluate_plan)
