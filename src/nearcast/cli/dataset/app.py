"""The verbs of `nearcast dataset`."""

import typer

from nearcast.cli.dataset.create import create_dataset
from nearcast.cli.dataset.drop import drop_dataset
from nearcast.cli.dataset.load import load_dataset
from nearcast.cli.dataset.show import list_datasets, show_dataset

app = typer.Typer(help="Create and drop datasets, load files into them, see what they hold.", no_args_is_help=True)
app.command("create")(create_dataset)
app.command("list")(list_datasets)
app.command("show")(show_dataset)
app.command("load")(load_dataset)
app.command("drop")(drop_dataset)
