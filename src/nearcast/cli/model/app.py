"""The verbs of `nearcast model`."""

import typer

from nearcast.cli.model.collect import collect_rows
from nearcast.cli.model.predict import predict_latency
from nearcast.cli.model.show import show_model
from nearcast.cli.model.train import train_model

app = typer.Typer(
    help="Measure, learn and foretell how late topics are that are processed at one broker.", no_args_is_help=True
)
app.command("collect")(collect_rows)
app.command("train")(train_model)
app.command("show")(show_model)
app.command("predict")(predict_latency)
