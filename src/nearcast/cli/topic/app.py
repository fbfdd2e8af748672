"""The verbs of `nearcast topic`."""

import typer

from nearcast.cli.topic.explain import explain_topic
from nearcast.cli.topic.list import list_topics
from nearcast.cli.topic.move import move_topic
from nearcast.cli.topic.set import set_topic
from nearcast.cli.topic.show import show_topic

app = typer.Typer(help="See where topics are and why, move them, and promise latencies.", no_args_is_help=True)
app.command("list")(list_topics)
app.command("show")(show_topic)
app.command("move")(move_topic)
app.command("set")(set_topic)
app.command("explain")(explain_topic)
