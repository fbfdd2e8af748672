"""`nearcast plan show`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.connect import operator_of, records_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.topic.record import record_facts
from nearcast.domain.errors import ConfigError
from nearcast.domain.snapshot_json import read_snapshot
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def show_plan(
    config: ConfigFile = None,
    *,
    snapshot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what a policy sees now to FILE, for `plan compute`.", dir_okay=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the plan as the store has it: the ring's brokers, and every route."""
    loaded = load_config(config)
    if snapshot is not None:
        raise typer.Exit(run(_write(loaded, snapshot, as_json)))
    raise typer.Exit(run(_show(loaded, as_json)))


async def _write(config: Config, file: Path, as_json: bool) -> None:
    async with operator_of(config) as operator:
        content = await operator.snapshot()
    try:
        await asyncio.to_thread(file.write_bytes, content)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from error
    seen = read_snapshot(content)
    if as_json:
        print_json({"file": str(file), "brokers": len(seen.brokers), "topics": len(seen.topics)})
    else:
        print(f"{file}: {len(seen.brokers)} brokers, {len(seen.topics)} topics; `nearcast plan compute` reads it")


async def _show(config: Config, as_json: bool) -> None:
    async with records_of(config) as records:
        found = await records.load()
        ring = await records.load_ring() or config.ring
    if as_json:
        routes = [record_facts(record) for record in found]
        print_json({"ring": {"version": ring.version, "brokers": ring.brokers}, "routes": routes})
        return
    print(f"ring (version {ring.version}): {', '.join(ring.brokers)}")
    if found:
        rows = [
            (
                each.topic,
                str(route.epoch),
                route.strategy.value,
                ", ".join(route.brokers),
                _role(each.told, route.epoch),
            )
            for each in found
            for route in reversed(each.routes)
        ]
        print_table(("topic", "epoch", "strategy", "brokers", ""), rows)
    else:
        print("no routes: every topic is where the ring puts it")


def _role(told: int, epoch: int) -> str:
    return "" if told == epoch else "draining" if epoch < told else "preparing"
