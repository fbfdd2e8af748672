"""`nearcast dataset drop`."""

from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def drop_dataset(
    name: Annotated[str, typer.Argument(help="The dataset.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Drop a dataset with all its records, unless something fills or reads it."""
    raise typer.Exit(run(_drop(load_config(config), name, as_json)))


async def _drop(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = CatalogStore(store)
        gone = (await catalog.read()).dataset(name)
        await catalog.change(lambda now: now.without_dataset(name))
        await Table(store, config.tables, gone).drop()
    if as_json:
        print_json({"dataset": gone.name, "id": gone.id, "dropped": True})
    else:
        print(f"{gone.name}: dropped, with its records")
