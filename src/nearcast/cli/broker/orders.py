"""`nearcast broker add`, `drain` and `remove`: ordered of whoever leads, and watched until it is done."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from nearcast.cli.api import CoordinatorApi, api_of, because
from nearcast.cli.options import AsJson, ConfigFile, Reason
from nearcast.cli.output import print_json
from nearcast.domain.broker import Presence
from nearcast.domain.errors import LeaseLost, LinkDown
from nearcast.transport.process import run
from nearcast.web import asked
from nearcast.web.models import Broker, Brokers

_LOOK_S = 0.5

Name = Annotated[str, typer.Argument(metavar="NAME", help="The broker.")]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0, help="Seconds to wait until it is done; 0: do not wait. It goes on by itself."),
]
Done = Callable[[Broker | None], bool]


def add_broker(
    name: Name,
    *,
    url: Annotated[
        str,
        typer.Option(metavar="URL", help="Of a server that runs; its agent is started by hand. Else one is rented."),
    ] = "",
    site: Annotated[str, typer.Option(metavar="NAME", help="Where that server is.")] = "",
    capacity: Annotated[
        float | None, typer.Option(metavar="BYTES/S", min=1, help="What that server can send.", show_default=False)
    ] = None,
    reason: Reason = "",
    timeout_s: Timeout = 60.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Add a broker, and wait until its agent is heard. Topics go there when they are moved there."""
    if not url and (site or capacity):
        raise typer.BadParameter("--site and --capacity are for a server with --url; of a rented one they are known")
    order = asked.AddBroker(name, url, site, capacity, because(reason))
    raise typer.Exit(run(_carry_out(api_of(config), name, "brokers", order, _is_present, timeout_s, as_json)))


def drain_broker(
    name: Name,
    *,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Keep it after all, also in the ring; what has moved away stays there.")
    ] = False,
    reason: Reason = "",
    timeout_s: Timeout = 600.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Move everything away from a broker, out of the ring first, and wait until nobody uses it. Nothing is lost."""
    order, done = asked.Drain(cancel, because(reason)), _is_present if cancel else _is_empty
    raise typer.Exit(run(_carry_out(api_of(config), name, _path(name, "drain"), order, done, timeout_s, as_json)))


def remove_broker(
    name: Name,
    *,
    reason: Reason = "",
    timeout_s: Timeout = 60.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove a broker that has been drained; a rented server is ended. Refused while anybody may still use it."""
    order = asked.Because(because(reason))
    raise typer.Exit(run(_carry_out(api_of(config), name, _path(name, "remove"), order, _is_gone, timeout_s, as_json)))


def _path(name: str, verb: str = "") -> str:
    return f"brokers/{quote(name, safe='')}{f'/{verb}' if verb else ''}"


async def _carry_out(  # noqa: PLR0917  # private, and what every verb has
    api: CoordinatorApi, name: str, path: str, order: msgspec.Struct, done: Done, timeout_s: float, as_json: bool
) -> int:
    """Exit code 1 when it is not done in time: it goes on, and `broker list` shows how far it is."""
    told, until_s = "", time.monotonic() + timeout_s
    await api.order(path, order)
    while True:
        standing, known = await _look(api, name)
        if known and done(standing):
            break
        line = _line(name, standing)
        if line != told and not as_json:
            print(line, file=sys.stderr, flush=True)
            told = line
        if time.monotonic() >= until_s:
            break
        await asyncio.sleep(_LOOK_S)
    over = known and done(standing)
    if as_json:
        print_json({"broker": name, "done": over, "standing": standing})
    elif over:
        print(_line(name, standing))
    return int(not over and timeout_s > 0)


async def _look(api: CoordinatorApi, name: str) -> tuple[Broker | None, bool]:
    """How it stands, and whether anybody could say."""
    with contextlib.suppress(LeaseLost, LinkDown):
        found = (await api.get("brokers", Brokers)).brokers
        return next((each for each in found if each.name == name), None), True
    return None, False


def _line(name: str, standing: Broker | None) -> str:
    if standing is None:
        return f"{name}: removed"
    if standing.state is Presence.DRAINING and _is_empty(standing):
        return f"{name}: empty; `nearcast broker remove {name}` removes it"
    left = f", {standing.left} topics left" if standing.left else ""
    ring = ", still in the ring" if standing.state is Presence.DRAINING and standing.in_ring else ""
    trouble = f" ({standing.trouble})" if standing.trouble else ""
    return f"{name}: {standing.state.value}{ring}{left}{trouble}"


def _is_present(standing: Broker | None) -> bool:
    return standing is not None and standing.state is Presence.PRESENT


def _is_empty(standing: Broker | None) -> bool:
    return standing is not None and not standing.left and not standing.in_ring


def _is_gone(standing: Broker | None) -> bool:
    return standing is None
