"""`nearcast rebalance plan|apply|status|stop`: what the leader is asked, and how its answer is shown."""

import asyncio
from typing import Annotated

import msgspec
import typer

from nearcast.cli.api import CoordinatorApi, api_of, because
from nearcast.cli.options import AsJson, ConfigFile, Reason
from nearcast.cli.output import print_json, print_table
from nearcast.transport.process import run
from nearcast.web import asked
from nearcast.web.models import Rebalance
from nearcast.wire.rebalancing import PlannedStep

_SHOWN = 40
_POLL_S = 0.5


def make_plan(
    *,
    policy: Annotated[str, typer.Option(help="Instead of the configured policy.")] = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what would move, where to, and why. Nothing moves; `apply` takes the plan's number."""
    raise typer.Exit(run(_make(api_of(config), policy, as_json)))


def apply_plan(
    plan: Annotated[int, typer.Argument(min=1, help="The plan's number.")],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Return when it is done or stopped.")] = False,
    reason: Reason = "",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Carry out exactly the plan that was shown. Refused when what it was made of has changed."""
    order = asked.ApplyPlan(plan, because(reason))
    raise typer.Exit(run(_order(api_of(config), "rebalance/apply", order, wait, as_json)))


def show_progress(config: ConfigFile = None, *, as_json: AsJson = False) -> None:
    """Show how far the plan is that is being carried out, or was last."""
    raise typer.Exit(run(_progress(api_of(config), False, as_json)))


def stop_plan(*, reason: Reason = "", config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Begin nothing more; what has begun ends in order."""
    raise typer.Exit(run(_order(api_of(config), "rebalance/stop", asked.Because(because(reason)), False, as_json)))


async def _make(api: CoordinatorApi, policy: str, as_json: bool) -> int:
    return _told(await api.post("rebalance/plan", asked.MakePlan(policy), Rebalance), as_json)


async def _order(
    api: CoordinatorApi, path: str, order: asked.ApplyPlan | asked.Because, wait: bool, as_json: bool
) -> int:
    await api.order(path, order)
    return await _progress(api, wait, as_json)


async def _progress(api: CoordinatorApi, wait: bool, as_json: bool) -> int:
    found = await api.get("rebalance", Rebalance)
    while wait and found.state in {"running", "stopping"}:
        await asyncio.sleep(_POLL_S)
        found = await api.get("rebalance", Rebalance)
    return _told(found, as_json)


def _told(found: Rebalance, as_json: bool) -> int:
    if as_json:
        print_json(found)
    else:
        _show(found)
    return int(bool(found.counts.refused))


def _show(found: Rebalance) -> None:
    mode = "the loop plans by itself" if found.automatic else "plans are made when asked for"
    if not found.plan:
        print(f"no plan is being carried out; {mode}")
        return
    by_state = msgspec.structs.asdict(found.counts)
    counts = ", ".join(f"{count} {state}" for state, count in by_state.items() if count)
    if found.homes_count:
        homes = f"{found.homes_count} subscribers get another home, {found.homes_left} have yet to arrive"
        counts = f"{counts}; {homes}" if counts else homes
    print(f"plan {found.plan} ({found.policy}): {found.state}; {counts or 'nothing to move'}")
    if found.steps:
        print_table(("topic", "from", "to", "state", "reason"), [_row(step) for step in found.steps[:_SHOWN]])
        more = sum(by_state.values()) - len(found.steps[:_SHOWN])
        if more > 0:
            print(f"and {more} more; --json has them")
    if found.homes:
        rows = [(each.subscriber, each.was, each.broker, each.reason) for each in found.homes[:_SHOWN]]
        print_table(("subscriber", "from", "to", "reason"), rows)
        if found.homes_count > len(rows):
            print(f"and {found.homes_count - len(rows)} more; --json has {len(found.homes)} of them")
    for line in (*_servers(found), *found.reasons, *(f"cannot be applied now: {why}" for why in found.objections)):
        print(line)
    if found.load_ratios:
        ratios = ", ".join(f"{broker} {ratio:.0%}" for broker, ratio in found.load_ratios[:_SHOWN])
        print(f"expected load: {ratios}")
    if found.state == "proposed" and (found.counts.waiting or found.homes_count) and not found.objections:
        print(f"`nearcast rebalance apply {found.plan}` carries it out")


def _row(step: PlannedStep) -> tuple[str, str, str, str, str]:
    was = f"{step.was_strategy} on {', '.join(step.was_brokers)}"
    to = f"{step.strategy} on {', '.join(step.brokers)}"
    state = step.state if step.took_s is None else f"{step.state} ({step.took_s:.2f} s)"
    return step.topic, was, to, state, f"{step.reason}; refused: {step.why}" if step.why else step.reason


def _servers(found: Rebalance) -> list[str]:
    out = []
    if found.rent:
        out.append(f"rents {found.rent} more server{'s' if found.rent > 1 else ''}")
    if found.release:
        out.append(f"releases {', '.join(found.release)}")
    return out
