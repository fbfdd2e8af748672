"""Dynamoth's Algorithm 2 (section III-B 3): bring overloaded servers down, with the servers that are there.

The busiest topic of the busiest server goes to the least loaded server, until the server is below the safe ratio. Load
is estimated on both ends: a topic that would push its receiver over a limit does not go there, and the next smaller
one is tried. The limit is the safe ratio. Where that is not enough, and until a rented server is there, receivers are
filled up to the high ratio. Where everything is full and nothing more can be rented, load is only evened out: no
receiver comes above its source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nearcast.domain.snapshot import Floats
from nearcast.policies.draft import Draft


class Stuck(enum.Enum):
    NO_ROOM = "no room"  # a topic of it would fit on another server, if there was one
    CAPPED = "capped"  # it has more topics to move than agents can forward at once
    IMMOVABLE = "immovable"  # what is left on it fits on no server, or belongs to no topic that may move


@dataclass(frozen=True, slots=True)
class Relief:
    """What came of it: the servers that were overloaded, and why some of them still are above the safe ratio.

    `lacking`: the most servers that a topic on one of those lacks for its replicas.
    """

    overloaded: tuple[int, ...]
    stuck: dict[int, Stuck]
    lacking: int = 0


def relieve(draft: Draft, short: Mapping[int, int], *, can_rent: bool) -> Relief:
    """`short`: topics that lack servers for their replicas, and how many."""
    settings = draft.settings
    overloaded = _over(draft, settings.high_ratio)
    lacks: dict[int, int] = {}
    for topic, count in short.items():
        for member in draft.members_of(topic):
            lacks[member] = max(count, lacks.get(member, 0))
    stuck = {}
    for source in overloaded:
        why = _unload(draft, source, settings.safe_ratio, settings.safe_ratio)
        if why is not None:
            stuck[source] = Stuck.NO_ROOM if source in lacks and why is Stuck.IMMOVABLE else why
    _fill(draft, settings.high_ratio)
    if not can_rent:
        usual = draft.mean_ratio
        for source in _over(draft, settings.high_ratio):
            _unload(draft, source, max(usual, settings.high_ratio), settings.full_ratio, even_out=True)
        _fill(draft, settings.high_ratio)  # whoever came over the limit by that may have something smaller to give away
    return Relief(tuple(overloaded), stuck, max((lacks.get(source, 0) for source in stuck), default=0))


def _fill(draft: Draft, limit: float) -> None:
    """Until no single move would help: who gave something away may have room for what did not fit before."""
    moved = -1
    while moved != draft.changes:
        moved = draft.changes
        for source in _over(draft, limit):
            _unload(draft, source, limit, limit)


def _over(draft: Draft, limit: float) -> list[int]:
    """Usable servers above the limit, the busiest first; of equals, the first by name."""
    ratios = np.where(draft.usable, draft.ratios, -np.inf)
    over = np.flatnonzero(ratios > limit)
    found: list[int] = over[np.lexsort((over, -ratios[over]))].tolist()
    return found


def _unload(draft: Draft, source: int, target: float, limit: float, *, even_out: bool = False) -> Stuck | None:
    """Move topics from one server until it is below `target`, with no receiver above `limit`. None: it is below."""
    capacity = float(draft.capacity[source])
    rented = draft.settings.safe_ratio * draft.typical_capacity
    blocked: Stuck = Stuck.IMMOVABLE
    room = _room(draft, source, limit)
    most = float(room.max(initial=-np.inf))
    for row in draft.rows_of(source):
        if draft.load[source] < target * capacity:
            return None
        topic, amount = int(draft.rest.row_topic[row]), float(draft.rest.row_bytes[row])
        if amount <= 0:
            break  # nothing that comes after weighs anything either
        if draft.changed(topic) or draft.frozen[topic] or draft.homed[topic]:
            continue
        if not draft.may_leave(topic, (source,)):
            blocked = Stuck.CAPPED
            continue
        if amount > most:
            blocked = Stuck.NO_ROOM if amount <= rented and blocked is Stuck.IMMOVABLE else blocked
            continue
        fits = room >= amount
        if even_out:
            fits &= draft.load + amount <= (draft.load[source] - amount) / capacity * draft.capacity
        receiver = draft.least_loaded(fits, topic)
        if receiver is None:
            fits[list(draft.members_of(topic))] = False
            if fits.any():
                blocked = Stuck.CAPPED
            elif amount <= rented and blocked is Stuck.IMMOVABLE:
                blocked = Stuck.NO_ROOM
            continue
        ratios = draft.ratios
        draft.move(
            row,
            receiver,
            f"{draft.snapshot.brokers[source]} is at {ratios[source]:.2f} of its capacity, {amount / capacity:.2f} of "
            f"it this topic; {draft.snapshot.brokers[receiver]} is the least loaded, at {ratios[receiver]:.2f}",
        )
        room = _room(draft, source, limit)
        most = float(room.max(initial=-np.inf))
    return None if draft.load[source] < target * capacity else blocked


def _room(draft: Draft, source: int, limit: float) -> Floats:
    room = draft.room(limit)
    room[source] = -np.inf
    return room
