"""An application on a running fleet: datasets, feeds and channels, and the pipeline that runs them."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace

from nearcast.domain.channel import Channel, ChannelSpec
from nearcast.domain.dataset import Dataset, Feed
from nearcast.fleet.commands import CommandSpec, own_command
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.progress import begin
from nearcast.pipeline.session import session
from nearcast.pipeline.tables import Table
from nearcast.store.store import Store
from nearcast.transport.config import Config

_START_S = 180.0


async def create_datasets(
    store: Store, config: Config, datasets: Collection[Dataset], feeds: Collection[Feed]
) -> dict[str, Table]:
    """By name."""
    tables = {each.name: Table(store, config.tables, each) for each in datasets}
    for table in tables.values():
        await table.create()
    catalogs = CatalogStore(store)
    for dataset in datasets:
        await catalogs.change(lambda now, dataset=dataset: now.with_dataset(dataset))  # type: ignore[misc]  # bound now
    for feed in feeds:
        await catalogs.change(lambda now, feed=feed: now.with_feed(feed))  # type: ignore[misc]  # bound now
    return tables


async def create_channels(
    store: Store, specs: Collection[ChannelSpec], tables: dict[str, Table], master: str
) -> list[Channel]:
    """Each tried out first, all in one Spark session."""
    if not specs:
        return []
    datasets = [table.dataset for table in tables.values()]
    channels = await asyncio.to_thread(_checked, specs, datasets, master)
    for channel in channels:
        await begin(store, channel, {name: tables[name] for name in channel.datasets})
        await CatalogStore(store).change(lambda now, channel=channel: now.with_channel(channel))  # type: ignore[misc]  # bound now
    return channels


def pipeline_command(config: Config, master: str, *options: str) -> CommandSpec:
    command = own_command("pipeline", "pipeline", ("pipeline", "run", "--master", master, *options), config.path)
    return replace(command, start_s=_START_S)


def _checked(specs: Collection[ChannelSpec], datasets: list[Dataset], master: str) -> list[Channel]:
    from nearcast.pipeline.channels import checked  # noqa: PLC0415  # needs what comes with Spark

    with session("lab", master) as spark:
        return [checked(spark, spec, datasets, time.time()) for spec in specs]
