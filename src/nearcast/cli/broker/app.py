"""The verbs of `nearcast broker`."""

import typer

from nearcast.cli.broker.list import list_brokers
from nearcast.cli.broker.orders import add_broker, drain_broker, remove_broker

app = typer.Typer(help="See the brokers and their agents; add, drain and remove brokers.", no_args_is_help=True)
app.command("list")(list_brokers)
app.command("add")(add_broker)
app.command("drain")(drain_broker)
app.command("remove")(remove_broker)
