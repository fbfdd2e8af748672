"""`nearcast plan compute`: what a policy makes of a snapshot, without a fleet."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json, print_table
from nearcast.cli.plan.delay import facts_of, homes_after, show_facts
from nearcast.cli.plan.read import snapshot_in
from nearcast.control.loop import LoopSettings
from nearcast.control.restraint import within_budget
from nearcast.control.verify import objections
from nearcast.domain.errors import ConfigError
from nearcast.domain.plan import Plan
from nearcast.policies.registry import policy_named
from nearcast.transport.config import find_config, load_config

_SHOWN = 40


def compute_plan(
    *,
    policy: Annotated[str, typer.Option(help="The policy's name.")],
    snapshot: Annotated[Path, typer.Option(metavar="FILE", help="As `plan show --snapshot` writes it.")],
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Compute the plan that the leader would make of a snapshot, with the settings of the deployment's file if there is
    one. Nothing moves.
    """
    seen, loop = snapshot_in(snapshot), _settings(config)
    plan = within_budget(policy_named(policy)(seen, loop.settings, seen.at_s), loop.most_moves)
    against = objections(plan, seen, most=loop.most_moves)
    home = homes_after(seen, plan)
    delay = None if home is None else facts_of(seen, home)
    if as_json:
        print_json({**msgspec.to_builtins(plan), "objections": against, "delay": delay})
    else:
        _show(plan, against)
        if delay is not None:
            show_facts(delay)


def _settings(config: Path | None) -> LoopSettings:
    if config is None:
        try:
            find_config()
        except ConfigError:
            return LoopSettings()
    return load_config(config).loop


def _show(plan: Plan, against: list[str]) -> None:
    print(f"{plan.policy}: {len(plan.steps)} topics would move, {len(plan.homes)} subscribers would get another home")
    if plan.steps:
        rows = [
            (
                step.topic,
                f"{step.was_strategy} on {', '.join(step.was_brokers)}",
                f"{step.strategy} on {', '.join(step.brokers)}",
                step.reason,
            )
            for step in plan.steps[:_SHOWN]
        ]
        print_table(("topic", "from", "to", "reason"), rows)
        _say_more(len(plan.steps))
    if plan.homes:
        moved = [(step.subscriber, step.was or "-", step.broker, step.reason) for step in plan.homes[:_SHOWN]]
        print_table(("subscriber", "from", "to", "reason"), moved)
        _say_more(len(plan.homes))
    if plan.rent:
        print(f"rents {plan.rent}")
    if plan.release:
        print(f"releases {', '.join(plan.release)}")
    for line in (*plan.reasons, *(f"would not be applied: {why}" for why in against)):
        print(line)


def _say_more(count: int) -> None:
    if count > _SHOWN:
        print(f"and {count - _SHOWN} more; --json has them")
