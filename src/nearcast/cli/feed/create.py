"""`nearcast feed create`."""

import secrets
import time
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.feed.promise import AT_MOST_ONCE, promise_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.domain.dataset import Feed
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.sources import FILE, parse_source
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def create_feed(
    name: Annotated[str, typer.Argument(help="Its name.")],
    *,
    source: Annotated[
        str, typer.Option("--from", metavar="SOURCE", help="topic:NAME, file:PATH (a folder, or a pattern) or http.")
    ],
    into: Annotated[
        str | None, typer.Option("--into", metavar="DATASET", help="By default the dataset of the feed's name.")
    ] = None,
    record_format: Annotated[
        str | None, typer.Option("--format", help="Of files: json (lines), csv or parquet; by default by their ending.")
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a feed: a running pipeline takes it up at once.

    Records are JSON objects with a field per column; what does not fit goes to DATASET.rejected, with the reason.
    """
    kind, what, chosen = parse_source(source, record_format)
    source = f"{FILE}:{Path(what).absolute()}" if kind == FILE else source
    new = Feed(name, secrets.token_hex(4), source, into or name, chosen, time.time())
    raise typer.Exit(run(_create(load_config(config), new, as_json)))


async def _create(config: Config, new: Feed, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        made = (await CatalogStore(store).change(lambda now: now.with_feed(new))).feed(new.name)
    promise = await promise_of(config, made)
    if as_json:
        print_json({"feed": made.name, "from": made.source, "into": made.dataset, "promise": promise})
        return
    print(f"{made.name}: from {made.source} into {made.dataset}, {promise}")
    if promise == AT_MOST_ONCE:
        topic = made.source.partition(":")[2]
        print(f"What comes while no pipeline runs is lost: `nearcast topic set {topic} --persistent` keeps it.")
