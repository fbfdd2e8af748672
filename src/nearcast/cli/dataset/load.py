"""`nearcast dataset load`."""

from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.cli.pipeline.options import Conf, Master, parse_conf
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.feeds import load
from nearcast.pipeline.file_source import judged_files
from nearcast.pipeline.manifest import REJECTED
from nearcast.pipeline.session import LOCAL, session
from nearcast.pipeline.sources import FILE, Judged, parse_source
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_dataset(
    name: Annotated[str, typer.Argument(help="The dataset.")],
    path: Annotated[str, typer.Argument(help="A file, a folder of files, or a pattern.")],
    *,
    file_format: Annotated[
        str | None, typer.Option("--format", help="json (lines), csv or parquet; by default by the name's ending.")
    ] = None,
    master: Master = LOCAL,
    conf: Conf = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Load files into a dataset once, all or nothing. What does not fit goes to NAME.rejected."""
    _, _, kind = parse_source(f"{FILE}:{path}", file_format)
    loaded, settings, judged = load_config(config), parse_conf(conf), judged_files(path, kind)
    run(_must_have(loaded, name))
    with session(f"load {name}", master, settings) as spark:
        raise typer.Exit(run(_load(loaded, name, judged, spark, as_json)))


async def _must_have(config: Config, name: str) -> None:
    """Told before Spark is started."""
    async with pipeline_store_of(config) as store:
        (await CatalogStore(store).read()).dataset(name)


async def _load(config: Config, name: str, judged: Judged, spark: "SparkSession", as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        table = Table(store, config.tables, (await CatalogStore(store).read()).dataset(name))
        after = await load(spark, table, judged)
    new = [each for each in after.files if each.first == after.version]
    rows = sum(each.rows for each in new if each.part != REJECTED)
    rejected = sum(each.rows for each in new if each.part == REJECTED)
    facts = {"dataset": table.dataset.name, "version": after.version, "rows": rows, "rejected": rejected}
    if as_json:
        print_json(facts)
    else:
        print(f"{table.dataset.name}: version {after.version}, {rows} rows, {rejected} rejected")
