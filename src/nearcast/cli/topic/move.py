"""`nearcast topic move`."""

from typing import Annotated

import typer

from nearcast.cli.connect import operator_of
from nearcast.cli.fleet import as_it_is
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.domain.route import Strategy
from nearcast.domain.topic import validate_topic
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run


def move_topic(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    brokers: Annotated[list[str], typer.Argument(help="Where to: one broker, or several with another strategy.")],
    *,
    strategy: Annotated[
        Strategy, typer.Option(help="How publishers and subscribers use the brokers.")
    ] = Strategy.SINGLE,
    lazy: Annotated[bool, typer.Option("--lazy", help="Tell clients with the next publication, not at once.")] = False,
    reason: Annotated[str, typer.Option(help="Why: `topic explain` shows it.")] = "",
    timeout_s: Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the leader.")] = 30.0,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Move a topic; returns when its clients are being told. Nothing is lost meanwhile."""
    validate_topic(topic)
    loaded = load_config(config)
    if strategy is Strategy.SINGLE and len(set(brokers)) != 1:
        raise typer.BadParameter(
            f"{len(set(brokers))} brokers; with --strategy single there is one", param_hint="BROKERS"
        )
    where = tuple(sorted(set(brokers)))
    moved = _move(
        loaded,
        topic,
        strategy=strategy,
        brokers=where,
        eager=not lazy,
        reason=reason,
        timeout_s=timeout_s,
        as_json=as_json,
    )
    raise typer.Exit(run(moved))


async def _move(
    config: Config,
    topic: str,
    *,
    strategy: Strategy,
    brokers: tuple[str, ...],
    eager: bool,
    reason: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    async with operator_of(config) as operator:
        if any(broker not in config.brokers for broker in brokers):
            known = as_it_is(config, await operator.status())
            for broker in brokers:
                known.endpoints()(broker)  # an unknown one is told here, with those there are
        epoch = await operator.move(topic, strategy, brokers, eager=eager, reason=reason, timeout_s=timeout_s)
    if as_json:
        print_json({"topic": topic, "epoch": epoch, "strategy": strategy.value, "brokers": brokers})
    else:
        print(f"{topic}: epoch {epoch}, {strategy} on {', '.join(brokers)}; its clients are being told")
