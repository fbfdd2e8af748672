"""`nearcast homes`."""

import typer

from nearcast.cli.connect import operator_of
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table, show_rate
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run
from nearcast.wire.homes import HomeLoad, HomesTold


def show_homes(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """Show how the subscribers of channels are spread over the brokers, and the loads that follow."""
    raise typer.Exit(run(_ask(load_config(config), as_json)))


async def _ask(config: Config, as_json: bool) -> None:
    async with operator_of(config) as operator:
        found = await operator.homes()
    if as_json:
        print_json(found)
    else:
        _show(found)


def _show(found: HomesTold) -> None:
    print_table(("broker", "subscribers", "keys", "load", ""), [_row(each) for each in found.brokers])
    print(f"{found.subscribers} subscribers, {found.keys} distinct subscriptions, cov {found.cov:.3f}")
    if found.moving or found.waiting:
        print(f"{found.moving} subscribers are on their way to another home, {found.waiting} wait for their turn")
    if found.unheard:
        print(f"not heard yet, so that nobody is moved: {', '.join(found.unheard)}")
    if found.policy:
        print(f"last plan ({found.policy}): {'; '.join(found.reasons)}")


def _row(each: HomeLoad) -> tuple[str, str, str, str, str]:
    load, note = show_rate(each.load_bytes_per_s), "" if each.usable else "silent or draining"
    return each.broker, str(each.subscribers), str(each.keys), load, note
