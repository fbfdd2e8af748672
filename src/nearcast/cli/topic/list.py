"""`nearcast topic list`."""

import typer

from nearcast.cli.connect import records_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.topic.record import record_facts
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def list_topics(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List the topics that have a route of their own; every other topic is where the ring puts it."""
    raise typer.Exit(run(_list(load_config(config), as_json)))


async def _list(config: Config, as_json: bool) -> None:
    async with records_of(config) as records:
        found = [record_facts(record) for record in await records.load()]
    if as_json:
        print_json(found)
    elif not found:
        print("No topic has a route of its own; each is where the ring puts it (`nearcast topic show TOPIC`).")
    else:
        columns = ("topic", "strategy", "brokers", "epoch", "phase")
        print_table(columns, [[_cell(facts[column]) for column in columns] for facts in found])


def _cell(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
