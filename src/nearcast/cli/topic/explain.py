"""`nearcast topic explain`: why a topic is where it is."""

import time
from typing import Annotated

import msgspec
import typer

from nearcast.cli.api import CoordinatorApi, api_of, topic_path
from nearcast.cli.options import AsJson, ConfigFile
from nearcast.cli.output import print_json
from nearcast.domain.decision import Decision, Measured
from nearcast.domain.topic import validate_topic
from nearcast.transport.process import run
from nearcast.web.models import TopicDetail


def explain_topic(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    *,
    last: Annotated[int, typer.Option(min=1, help="So many decisions, the newest first.")] = 3,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show why a topic was moved: what was seen, which brokers could be chosen, and what was measured afterwards."""
    validate_topic(topic)
    raise typer.Exit(run(_explain(api_of(config), topic, last, as_json)))


async def _explain(api: CoordinatorApi, topic: str, last: int, as_json: bool) -> None:
    told = await api.get(topic_path(topic), TopicDetail)
    found = tuple(reversed(told.decisions))[:last]
    if as_json:
        print_json([{**msgspec.to_builtins(each), "error_ms": _rounded(each.error_ms)} for each in found])
    elif not found:
        print(f"{topic}: nobody has moved it; `nearcast topic show {topic}` says where it is")
    for each in () if as_json else found:
        print("\n".join(explained(each)))


def explained(decision: Decision) -> list[str]:
    """For people, a line each."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(decision.at_s))
    by = decision.policy + (f", plan {decision.plan}" if decision.plan else "")
    was = f"{decision.was_strategy.value} on {', '.join(decision.was_brokers)}"
    to = f"{decision.strategy.value} on {', '.join(decision.brokers)}"
    lines = [f"{when}  {decision.topic}: from {was} to {to} ({by})", f"  why        {decision.reason}"]
    lines += [f"  seen       {line}" for line in _seen(decision)]
    lines += _candidates(decision)
    if decision.refused:
        return [*lines, f"  refused    {decision.refused}"]
    return [*lines, f"  took       {_took(decision)}", f"  afterwards {_afterwards(decision)}"]


def _seen(decision: Decision) -> list[str]:
    forecast, lines = decision.forecast, []
    if forecast.worst_ms is not None:
        promised = f"promised are {decision.slo}" if decision.slo else "nothing is promised"
        broken = forecast.bound_ms is not None and forecast.worst_ms > forecast.bound_ms
        lines.append(f"worst case {forecast.worst_ms:.1f} ms, {promised}{': broken' if broken else ''}")
    if decision.before is not None:
        lines.append(f"measured {_measured(decision.before)}")
    return lines


def _candidates(decision: Decision) -> list[str]:
    forecast = decision.forecast
    if not forecast.candidates:
        return []
    keep = f", {forecast.feasible} of {forecast.considered} would keep it" if forecast.bound_ms is not None else ""
    lines = [f"  candidates by their predicted worst case{keep}:"]
    for broker, worst_ms, full in forecast.candidates:
        notes = [
            "chosen" if broker in decision.brokers else "",
            "where it was" if broker in decision.was_brokers else "",
            "too full" if full else "",
            "breaks the promise" if forecast.bound_ms is not None and worst_ms > forecast.bound_ms else "",
        ]
        lines.append(f"    {broker:<16} {worst_ms:8.1f} ms  {', '.join(filter(None, notes))}".rstrip())
    return lines


def _took(decision: Decision) -> str:
    if decision.told_s is None:
        return "clients are not told yet"
    told = f"{1e3 * decision.told_s:.0f} ms until clients were being told"
    if decision.done_s is None:
        return f"{told}; the old route is still draining, or it moved again before it was over"
    return f"{told}, {decision.done_s:.1f} s until nobody used the old route"


def _afterwards(decision: Decision) -> str:
    if decision.after is None:
        return "not measured yet, or nobody used it before it moved again"
    text = f"{_measured(decision.after)}, {decision.after.after_s:g} s after"
    if decision.error_ms is not None:
        text += f"; predicted worst case {decision.forecast.predicted_ms:.1f} ms: {decision.error_ms:+.1f} ms"
    bound_ms = decision.forecast.bound_ms
    if bound_ms is not None:
        text += f"; the promise is {'kept' if decision.after.latency_ms <= bound_ms else 'broken'}"
    return text


def _measured(found: Measured) -> str:
    give_or_take = f" give or take {found.uncertainty_ms:.1f}" if found.uncertainty_ms else ""
    return f"p{found.percentile} {found.latency_ms:.1f} ms{give_or_take} on {found.samples} messages"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
