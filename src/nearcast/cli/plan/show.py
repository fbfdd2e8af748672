"""`nearcast plan show`."""

import typer

from nearcast.cli.connect import records_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.topic.record import record_facts
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def show_plan(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """Show the plan as the store has it: the ring's brokers, and every route."""
    raise typer.Exit(run(_show(load_config(config), as_json)))


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
