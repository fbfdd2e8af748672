"""`nearcast channel drop`."""

from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.progress import drop
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def drop_channel(
    name: Annotated[str, typer.Argument(help="The channel.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Drop a channel with its subscriptions and results."""
    raise typer.Exit(run(_drop(load_config(config), name, as_json)))


async def _drop(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalogs = CatalogStore(store)
        catalog = await catalogs.read()
        gone = catalog.channel(name)
        tables = {each: Table(store, config.tables, catalog.dataset(each)) for each in gone.datasets}
        await catalogs.change(lambda now: now.without_channel(name))
        await drop(store, config.tables, gone, tables)
    if as_json:
        print_json({"channel": gone.name, "id": gone.id, "dropped": True})
    else:
        print(f"{gone.name}: dropped, with its subscriptions and results")
