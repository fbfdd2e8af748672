"""`nearcast subscription drop`."""

from typing import Annotated

import typer

from nearcast.cli.options import ConfigFile, Site
from nearcast.cli.subscription.show import found_by, subscriptions_of
from nearcast.client import open_client
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def drop_subscription(
    key: Annotated[str, typer.Argument(help="Its key, or the beginning of it.")],
    site: Site = "",
    config: ConfigFile = None,
) -> None:
    """Make no more results for it, as soon as nobody follows it: who is offline will not find them."""
    raise typer.Exit(run(_drop(load_config(config), site, key)))


async def _drop(config: Config, site: str, key: str) -> None:
    found = found_by(key, await subscriptions_of(config)).subscription
    async with open_client(config, site=site) as client:
        subscription = await client.subscribe_channel(found.channel, dict(found.values), keep_s=0.0)
        subscription.unsubscribe(everybody=True)
    print(f"{found.key}: no more results are made for it once nobody follows it")
