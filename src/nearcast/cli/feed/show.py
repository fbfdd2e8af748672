"""`nearcast feed list` and `show`."""

import time
from typing import Annotated

import msgspec
import typer

from nearcast.cli.feed.promise import promise_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.domain.dataset import Feed
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.sources import FILE, parse_source
from nearcast.pipeline.status import StatusStore
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.store.store import Store
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_COLUMNS = ("feed", "from", "into", "promise", "state")


def list_feeds(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List feeds."""
    raise typer.Exit(run(_list(load_config(config), as_json)))


def show_feed(
    name: Annotated[str, typer.Argument(help="The feed.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Show how far a feed has read its source, and its last failure."""
    raise typer.Exit(run(_show(load_config(config), name, as_json)))


async def _list(config: Config, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        found = [await _facts(config, store, each) for each in (await CatalogStore(store).read()).feeds]
    if as_json:
        print_json(found)
    elif not found:
        print("There is no feed yet: `nearcast feed create NAME --from SOURCE` makes one.")
    else:
        print_table(_COLUMNS, [[str(row[each]) for each in _COLUMNS] for row in found])


async def _show(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
        feed = catalog.feed(name)
        manifest = await Table(store, config.tables, catalog.dataset(feed.dataset)).head()
        facts = {**await _facts(config, store, feed), "offset": _offset(feed, manifest.offsets.get(feed.id))}
    if as_json:
        print_json(facts)
        return
    print(f"{facts['feed']}: from {facts['from']} ({facts['format']}) into {facts['into']}, {facts['promise']}")
    print(f"  state   {facts['state']}")
    print(f"  offset  {facts['offset'] or 'nothing has been read yet'}")


def _offset(feed: Feed, offset: str | None) -> str | None:
    if offset is None or parse_source(feed.source, feed.format)[0] != FILE:
        return offset
    return f"{len(msgspec.json.decode(offset, type=list[str]))} files that are there were taken"


async def _facts(config: Config, store: Store, feed: Feed) -> dict[str, object]:
    status = await StatusStore(store).read(feed.work)
    since = "" if status is None else time.strftime("%H:%M:%S", time.localtime(status.at_s))
    if status is None:
        state = "no pipeline has run it yet"
    elif status.error is None:
        state = f"begun at {since}"
    else:
        state = f"failed at {since}: {status.error}"
    return {
        "feed": feed.name,
        "id": feed.id,
        "from": feed.source,
        "into": feed.dataset,
        "format": feed.format,
        "promise": await promise_of(config, feed),
        "state": state,
        "error": None if status is None else status.error,
    }
