"""Policy `hash`: every topic where the ring has it (plan 0), elastic as in section V-D of Dynamoth.

The baseline that Dynamoth was compared with. Each of its rebalancings adds one server to the ring, which takes 1/N of
every other's load, whatever that load is. It rents one when a server is overloaded, and never releases one.
"""

from __future__ import annotations

import numpy as np

from nearcast.domain.plan import Plan, Step
from nearcast.domain.ring import Ring, topic_positions
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Floats, Snapshot
from nearcast.policies.limits import most_to_rent, wait_reason
from nearcast.policies.rest import Rest, at_rest
from nearcast.policies.settings import Settings

NAME = "hash"


def hashing(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    """Routes that are not those of the ring are brought back to it. Replication is not known to it."""
    if waiting := wait_reason(snapshot, settings, now_s):
        return Plan(NAME, now_s, reasons=(waiting,))
    rest = at_rest(snapshot)
    ratios = np.divide(rest.load, snapshot.capacity, out=np.zeros_like(rest.load), where=~snapshot.silent)
    usable = snapshot.usable
    hottest = int(np.where(usable, ratios, -1.0).argmax()) if usable.any() else None
    overloaded = hottest is not None and bool(ratios[hottest] > settings.high_ratio)

    ring, reasons = _ring(snapshot, overloaded=overloaded)
    grown = any(name not in snapshot.ring.brokers for name in ring.brokers)
    rent = 0
    missing = settings.min_brokers - int(usable.sum()) - snapshot.renting
    if missing > 0:
        rent = min(missing, most_to_rent(snapshot, settings))
        reasons.append(f"rent {rent}: at least {settings.min_brokers} are to be there")
    elif overloaded and not grown and not snapshot.renting:
        assert hottest is not None
        rent = min(1, most_to_rent(snapshot, settings))
        seen = f"{snapshot.brokers[hottest]} is at {ratios[hottest]:.2f} of its capacity"
        reasons.append(f"rent 1: {seen}" if rent else f"{seen}; no more may be rented")
    steps, load = _steps(snapshot, rest, ring)
    return Plan(
        NAME,
        now_s,
        steps=steps,
        ring=None if ring.brokers == snapshot.ring.brokers else ring.brokers,
        rent=rent,
        reasons=tuple(reasons),
        load_ratios=tuple(
            (snapshot.brokers[at], float(load[at] / snapshot.capacity[at])) for at in np.flatnonzero(usable).tolist()
        ),
    )


def _ring(snapshot: Snapshot, *, overloaded: bool) -> tuple[Ring, list[str]]:
    """The ring to go to: without what is drained, and with one new broker if one is needed and there.

    While a broker of the ring is silent the ring stays: what would come from it or go to it could not be moved.
    """
    names = np.array(snapshot.brokers, dtype=object)
    if silent := sorted({*names[snapshot.silent].tolist()} & {*snapshot.ring.brokers}):
        return snapshot.ring, [f"the ring stays as it is while {', '.join(silent)} does not report"]
    leaving = {*names[snapshot.draining].tolist()} & {*snapshot.ring.brokers}
    joining = [name for name in names[snapshot.usable].tolist() if name not in snapshot.ring.brokers]
    kept = [name for name in snapshot.ring.brokers if name not in leaving]
    reasons = []
    if joining and (overloaded or not kept):
        kept.append(joining[0])
        reasons.append(f"{joining[0]} joins the ring and takes 1/{len(kept)} of every other's topics")
    if leaving and kept:
        reasons.append(f"ring without {', '.join(sorted(leaving))}: being drained")
    if not kept or sorted(kept) == list(snapshot.ring.brokers):
        return snapshot.ring, reasons
    return Ring(tuple(kept), snapshot.ring.version + 1, snapshot.ring.vnodes), reasons


def _steps(snapshot: Snapshot, rest: Rest, ring: Ring) -> tuple[tuple[Step, ...], Floats]:
    """A step for every topic that is not where the ring has it, and the load once they are done."""
    index = {name: at for at, name in enumerate(snapshot.brokers)}
    in_ring = np.array([index[name] for name in ring.brokers], dtype=np.int64)
    owner = in_ring[ring.owner_indices(topic_positions(snapshot.topics))]
    load = rest.load.copy()
    single = snapshot.strategy == STRATEGIES.index(Strategy.SINGLE)
    first_member = snapshot.members[snapshot.first[:-1]]
    frozen = np.zeros(len(snapshot.topics), dtype=np.bool_)
    frozen[rest.row_topic[snapshot.silent[snapshot.members]]] = True
    steps = []
    for topic in np.flatnonzero(~(single & (first_member == owner)) & snapshot.usable[owner] & ~frozen).tolist():
        rows = slice(int(snapshot.first[topic]), int(snapshot.first[topic + 1]))
        load[snapshot.members[rows]] -= rest.row_bytes[rows]
        load[owner[topic]] += rest.bytes_out[topic]
        name = snapshot.brokers[owner[topic]]
        was = snapshot.strategy_of(topic), snapshot.brokers_of(topic)
        steps.append(
            Step(snapshot.topics[topic], Strategy.SINGLE, (name,), *was, f"{name} has it in the ring of {len(in_ring)}")
        )
    return tuple(steps), load
