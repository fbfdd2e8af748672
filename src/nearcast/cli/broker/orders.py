"""`nearcast broker add`, `drain` and `remove`: ordered of whoever leads, and watched until it is done."""

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from nearcast.cli.connect import operator_of
from nearcast.cli.options import AsJson, ConfigFile, Reason
from nearcast.cli.output import print_json
from nearcast.coordinator import Operator
from nearcast.domain.broker import Presence
from nearcast.domain.errors import LeaseLost, LinkDown
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run
from nearcast.wire.brokers import BrokerDoing, BrokerStanding

_LOOK_S = 0.5

Name = Annotated[str, typer.Argument(metavar="NAME", help="The broker.")]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0, help="Seconds to wait until it is done; 0: do not wait. It goes on by itself."),
]
Done = Callable[[BrokerStanding | None], bool]


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
    loaded = load_config(config)
    if url:
        loaded.added(url)  # what is no address is told here
    order = _Order("add", name, reason, url=url, site=site, capacity=capacity)
    raise typer.Exit(run(_carry_out(loaded, order, _is_present, timeout_s, as_json)))


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
    order = _Order("cancel" if cancel else "drain", name, reason)
    raise typer.Exit(
        run(_carry_out(load_config(config), order, _is_present if cancel else _is_empty, timeout_s, as_json))
    )


def remove_broker(
    name: Name,
    *,
    reason: Reason = "",
    timeout_s: Timeout = 60.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Remove a broker that has been drained; a rented server is ended. Refused while anybody may still use it."""
    order = _Order("remove", name, reason)
    raise typer.Exit(run(_carry_out(load_config(config), order, _is_gone, timeout_s, as_json)))


class _Order:
    def __init__(
        self,
        do: BrokerDoing,
        name: str,
        reason: str,
        *,
        url: str = "",
        site: str = "",
        capacity: float | None = None,
    ) -> None:
        self.name = name
        self._reason = reason
        self._do: BrokerDoing = do
        self._url = url
        self._site = site
        self._capacity = capacity

    async def give(self, operator: Operator) -> None:
        await operator.broker(
            self._do,
            self.name,
            url=self._url,
            site=self._site,
            out_bytes_per_s=self._capacity,
            reason=self._reason,
        )


async def _carry_out(config: Config, order: _Order, done: Done, timeout_s: float, as_json: bool) -> int:
    """Exit code 1 when it is not done in time: it goes on, and `broker list` shows how far it is."""
    told, until_s = "", time.monotonic() + timeout_s
    async with operator_of(config) as operator:
        await order.give(operator)
        while True:
            standing, known = await _look(operator, order.name)
            if known and done(standing):
                break
            line = _line(order.name, standing)
            if line != told and not as_json:
                print(line, file=sys.stderr, flush=True)
                told = line
            if time.monotonic() >= until_s:
                break
            await asyncio.sleep(_LOOK_S)
    over = known and done(standing)
    if as_json:
        print_json({"broker": order.name, "done": over, "standing": standing})
    elif over:
        print(_line(order.name, standing))
    return int(not over and timeout_s > 0)


async def _look(operator: Operator, name: str) -> tuple[BrokerStanding | None, bool]:
    """How it stands, and whether anybody could say."""
    with contextlib.suppress(LeaseLost, LinkDown):
        return {each.name: each for each in (await operator.status()).brokers}.get(name), True
    return None, False


def _line(name: str, standing: BrokerStanding | None) -> str:
    if standing is None:
        return f"{name}: removed"
    if standing.state is Presence.DRAINING and _is_empty(standing):
        return f"{name}: empty; `nearcast broker remove {name}` removes it"
    left = f", {standing.left} topics left" if standing.left else ""
    ring = ", still in the ring" if standing.state is Presence.DRAINING and standing.in_ring else ""
    trouble = f" ({standing.trouble})" if standing.trouble else ""
    return f"{name}: {standing.state.value}{ring}{left}{trouble}"


def _is_present(standing: BrokerStanding | None) -> bool:
    return standing is not None and standing.state is Presence.PRESENT


def _is_empty(standing: BrokerStanding | None) -> bool:
    return standing is not None and not standing.left and not standing.in_ring


def _is_gone(standing: BrokerStanding | None) -> bool:
    return standing is None
