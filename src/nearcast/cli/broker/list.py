"""`nearcast broker list`."""

from collections.abc import Iterator

import typer

from nearcast.cli.loads import BrokerLoad, show_handover
from nearcast.cli.options import AsJson, ConfigFile, Site
from nearcast.cli.output import print_json, print_table, show_rate
from nearcast.cli.state import State, look
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def list_brokers(site: Site = "", config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """List the brokers: where they are, whether they answer, whether their agent does, what they carry, and what moves
    have cost.
    """
    raise typer.Exit(run(_list(load_config(config), site, as_json)))


async def _list(config: Config, site: str, as_json: bool) -> None:
    state = await look(config, site)
    if as_json:
        print_json(state.brokers)
    else:
        show_brokers(state)


def show_brokers(state: State) -> None:
    """Two tables: one with all of it would not fit a terminal."""
    print_table(
        ("broker", "site", "address", "server", "fleet", "agent", "clock"),
        [
            (
                each.name,
                each.site,
                each.url,
                f"up, {each.rtt_ms} ms" if each.up else f"DOWN: {each.error}",
                each.presence or "unknown",
                _agent(each.agent, each.agent_silent_s, each.agent_reads),
                ""
                if each.clock_offset_ms is None
                else f"{each.clock_offset_ms:+.1f} ± {each.clock_uncertainty_ms:.1f} ms",
            )
            for each in state.brokers
        ],
    )
    print_table(
        ("broker", "carries", "moves"),
        [
            (
                each.name,
                _carries(each.load),
                show_handover(each.load.handed_over) if each.load is not None else "",
            )
            for each in state.brokers
        ],
    )


def _carries(load: BrokerLoad | None) -> str:
    if load is None:
        return "not reported"
    of = "" if load.load_ratio is None else f", {load.load_ratio:.0%} of what it can"
    return "; ".join((f"{load.topics} topics, {show_rate(load.out_bytes_per_s)} out{of}", *_uses(load)))


def _uses(load: BrokerLoad) -> Iterator[str]:
    used, most = load.used, load.most
    if used.out_messages_per_s is not None:
        yield f"{used.out_messages_per_s:,.0f} messages/s{_share(used.out_messages_per_s, most.out_messages_per_s)}"
    if used.cores is not None:
        yield f"{used.cores:.2f} processors{_share(used.cores, most.cores)}"
    if used.memory_bytes is not None:
        yield f"{used.memory_bytes / 1e6:,.0f} MB{_share(used.memory_bytes, most.memory_bytes)}"


def _share(used: float, most: float | None) -> str:
    return "" if most is None else f", {used / most:.0%}"


def _agent(state: str, silent_s: float | None, reads: int | None) -> str:
    heard = "" if silent_s is None else f", heard {silent_s:g} s ago"
    protocol = "" if reads is None else f", reads protocol {reads}"
    return f"{state if state != 'lost' else 'LOST'}{heard}{protocol}"
