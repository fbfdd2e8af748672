"""Policy `dynamoth` (Dynamoth, section III-B): replicate topics, relieve the overloaded, release the superfluous.

In this order: what is being drained leaves; Algorithm 1; Algorithm 2; and, when none of that asked for more servers,
low load. Servers that are there are used before one is rented, and one is rented when no plan brings every overloaded
server below the safe ratio. What the paper leaves open is decided in ADR 8.

Promised: a plan names only brokers that report and are not being drained; no broker is pushed over the high ratio that
was not over it, except by what an operator drains, or when everything is overloaded and nothing more can be rented.
Not promised: the fewest moves, or the best packing.
"""

from __future__ import annotations

import math

from nearcast.domain.plan import Plan
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.draft import Draft
from nearcast.policies.dynamoth_high import Relief, Stuck, relieve
from nearcast.policies.dynamoth_low import evacuate, ring_without, shrink
from nearcast.policies.dynamoth_replication import replicate
from nearcast.policies.limits import most_to_rent, must_know_capacities, wait_reason
from nearcast.policies.settings import Settings

NAME = "dynamoth"


def dynamoth(snapshot: Snapshot, settings: Settings, now_s: float) -> Plan:
    """Equal snapshots give equal plans, in whatever order their facts came."""
    must_know_capacities(NAME, snapshot)
    if waiting := wait_reason(snapshot, settings, now_s):
        return Plan(NAME, now_s, reasons=(waiting,))
    draft = Draft(snapshot, settings)
    rentable = most_to_rent(snapshot, settings)
    emptied, homeless = evacuate(draft, can_rent=rentable > 0)
    short = replicate(draft, can_rent=rentable > 0)
    relief = relieve(draft, short, can_rent=rentable > 0)
    reasons = _still_overloaded(draft, relief)
    reasons += [f"{snapshot.brokers[at]} cannot be drained yet: the others have no room" for at in homeless]

    rent, why = _rent(draft, relief, homeless, rentable)
    reasons += why
    released: list[int] = []
    needed = rent or why or short or relief.overloaded or snapshot.renting or len(emptied) < snapshot.draining.sum()
    if not needed:
        released, because = shrink(draft)
        reasons += because
    ring = ring_without(draft, [*emptied, *released])
    if ring is not None:
        reasons.append(f"ring without {_names(snapshot, sorted({*emptied, *released}))}: nothing new may come to them")
    return Plan(
        NAME,
        now_s,
        steps=draft.steps(),
        ring=ring,
        rent=rent,
        release=tuple(snapshot.brokers[at] for at in sorted(released)),
        reasons=tuple(reasons),
        load_ratios=draft.load_ratios(),
    )


def _rent(draft: Draft, relief: Relief, homeless: list[int], rentable: int) -> tuple[int, list[str]]:
    """How many servers to add, and why, or why not although they are wanted."""
    snapshot, settings = draft.snapshot, draft.settings
    crowded = [at for at, why in relief.stuck.items() if why is Stuck.NO_ROOM] + homeless
    missing = settings.min_brokers - int(draft.usable.sum())
    if missing > 0:
        wanted, because = missing, f"at least {settings.min_brokers} are to be there"
    elif crowded:
        excess = float(draft.load[~snapshot.silent].sum() - settings.safe_ratio * draft.capacity[draft.usable].sum())
        one = settings.safe_ratio * draft.typical_capacity
        wanted = max(1, relief.lacking, math.ceil(excess / one))
        because = f"no plan brings {_names(snapshot, crowded)} below {settings.safe_ratio:.2f} of the capacity"
    else:
        return 0, []
    if snapshot.renting >= wanted:
        return 0, [f"{because}; {snapshot.renting} servers are on their way"]
    rent = min(wanted - snapshot.renting, rentable)
    if not rent:
        return 0, [f"{because}; no more may be rented (max_brokers is {settings.max_brokers})"]
    return rent, [f"rent {rent}: {because}"]


def _still_overloaded(draft: Draft, relief: Relief) -> list[str]:
    """What an operator should know of servers that this plan leaves above the high ratio."""
    ratios, high = draft.ratios, draft.settings.high_ratio
    told = {
        Stuck.CAPPED: "more of its topics move with the next plan, agents can forward no more now",
        Stuck.IMMOVABLE: "what is left on it fits on no server, or belongs to no topic that can be moved",
    }
    return [
        f"{draft.snapshot.brokers[at]} stays at {ratios[at]:.2f} of its capacity: {told[why]}"
        for at, why in relief.stuck.items()
        if why in told and ratios[at] > high
    ]


def _names(snapshot: Snapshot, brokers: list[int]) -> str:
    names = [snapshot.brokers[at] for at in brokers]
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"
