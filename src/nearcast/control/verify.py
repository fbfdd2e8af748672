"""Whether a plan may be carried out: looked at once more before anything moves, whoever made it."""

from __future__ import annotations

import numpy as np

from nearcast.domain.plan import Plan
from nearcast.domain.snapshot import Snapshot

_FULL = 1.0
_SLACK = 1e-9


def objections(plan: Plan, now: Snapshot) -> list[str]:
    """Why it may not; empty when it may. `now` is what is seen when it is about to be carried out.

    A plan made of an older snapshot is held against the present one: what has moved or gone meanwhile is an objection.
    No broker may be expected to be filled beyond its capacity and beyond what it carries now.
    """
    out: list[str] = []
    index = {name: at for at, name in enumerate(now.brokers)}
    topics = {name: at for at, name in enumerate(now.topics)}
    usable = now.usable
    seen: set[str] = set()
    for step in plan.steps:
        if step.topic in seen:
            out.append(f"topic {step.topic!r} has two steps; one change of a topic at a time")
        seen.add(step.topic)
        gone = [name for name in step.brokers if name not in index or not usable[index[name]]]
        if gone:
            out.append(f"topic {step.topic!r} would go to {gone[0]!r}, which is not there or is being drained")
        at = topics.get(step.topic)
        if at is not None and (now.strategy_of(at), now.brokers_of(at)) != (step.was_strategy, step.was_brokers):
            where = f"{now.strategy_of(at).value} on {', '.join(now.brokers_of(at))}"
            out.append(f"topic {step.topic!r} has moved since the plan was made: it is {where}")
    ratios = now.load_ratios
    for name, expected in plan.load_ratios:
        present = float(ratios[index[name]]) if name in index else 0.0
        if expected > max(_FULL, present) + _SLACK:
            out.append(f"broker {name!r} would be filled to {expected:.0%} of its capacity; now it is at {present:.0%}")
    staying = int(np.count_nonzero(usable)) - len(plan.release)
    if plan.release and staying < 1:
        out.append("no broker would be left")
    return out
