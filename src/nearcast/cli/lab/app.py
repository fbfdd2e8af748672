"""The verbs of `nearcast lab`."""

import typer

from nearcast.cli.lab.area import draw_area
from nearcast.cli.lab.explore import explore
from nearcast.cli.lab.list import list_experiments
from nearcast.cli.lab.replay import replay
from nearcast.cli.lab.report import write_report
from nearcast.cli.lab.run import run_experiment
from nearcast.cli.lab.scoreboard import show_scoreboard

app = typer.Typer(help="Run the papers' experiments and see which of their claims hold here.", no_args_is_help=True)
app.command("list")(list_experiments)
app.command("run")(run_experiment)
app.command("replay")(replay)
app.command("explore")(explore)
app.command("scoreboard")(show_scoreboard)
app.command("report")(write_report)
app.command("area")(draw_area)
