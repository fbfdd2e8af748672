"""The verbs of `nearcast channel`."""

import typer

from nearcast.cli.channel.create import create_channel
from nearcast.cli.channel.drop import drop_channel
from nearcast.cli.channel.explain import explain_channel
from nearcast.cli.channel.show import list_channels, show_channel

app = typer.Typer(help="Create and drop channels, see what they ask and how it goes.", no_args_is_help=True)
app.command("create")(create_channel)
app.command("list")(list_channels)
app.command("show")(show_channel)
app.command("explain")(explain_channel)
app.command("drop")(drop_channel)
