"""`nearcast channel list` and `show`: from the catalog and the store, without Spark."""

from typing import Annotated

import typer

from nearcast.cli.channel.facts import facts_of, progress_facts, show_failure, show_rhythm
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.pipeline.catalog import CatalogStore
from nearcast.pipeline.progress import progress_of
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_COLUMNS = ("channel", "runs", "parameters", "reads", "executions", "rows", "seconds", "late s", "failures")


def list_channels(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List channels with their last executions."""
    raise typer.Exit(run(_list(load_config(config), as_json)))


def show_channel(
    name: Annotated[str, typer.Argument(help="The channel.")], config: ConfigFile = None, *, as_json: AsJson = False
) -> None:
    """Show what a channel asks, and how its last execution went."""
    raise typer.Exit(run(_show(load_config(config), name, as_json)))


async def _list(config: Config, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        catalog = await CatalogStore(store).read()
        found = [(each, await progress_of(store, each)) for each in catalog.channels]
    if as_json:
        print_json([{**facts_of(channel), **progress_facts(progress)} for channel, progress in found])
        return
    if not found:
        print("There is no channel yet: `nearcast channel create NAME --query SELECT` makes one.")
        return
    rows = []
    for channel, progress in found:
        last = progress.last
        asked = ", ".join(f"{each.name} {each.type}" for each in channel.spec.parameters)
        done = (str(last.number), str(last.rows), f"{last.took_s:.3f}", f"{last.late_s:.3f}")
        reads = ", ".join(channel.datasets)
        rows.append((channel.name, show_rhythm(channel.spec), asked, reads, *done, str(len(progress.failures))))
    print_table(_COLUMNS, rows)


async def _show(config: Config, name: str, as_json: bool) -> None:
    async with pipeline_store_of(config) as store:
        channel = (await CatalogStore(store).read()).channel(name)
        progress = await progress_of(store, channel)
    if as_json:
        print_json({**facts_of(channel), **progress_facts(progress)})
        return
    spec, last = channel.spec, progress.last
    asked = ", ".join(f":{each.name} {each.type}" for each in spec.parameters) or "none"
    print(f"{channel.name}: runs {show_rhythm(spec)}, {'rows are sent' if spec.push else 'rows are asked for'}")
    print(f"  parameters  {asked}")
    print(f"  reads       {', '.join(channel.datasets) or 'nothing'}")
    print(f"  gives       {', '.join(channel.columns)}")
    print(f"  executions  {progress.count}; the last had {last.rows} rows for {last.keys} subscriptions")
    print(f"              and took {last.took_s:.3f} s, {last.late_s:.3f} s late")
    for each in progress.failures[-1:]:
        print(f"  failed      {show_failure(each)}")
    for warning in channel.warnings:
        print(f"  warning     {warning}")
    print("  query")
    for line in spec.query.strip().splitlines():
        print(f"    {line}")
