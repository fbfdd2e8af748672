"""`nearcast channel create`."""

import sys
import time
from typing import Annotated

import typer

from nearcast.cli.channel.facts import facts_of, show_rhythm
from nearcast.cli.options import AsJson, ConfigFile, parse_seconds, read_text
from nearcast.cli.output import print_json
from nearcast.cli.pipeline.options import Conf, Master, parse_conf
from nearcast.domain.channel import Channel, ChannelSpec, Parameter
from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import ChannelError
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.progress import begin
from nearcast.pipeline.session import LOCAL, session
from nearcast.pipeline.sql import Compiler
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.pipeline.tables import Table
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def create_channel(
    name: Annotated[str, typer.Argument(help="Its name, by which people subscribe.")],
    *,
    query: Annotated[
        str, typer.Option(metavar="SELECT", help="One SELECT of Spark SQL with :name parameters; or @FILE.")
    ],
    param: Annotated[
        list[str] | None,
        typer.Option(metavar="'NAME TYPE'", help="A parameter, like 'kind STRING'; one for each.", show_default=False),
    ] = None,
    period: Annotated[str | None, typer.Option(metavar="TIME", help="Run it so often, like 10s or 1m.")] = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Run it as data arrives.")] = False,
    pull: Annotated[
        bool, typer.Option("--pull", help="Tell subscribers that there are rows, without the rows.")
    ] = False,
    master: Master = LOCAL,
    conf: Conf = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Create a channel, once its query has been tried out on made-up records.

    The query may use is_new(alias), current_channel_time(), previous_channel_time() and
    within_km(lat, lon, lat2, lon2, km).
    """
    if (period is None) == (not continuous):
        raise typer.BadParameter("give either --period TIME or --continuous")
    parameters = tuple(map(Parameter.parse, param or ()))
    period_s = parse_seconds("--period", period)
    spec = ChannelSpec(name, read_text("--query", query), parameters, period_s, push=not pull)
    loaded, settings = load_config(config), parse_conf(conf)
    datasets: list[Dataset] = []
    run(_look_up(loaded, spec, datasets))
    with session(f"create channel {name}", master, settings) as spark:
        from nearcast.pipeline.channels import checked  # noqa: PLC0415  # needs what comes with Spark

        channel = checked(spark, spec, datasets, time.time())
    raise typer.Exit(run(_create(loaded, channel, as_json)))


async def _look_up(config: Config, spec: ChannelSpec, datasets: list[Dataset]) -> None:
    """The datasets there are. What can be refused without Spark is refused before it is started."""
    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
    catalog.with_channel(Channel("", spec))
    datasets += catalog.datasets
    try:
        Compiler(spec.query, spec.parameters, [each.name for each in datasets])
    except ChannelError as error:
        raise ChannelError(f"channel {spec.name}: {error}") from error


async def _create(config: Config, channel: Channel, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalogs = CatalogStore(store)
        catalog = await catalogs.read()
        tables = {name: Table(store, config.tables, catalog.dataset(name)) for name in channel.datasets}
        await begin(store, channel, tables)
        await catalogs.change(lambda now: now.with_channel(channel))
    if as_json:
        print_json(facts_of(channel))
        return
    for warning in channel.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(f"{channel.name}: runs {show_rhythm(channel.spec)}; gives {', '.join(channel.columns)}")
