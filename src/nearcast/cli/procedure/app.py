"""The verbs of `nearcast procedure`."""

import typer

from nearcast.cli.procedure.change import create_procedure, drop_procedure
from nearcast.cli.procedure.run import run_procedure
from nearcast.cli.procedure.show import list_procedures

app = typer.Typer(help="Insert into datasets, delete from them, or ask them, once or regularly.", no_args_is_help=True)
app.command("create")(create_procedure)
app.command("list")(list_procedures)
app.command("run")(run_procedure)
app.command("drop")(drop_procedure)
