"""The verbs of `nearcast broker`."""

import typer

from nearcast.cli.broker.list import list_brokers

app = typer.Typer(help="See the brokers and their agents.", no_args_is_help=True)
app.command("list")(list_brokers)


@app.callback()
def broker() -> None:
    pass  # keeps the noun while it has one verb
