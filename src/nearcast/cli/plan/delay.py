"""How late notifications come by the homes of a snapshot: what `plan compute` and `plan evaluate` tell of an area."""

from typing import Any

import numpy as np

from nearcast.cli.output import print_table
from nearcast.domain.area import NOWHERE
from nearcast.domain.places import Ints
from nearcast.domain.plan import Plan
from nearcast.domain.snapshot import Snapshot
from nearcast.predict.delegation import delay_by_topics
from nearcast.predict.homed import Delay, delay_of

_SHOWN = 40


def homes_after(snapshot: Snapshot, plan: Plan) -> Ints | None:
    """By client of the area, once the plan is carried out; None without an area."""
    area = snapshot.area
    if area is None:
        return None
    client = {name: number for number, name in enumerate(area.clients)}
    broker = {name: number for number, name in enumerate(snapshot.brokers)}
    home = area.home.copy()
    for step in plan.homes:
        if step.subscriber in client:
            home[client[step.subscriber]] = broker[step.broker]
    return home


def facts_of(snapshot: Snapshot, home: Ints) -> dict[str, Any] | None:
    """Y and all that it comes from, as JSON has it; None while somebody has no home."""
    area = snapshot.area
    if area is None or (home == NOWHERE).any():
        return None
    found = delay_of(area, home)
    by_topics, whole = delay_by_topics(area, home)
    left = whole.left / np.maximum(whole.publications, 1.0)
    clients = np.bincount(home, minlength=len(snapshot.brokers))
    return {
        **_sums(found),
        "delegated_publications": round(whole.share, 6),
        "y_by_topics_ms": round(1e3 * by_topics.y_s, 6),
        "homes": {name: snapshot.brokers[at] for name, at in zip(area.clients, home.tolist(), strict=True)},
        "servers": [
            {
                "server": name,
                "clients": int(clients[at]),
                "storage": float(found.storage[at]),
                "storage_limit": _known(area.storage[at]),
                "load": float(found.load[at]),
                "load_limit": _known(area.compute[at]),
                "theta": round(float(found.theta[at]), 6),
                "delegated_topics": [snapshot.topics[each] for each in whole.topic[whole.server == at].tolist()],
                "delegated_publications": round(float(left[at]), 6),
            }
            for at, name in enumerate(snapshot.brokers)
        ],
    }


def show_facts(facts: dict[str, Any]) -> None:
    print(f"Y {facts['y_ms']:.3f} ms: Y1 {facts['y1_ms']:.3f} to and from homes, Y2 {facts['y2_ms']:.3f} between them")
    print(
        f"{facts['clients']} clients, {facts['publications']} publications; way to a home {facts['home_ms']:.3f} ms;"
        f" {facts['delegated']:.1%} of what is stored is left to the cloud"
    )
    if facts["delegated_publications"]:
        print(
            f"by whole topics: {facts['delegated_publications']:.1%} of the publications are delegated,"
            f" Y {facts['y_by_topics_ms']:.3f} ms"
        )
    rows = [
        (
            each["server"],
            str(each["clients"]),
            _of(each["storage"], each["storage_limit"]),
            _of(each["load"], each["load_limit"]),
            f"{1.0 - each['theta']:.1%}",
            f"{each['delegated_publications']:.1%}",
        )
        for each in facts["servers"][:_SHOWN]
    ]
    print_table(("server", "clients", "storage", "load", "1 - theta", "delegated"), rows)
    if len(facts["servers"]) > _SHOWN:
        print(f"and {len(facts['servers']) - _SHOWN} more; --json has them")


def _sums(found: Delay) -> dict[str, Any]:
    return {
        "y_ms": round(1e3 * found.y_s, 6),
        "y1_ms": round(1e3 * found.y1_s, 6),
        "y2_ms": round(1e3 * found.y2_s, 6),
        "clients": len(found.home_s),
        "publications": len(found.delay_s),
        "home_ms": round(1e3 * float(found.home_s.mean()), 6) if len(found.home_s) else 0.0,
        "delegated": round(found.delegated, 6),
    }


def _known(limit: float) -> float | None:
    return float(limit) if limit < np.inf else None


def _of(used: float, limit: float | None) -> str:
    return f"{used:g}" if limit is None else f"{used:g} of {limit:g}"
