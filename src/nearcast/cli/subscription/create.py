"""`nearcast subscription create`."""

from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile, Site
from nearcast.cli.output import print_json
from nearcast.cli.subscription.values import KEEP_S, Keep, Params, parse_params, typed
from nearcast.client import open_client
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def create_subscription(
    channel: Annotated[str, typer.Argument(help="The channel.")],
    param: Params = None,
    *,
    keep: Keep = KEEP_S,
    site: Site = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Subscribe without waiting for anything: results are made from now on, and `follow --after` brings them."""
    texts, loaded = parse_params(param), load_config(config)
    raise typer.Exit(run(_create(loaded, site, channel, texts, keep_s=keep, as_json=as_json)))


async def _create(
    config: Config, site: str, channel: str, texts: dict[str, str], *, keep_s: float, as_json: bool
) -> None:
    async with open_client(config, site=site) as client:
        values = await typed(client, channel, texts)
        subscription = await client.subscribe_channel(channel, values, keep_s=keep_s)
        key, position = subscription.machine.key, subscription.position
    if as_json:
        print_json({"key": key, "channel": channel, "values": values, "position": position, "keep_s": keep_s})
    else:
        print(f"{key}: results are kept after execution {position}; follow them with --after {position}")
