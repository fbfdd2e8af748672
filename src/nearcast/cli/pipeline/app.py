"""The verbs of `nearcast pipeline`."""

import typer

from nearcast.cli.pipeline.run import run_pipeline

app = typer.Typer(help="Run feeds into datasets, and channels.", no_args_is_help=True)
app.command("run")(run_pipeline)


@app.callback()
def pipeline() -> None:
    pass  # keeps the noun while it has one verb
