"""`nearcast rebalance`."""

import typer

from nearcast.cli.rebalance.orders import apply_plan, make_plan, show_progress, stop_plan

app = typer.Typer(no_args_is_help=True, help="Spread load over the brokers: see what would move, do it, stop it.")
app.command("plan")(make_plan)
app.command("apply")(apply_plan)
app.command("status")(show_progress)
app.command("stop")(stop_plan)
