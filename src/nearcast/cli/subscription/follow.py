"""`nearcast subscription follow`."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Annotated, Any

import msgspec
import typer

from nearcast.cli.options import ConfigFile, Site
from nearcast.cli.subscription.values import KEEP_S, Keep, Params, parse_params, typed
from nearcast.client import open_client
from nearcast.client.channel_subscription import ChannelSubscription
from nearcast.domain.channel import Missed, Notification
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run_until_stopped


def follow_subscription(
    channel: Annotated[str, typer.Argument(help="The channel.")],
    param: Params = None,
    *,
    after: Annotated[
        int | None, typer.Option(metavar="EXECUTION", min=0, help="Go on after this one, as an earlier run said.")
    ] = None,
    keep: Keep = KEEP_S,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many notifications.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="End after so many seconds.")] = None,
    site: Site = "",
    config: ConfigFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per notification, a line each.")
    ] = False,
) -> None:
    """Subscribe to a channel and print its notifications, until Ctrl-C: one line per row, or one per notification.

    It says in the end how far it has come: `--after` goes on from there, and nothing is missed in between as long as
    results are kept. What cannot be had any more is told.
    """
    values, loaded = parse_params(param), load_config(config)

    def serve(stopped: asyncio.Event) -> Coroutine[Any, Any, int]:
        wanted = (count, seconds)
        return _serve(
            loaded, site, channel, values, after=after, keep_s=keep, wanted=wanted, as_json=as_json, stopped=stopped
        )

    raise typer.Exit(run_until_stopped(serve))


async def _serve(
    config: Config,
    site: str,
    channel: str,
    texts: dict[str, str],
    *,
    after: int | None,
    keep_s: float,
    wanted: tuple[int | None, float | None],
    as_json: bool,
    stopped: asyncio.Event,
) -> int:
    count, seconds = wanted
    async with open_client(config, site=site) as client:
        values = await typed(client, channel, texts)
        subscription = await client.subscribe_channel(channel, values, after=after, keep_s=keep_s, on_missed=_missed)
        print(
            f"subscription {subscription.machine.key} to {channel}, at {subscription.home}", file=sys.stderr, flush=True
        )
        taking = asyncio.create_task(_take(subscription, count, as_json=as_json))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({taking, stopping}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        ended = taking.done()
        for task in (taking, stopping):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        print(f"up to execution {subscription.position}", file=sys.stderr, flush=True)
        return int(count is not None and not ended and not stopped.is_set())


async def _take(subscription: ChannelSubscription, count: int | None, *, as_json: bool) -> None:
    left = count
    async for notification in subscription:
        _show(notification, as_json=as_json)
        subscription.acknowledge(notification)
        if left is not None:
            left -= 1
            if left == 0:
                return


def _show(notification: Notification, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(notification).decode(), flush=True)
        return
    for row in notification.rows:
        print(f"{notification.execution}  {msgspec.json.encode(row).decode()}", flush=True)


def _missed(what: Missed) -> None:
    print(
        f"missed: results of executions {what.after + 1} to {what.until} are not kept any more",
        file=sys.stderr,
        flush=True,
    )
