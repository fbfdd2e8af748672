"""`nearcast subscription list` and `show`."""

from contextlib import suppress
from typing import Annotated

import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.client import open_client
from nearcast.control.demand import Demanded
from nearcast.domain.errors import ChannelError, LinkDown
from nearcast.pipeline.distinct import DistinctStore
from nearcast.pipeline.stored import pipeline_store_of
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run

_PATIENCE_S = 3.0


def list_subscriptions(
    channel: Annotated[str | None, typer.Option(help="Only those to this channel.")] = None,
    config: ConfigFile = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the distinct subscriptions that results are made for. However many people share one, it is one."""
    raise typer.Exit(run(_list(load_config(config), channel, as_json)))


def show_subscription(
    key: Annotated[str, typer.Argument(help="Its key, or the beginning of it.")],
    config: ConfigFile = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show what one of them asks, since which execution, and how many follow it where."""
    raise typer.Exit(run(_show(load_config(config), key, as_json)))


async def _list(config: Config, channel: str | None, as_json: bool) -> None:
    found = [each for each in await subscriptions_of(config) if channel in {None, each.subscription.channel}]
    if as_json:
        print_json([_facts(each) for each in found])
        return
    rows = [(each.subscription.key, each.subscription.channel, _values(each), str(each.since)) for each in found]
    print_table(("subscription", "channel", "values", "since execution"), rows)


async def _show(config: Config, key: str, as_json: bool) -> None:
    each = found_by(key, await subscriptions_of(config))
    followers = await _followers(config, each)
    if as_json:
        print_json({**_facts(each), "followers": followers})
        return
    print(f"{each.subscription.key}: {each.subscription.channel} with {_values(each)}")
    print(f"  results after execution {each.since}; made for {each.hold_s:g} s more when nobody follows")
    for broker, count in followers.items():
        print(f"  {broker}: {'its agent does not answer' if count is None else f'{count} follow it'}")


async def _followers(config: Config, each: Demanded) -> dict[str, int | None]:
    """By broker; None where nobody answers."""
    subscription, found = each.subscription, dict[str, int | None]()
    async with open_client(config) as client:
        for broker in config.brokers:
            found[broker] = None
            with suppress(LinkDown):
                counts = await client.count_followers(subscription.channel, broker, timeout_s=_PATIENCE_S)
                found[broker] = counts.get(subscription.key, 0)
    return found


async def subscriptions_of(config: Config) -> list[Demanded]:
    """By channel and values."""
    async with pipeline_store_of(config) as store:
        found = await DistinctStore(store).load()
    return sorted(found, key=lambda each: (each.subscription.channel, str(each.subscription.values)))


def found_by(key: str, among: list[Demanded]) -> Demanded:
    """Raises ChannelError unless it is the beginning of exactly one key."""
    found = [each for each in among if each.subscription.key.startswith(key)]
    if len(found) == 1:
        return found[0]
    why = f"{len(found)} begin like that" if found else "`nearcast subscription list` shows those there are"
    raise ChannelError(f"no subscription {key!r}; {why}")


def _values(each: Demanded) -> str:
    return ", ".join(f"{name}={value}" for name, value in each.subscription.values)


def _facts(each: Demanded) -> dict[str, object]:
    subscription = each.subscription
    values = dict(subscription.values)
    return {
        "key": subscription.key,
        "channel": subscription.channel,
        "values": values,
        "since": each.since,
        "keep_s": each.hold_s,
    }
