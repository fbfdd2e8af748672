"""`nearcast status`."""

import typer

from nearcast.cli.broker.list import show_brokers
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.cli.state import State, look
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def show_status(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """Show who leads, which brokers and agents answer, and what moves. Exit code 1 when something is amiss."""
    raise typer.Exit(run(_status(load_config(config), as_json)))


async def _status(config: Config, as_json: bool) -> int:
    state = await look(config)
    if as_json:
        print_json(
            {
                "name": config.name,
                "well": state.well,
                "control_bus": {"url": config.control.url, "up": state.bus_up},
                "leader": state.leader,
                "trouble": state.trouble,
                "brokers": state.brokers,
            }
        )
    else:
        _show(config, state)
    return int(not state.well)


def _show(config: Config, state: State) -> None:
    print(f"{config.name}: {'all well' if state.well else 'NOT WELL'}")
    if state.leader is not None:
        leader = state.leader
        moving = f", {len(leader.moving)} moving: {', '.join(leader.moving[:5])}" if leader.moving else ""
        print(f"control: {leader.leader} leads (term {leader.term}); {leader.topics} topics with a route{moving}")
    elif state.bus_up:
        print(f"control: NOBODY LEADS ({state.trouble}): traffic goes on with the last plan, nothing moves")
    else:
        print(f"control: THE BUS IS DOWN ({state.trouble}): traffic goes on with the last plan, nothing moves")
    show_brokers(state)
