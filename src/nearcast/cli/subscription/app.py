"""The verbs of `nearcast subscription`."""

import typer

from nearcast.cli.subscription.create import create_subscription
from nearcast.cli.subscription.drop import drop_subscription
from nearcast.cli.subscription.follow import follow_subscription
from nearcast.cli.subscription.show import list_subscriptions, show_subscription

app = typer.Typer(help="Subscribe to channels, and see what is subscribed to.", no_args_is_help=True)
app.command("follow")(follow_subscription)
app.command("create")(create_subscription)
app.command("list")(list_subscriptions)
app.command("show")(show_subscription)
app.command("drop")(drop_subscription)
