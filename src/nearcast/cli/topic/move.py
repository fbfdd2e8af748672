"""`nearcast topic move`."""

from typing import Annotated

import typer

from nearcast.cli.api import CoordinatorApi, api_of, because, topic_path
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.domain.errors import ConfigError
from nearcast.domain.route import Delegation, Route, Strategy
from nearcast.domain.topic import validate_topic
from nearcast.transport.process import run
from nearcast.web import asked


def move_topic(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    brokers: Annotated[list[str], typer.Argument(help="Where to: one broker, or several with another strategy.")],
    *,
    strategy: Annotated[
        Strategy, typer.Option(help="How publishers and subscribers use the brokers.")
    ] = Strategy.SINGLE,
    delegate: Annotated[
        list[str] | None,
        typer.Option(metavar="HOME", help="With homed: who is at home here publishes at the cloud. May be repeated."),
    ] = None,
    cloud: Annotated[str, typer.Option(metavar="BROKER", help="Where to: one of the brokers.")] = "",
    lazy: Annotated[bool, typer.Option("--lazy", help="Tell clients with the next publication, not at once.")] = False,
    reason: Annotated[str, typer.Option(help="Why: `topic explain` shows it.")] = "",
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the leader.")] = 30.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Move a topic; returns when its clients are being told. Nothing is lost meanwhile."""
    validate_topic(topic)
    if strategy is Strategy.SINGLE and len(set(brokers)) != 1:
        raise typer.BadParameter(
            f"{len(set(brokers))} brokers; with --strategy single there is one", param_hint="BROKERS"
        )
    where = tuple(sorted(set(brokers)))
    delegation = _delegation(strategy, where, delegate or [], cloud)
    delegated = None if delegation is None else asked.Delegated(delegation.cloud, delegation.homes)
    order = asked.Move(where, strategy, not lazy, delegated, because(reason))
    raise typer.Exit(run(_move(api_of(config), topic, order, timeout_s, as_json)))


def _delegation(strategy: Strategy, brokers: tuple[str, ...], homes: list[str], cloud: str) -> Delegation | None:
    if not homes and not cloud:
        return None
    if not homes or not cloud:
        raise typer.BadParameter("--delegate and --cloud go together")
    try:
        return Route(1, strategy, brokers, delegation=Delegation(cloud, tuple(sorted(set(homes))))).delegation
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--delegate") from None


async def _move(api: CoordinatorApi, topic: str, order: asked.Move, timeout_s: float, as_json: bool) -> None:
    epoch = (await api.order(topic_path(topic, "move"), order, timeout_s=timeout_s)).epoch
    strategy, brokers, delegation = order.strategy, order.brokers, order.delegation
    if as_json:
        told = {"topic": topic, "epoch": epoch, "strategy": strategy.value, "brokers": brokers}
        print_json(told if delegation is None else {**told, "delegation": delegation})
    else:
        left = f", {', '.join(delegation.homes)} delegating to {delegation.cloud}" if delegation else ""
        print(f"{topic}: epoch {epoch}, {strategy} on {', '.join(brokers)}{left}; its clients are being told")
