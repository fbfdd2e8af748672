"""`nearcast procedure list`."""

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.runs import runs_of
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_COLUMNS = ("procedure", "does", "runs", "last run", "rows", "seconds", "error")


def list_procedures(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List procedures with their last runs."""
    raise typer.Exit(run(_list(load_config(config), as_json)))


async def _list(config: Config, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
        found = [(each, (await runs_of(store, each))[0]) for each in catalog.procedures]
    if as_json:
        print_json([{"procedure": each, "runs": runs.kept} for each, runs in found])
        return
    if not found:
        print("There is no procedure yet: `nearcast procedure create NAME --sql STATEMENT` makes one.")
        return
    rows = []
    for each, runs in found:
        does = f"{each.verb} {each.target}" if each.target else str(each.verb)
        when = "when told to" if each.period_s is None else f"every {each.period_s:g} s"
        last = runs.kept[-1] if runs.kept else None
        done = (str(last.number), str(last.rows), f"{last.took_s:.3f}", last.error or "") if last else ("", "", "", "")
        rows.append((each.name, does, when, *done))
    print_table(_COLUMNS, rows)
