"""The verbs of `nearcast plan`."""

import typer

from nearcast.cli.plan.show import show_plan

app = typer.Typer(help="See the plan: the ring and the routes over it.", no_args_is_help=True)
app.command("show")(show_plan)


@app.callback()
def plan() -> None:
    pass  # keeps the noun while it has one verb
