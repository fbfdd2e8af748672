"""Whether a plan may be carried out: looked at once more before anything moves, whoever made it."""

from __future__ import annotations

import numpy as np

from nearcast.domain.area import NOWHERE
from nearcast.domain.plan import Plan
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import Snapshot

_FULL = 1.0
_SLACK = 1e-9
_SLACK_S = 1e-6


def objections(plan: Plan, now: Snapshot, most: int | None = None) -> list[str]:
    """Why it may not; empty when it may. `now` is what is seen when it is about to be carried out.

    A plan made of an older snapshot is held against the present one: what has moved or gone meanwhile is an objection.
    No broker may be expected to be filled beyond its capacity and beyond what it carries now, and no promise to be
    broken by more than it is now. A subscriber that has left meanwhile is none. `most`: how many topics may move.
    """
    out: list[str] = []
    if most is not None and len(plan.steps) > most:
        out.append(f"{len(plan.steps)} topics would move; at most {most} may")
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
    out += _wrong_homes(plan, now, index)
    out += _broken_promises(plan, now, topics, index)
    ratios = now.load_ratios
    for name, expected in plan.load_ratios:
        present = float(ratios[index[name]]) if name in index else 0.0
        if expected > max(_FULL, present) + _SLACK:
            out.append(f"broker {name!r} would be filled to {expected:.0%} of its capacity; now it is at {present:.0%}")
    staying = int(np.count_nonzero(usable)) - len(plan.release)
    if plan.release and staying < 1:
        out.append("no broker would be left")
    return out


def _wrong_homes(plan: Plan, now: Snapshot, brokers: dict[str, int]) -> list[str]:
    out: list[str] = []
    if not plan.homes:
        return out
    homes, area, usable = now.homes, now.area, now.usable
    home_of = {} if homes is None else dict(zip(homes.subscribers, homes.home.tolist(), strict=True))
    if area is not None:
        home_of |= dict(zip(area.clients, area.home.tolist(), strict=True))
    seen: set[str] = set()
    for step in plan.homes:
        if step.subscriber in seen:
            out.append(f"subscriber {step.subscriber!r} has two steps; it has one home")
        seen.add(step.subscriber)
        if step.broker not in brokers or not usable[brokers[step.broker]]:
            out.append(
                f"subscriber {step.subscriber!r} would go to {step.broker!r}, which is not there or is being drained"
            )
        at = home_of.get(step.subscriber)
        if at is not None and (now.brokers[at] if at != NOWHERE else "") != step.was:
            where = now.brokers[at] if at != NOWHERE else "nowhere"
            out.append(f"subscriber {step.subscriber!r} has moved since the plan was made: its home is {where}")
    return out


def _broken_promises(plan: Plan, now: Snapshot, topics: dict[str, int], brokers: dict[str, int]) -> list[str]:
    """By the same prediction for where a topic is and where it goes: like is compared with like.

    A homed topic is on no one broker, even if its route has but one: its messages take the way from home to home.
    """
    places = now.places
    if places is None:
        return []
    promised = places.promised
    single = [
        (topics[step.topic], brokers[step.was_brokers[0]], brokers[step.brokers[0]])
        for step in plan.steps
        if step.topic in topics
        and promised[topics[step.topic]]
        and len(step.brokers) == len(step.was_brokers) == 1
        and step.strategy is not Strategy.HOMED
        and step.brokers[0] in brokers
        and step.was_brokers[0] in brokers
    ]
    if not single:
        return []
    topic, source, receiver = np.array(single, dtype=np.int64).T
    was_s, will_s = places.expected_s(topic, source), places.expected_s(topic, receiver)
    # Where nobody knows what it is now, nobody can say that it gets worse.
    allowed_s = np.maximum(places.bound_s[topic], np.nan_to_num(was_s, nan=np.inf))
    return [
        f"topic {now.topics[topic[at]]!r} would be at {1e3 * will_s[at]:.1f} ms on {now.brokers[receiver[at]]!r}, where"
        f" {1e3 * places.bound_s[topic[at]]:.1f} ms are promised; now it is at {1e3 * was_s[at]:.1f} ms"
        for at in np.flatnonzero(will_s > allowed_s + _SLACK_S).tolist()
    ]
