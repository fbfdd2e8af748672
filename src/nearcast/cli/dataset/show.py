"""`nearcast dataset list` and `show`: from the catalog and the tables' manifests, without Spark."""

import time
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.domain.dataset import Dataset
from nearcast.pipeline.catalog import Catalog, CatalogStore
from nearcast.pipeline.manifest import REJECTED
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.store.store import Store
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_COLUMNS = ("dataset", "key", "version", "rows", "rejected", "files", "bytes")


def list_datasets(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List datasets with what they hold."""
    raise typer.Exit(run(_list(load_config(config), as_json)))


def show_dataset(
    name: Annotated[str, typer.Argument(help="The dataset.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Show a dataset's columns, what it holds, and what fills and reads it."""
    raise typer.Exit(run(_show(load_config(config), name, as_json)))


async def _list(config: Config, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
        found = [await _facts(config, store, catalog, each) for each in catalog.datasets]
    if as_json:
        print_json(found)
    elif not found:
        print("There is no dataset yet: `nearcast dataset create NAME --schema COLUMNS` makes one.")
    else:
        print_table(_COLUMNS, [["" if row[each] is None else str(row[each]) for each in _COLUMNS] for row in found])


async def _show(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
        facts = await _facts(config, store, catalog, catalog.dataset(name))
    if as_json:
        print_json(facts)
        return
    print(f"{facts['dataset']} ({facts['schema']})")
    print(f"  holds     {_holds(facts)}")
    print(f"  version   {facts['version']}, committed {_when(facts['committed_s'])}")
    print(f"  records   {facts['rows']} rows in {facts['files']} files, {facts['bytes']} bytes of {facts['format']}")
    print(f"  rejected  {facts['rejected']} rows in {facts['dataset']}.rejected")
    print(f"  in use    {', '.join(catalog.readers(str(facts['dataset']))) or 'nothing fills or reads it'}")


def _holds(facts: dict[str, object]) -> str:
    what = f"the latest record of each {facts['key']}" if facts["key"] else "every record"
    return what if facts["retain_s"] is None else f"{what} for {facts['retain_s']:g} s at least"


def _when(at_s: object) -> str:
    assert isinstance(at_s, float)
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


async def _facts(config: Config, store: Store, catalog: Catalog, dataset: Dataset) -> dict[str, object]:
    """`rows` of a keyed dataset are those in its files: some may be overwritten by later ones."""
    manifest = await Table(store, config.tables, dataset).head()
    return {
        "dataset": dataset.name,
        "id": dataset.id,
        "schema": str(dataset.schema),
        "key": dataset.key,
        "format": dataset.format,
        "retain_s": dataset.retain_s,
        "version": manifest.version,
        "committed_s": manifest.at_s,
        "rows": manifest.rows(),
        "rejected": manifest.rows(REJECTED),
        "files": len(manifest.files),
        "bytes": manifest.size_bytes(),
        "in_use": catalog.readers(dataset.name),
    }
