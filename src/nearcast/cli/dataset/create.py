"""`nearcast dataset create`."""

import secrets
import time
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile, parse_seconds
from nearcast.cli.output import print_json
from nearcast.domain.dataset import FORMATS, Dataset
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def create_dataset(
    name: Annotated[str, typer.Argument(help="Its name, as queries will have it.")],
    *,
    schema: Annotated[
        str, typer.Option(metavar="COLUMNS", help="As in Spark, like 'id BIGINT NOT NULL, kind STRING, lat DOUBLE'.")
    ],
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Hold only the latest record of each value of it.")
    ] = None,
    file_format: Annotated[str, typer.Option("--format", help=f"Of its files: {' or '.join(FORMATS)}.")] = FORMATS[0],
    retain: Annotated[
        str | None, typer.Option(metavar="TIME", help="Remove records when they are older, like 90s, 30m, 24h or 7d.")
    ] = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create an empty dataset; a feed fills it, or `dataset load`."""
    new = Dataset(
        name,
        secrets.token_hex(4),
        parse_schema(schema),
        key,
        file_format,
        parse_seconds("--retain", retain),
        time.time(),
    )
    raise typer.Exit(run(_create(load_config(config), new, as_json)))


async def _create(config: Config, new: Dataset, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = CatalogStore(store)
        (await catalog.read()).with_dataset(new)  # what is refused leaves no table behind
        await Table(store, config.tables, new).create()
        await catalog.change(lambda now: now.with_dataset(new))
    if as_json:
        print_json({"dataset": new.name, "id": new.id, "schema": str(new.schema), "key": new.key})
    else:
        holds = f"the latest record of each {new.key}" if new.key else "every record"
        print(f"{new.name}: ({new.schema}), empty; holds {holds}")
