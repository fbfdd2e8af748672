"""The verbs of `nearcast feed`."""

import typer

from nearcast.cli.feed.create import create_feed
from nearcast.cli.feed.drop import drop_feed
from nearcast.cli.feed.show import list_feeds, show_feed

app = typer.Typer(help="Create and drop feeds, see how far they are.", no_args_is_help=True)
app.command("create")(create_feed)
app.command("list")(list_feeds)
app.command("show")(show_feed)
app.command("drop")(drop_feed)
