"""`nearcast feed drop`."""

from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.files import remove_folder
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import in_thread
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def drop_feed(
    name: Annotated[str, typer.Argument(help="The feed.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Drop a feed; what it brought stays in its dataset. One of the same name begins anew."""
    raise typer.Exit(run(_drop(load_config(config), name, as_json)))


async def _drop(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = CatalogStore(store)
        gone = (await catalog.read()).feed(name)
        await catalog.change(lambda now: now.without_feed(name))
    await in_thread(remove_folder, config.tables / gone.folder)
    if as_json:
        print_json({"feed": gone.name, "id": gone.id, "dropped": True})
    else:
        print(f"{gone.name}: dropped; its records stay in {gone.dataset}")
