"""`nearcast demo`, and further ones by name."""

import typer

from nearcast.cli.demo.emergency import show_emergency
from nearcast.cli.demo.run import show_demo

app = typer.Typer(invoke_without_command=True)
app.callback()(show_demo)
app.command("emergency")(show_emergency)
