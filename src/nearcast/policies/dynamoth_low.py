"""Emptying servers: those that an operator drains, and those that low load makes superfluous (section III-B 4).

The paper sketches low-load rebalancing; this is it in full (ADR 8). When the rest of the servers could carry everything
and stay under the low ratio, the least loaded server is emptied: each of its topics, the busiest first, goes to the
least loaded of the others that stays under that ratio with it. Either all of its topics find a place or none is moved,
because a server that is half empty saves nothing. What agents cannot forward at once leaves later; the server stays the
least loaded, so the next plan goes on with it, unless load has risen meanwhile. It is released in the plan that leaves
nothing on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nearcast.domain.snapshot import Floats
from nearcast.policies.draft import Draft

_TRIES = 8  # a server that holds one large topic cannot be emptied; the next one by load may be


def shrink(draft: Draft) -> tuple[list[int], list[str]]:
    """Empty what is not needed. Returns the servers to release, and why."""
    settings, snapshot = draft.settings, draft.snapshot
    released: list[int] = []
    reasons: list[str] = []
    while len(released) < settings.max_release:
        staying = np.flatnonzero(draft.usable)
        if len(staying) <= settings.min_brokers:
            break
        ratios = draft.ratios
        untouched = staying[~draft.received[staying]]
        for candidate in untouched[np.lexsort((untouched, ratios[untouched]))].tolist()[:_TRIES]:
            rest = staying[staying != candidate]
            if draft.load[staying].sum() > settings.low_ratio * draft.capacity[rest].sum():
                continue
            places = _places(draft, candidate)
            if places is not None:
                break
        else:
            break
        before = float(ratios[candidate])
        name = snapshot.brokers[candidate]
        if not _leave(draft, places, f"{name} is to be released: at {before:.2f} of its capacity it is not needed"):
            reasons.append(f"{name} is being emptied, as fast as agents can forward")
            break
        draft.usable[candidate] = False
        released.append(candidate)
        reasons.append(
            f"release {name}: it was at {before:.2f} of its capacity, and the others stay at or below "
            f"{settings.low_ratio:.2f} without it"
        )
    return released, reasons


def evacuate(draft: Draft, *, can_rent: bool) -> tuple[list[int], list[int]]:
    """Take everything off draining brokers. Returns those that are then empty, and those that lack room elsewhere.

    Nobody is pushed over the high ratio by this while a server can be rented that the topic would fit on. Where none
    can, what is drained goes to where it does the least harm: that was the operator's decision.
    """
    snapshot, rest = draft.snapshot, draft.rest
    leaving = snapshot.draining & ~snapshot.silent
    on_leaving = leaving[snapshot.members]
    topics, bytes_there = np.unique(rest.row_topic[on_leaving]), np.zeros(len(snapshot.topics))
    np.add.at(bytes_there, rest.row_topic[on_leaving], rest.row_bytes[on_leaving])
    waiting: set[int] = set()
    homeless: set[int] = set()
    for topic in topics[np.lexsort((topics, -bytes_there[topics]))].tolist():
        sources = [at for at in draft.members_of(topic) if leaving[at]]
        if draft.frozen[topic] or not draft.may_leave(topic, sources, copies=_copies(sources)):
            waiting.update(sources)
        elif not _rehouse(draft, topic, sources, can_rent=can_rent):
            waiting.update(sources)
            if not (draft.room(draft.settings.high_ratio) >= bytes_there[topic]).any():  # else it is only capped
                homeless.update(sources)
    # Nothing else may happen to them: a step for another reason would name a broker that is being drained.
    draft.frozen[topics] = True
    return [at for at in np.flatnonzero(leaving).tolist() if at not in waiting], sorted(homeless)


def ring_without(draft: Draft, emptied: Sequence[int]) -> tuple[str, ...] | None:
    """The ring without these brokers; None if it has none of them. Never empty while a broker is usable."""
    snapshot = draft.snapshot
    names = {snapshot.brokers[at] for at in emptied}
    kept = tuple(name for name in snapshot.ring.brokers if name not in names)
    if len(kept) == len(snapshot.ring.brokers):
        return None
    kept = kept or tuple(snapshot.brokers[at] for at in np.flatnonzero(draft.usable).tolist())
    return kept or None


def _rehouse(draft: Draft, topic: int, sources: list[int], *, can_rent: bool) -> bool:
    """Replace every draining broker of a topic. Where no other broker is left to do so, the topic has fewer."""
    snapshot, rest, settings = draft.snapshot, draft.rest, draft.settings
    rows = range(int(snapshot.first[topic]), int(snapshot.first[topic + 1]))
    leaving = [row for row in rows if int(snapshot.members[row]) in sources]
    stay = [at for at in draft.members_of(topic) if at not in sources]
    receivers: list[int] = []
    copies = _copies(sources)
    for row in leaving:
        amount = float(rest.row_bytes[row])
        receiver = _with_room(draft, topic, amount, receivers, copies)
        if receiver is None and (not can_rent or amount > settings.high_ratio * draft.typical_capacity):
            receiver = draft.least_loaded(draft.usable, topic, receivers, with_bytes=amount, copies=copies)
        if receiver is not None:
            receivers.append(receiver)
    if len(receivers) < len(leaving) and (can_rent or not (stay or receivers)):
        return False
    names = ", ".join(snapshot.brokers[at] for at in sources)
    if len(receivers) == len(leaving) == 1:
        draft.move(leaving[0], receivers[0], f"{names} is being drained; {snapshot.brokers[receivers[0]]} has room")
    else:
        draft.spread(
            topic, snapshot.strategy_of(topic), [*stay, *receivers], f"{names} being drained; others take over"
        )
    return True


def _copies(sources: Sequence[int]) -> int:
    """To how many others an agent forwards at most while each of these is replaced."""
    return 2 * len(sources) - 1


def _with_room(draft: Draft, topic: int, amount: float, taken: Sequence[int], copies: int) -> int | None:
    for limit in (draft.settings.safe_ratio, draft.settings.high_ratio):
        receiver = draft.least_loaded(draft.room(limit) >= amount, topic, taken, copies=copies)
        if receiver is not None:
            return receiver
    return None


def _places(draft: Draft, candidate: int) -> list[tuple[int, int]] | None:
    """A receiver for every row of the candidate; None where one has none."""
    others = draft.usable.copy()
    others[candidate] = False
    load: Floats = draft.load.copy()
    room: Floats = np.where(others, draft.settings.low_ratio * draft.capacity - load, -np.inf)
    ratios: Floats = np.where(others, draft.ratios, np.inf)
    found = []
    for row in draft.rows_of(candidate):
        topic, amount = int(draft.rest.row_topic[row]), float(draft.rest.row_bytes[row])
        if draft.changed(topic) or draft.frozen[topic] or draft.homed[topic]:
            return None
        fits = room >= amount
        fits[list(draft.members_of(topic))] = False
        if not fits.any():
            return None
        receiver = int(np.where(fits, ratios, np.inf).argmin())
        found.append((row, receiver))
        room[receiver] -= amount
        load[receiver] += amount
        ratios[receiver] = load[receiver] / draft.capacity[receiver]
    return found


def _leave(draft: Draft, places: list[tuple[int, int]], reason: str) -> bool:
    """Move what agents can forward now. Returns whether that is everything."""
    everything = True
    for row, receiver in places:
        topic, source = int(draft.rest.row_topic[row]), int(draft.snapshot.members[row])
        if draft.may_leave(topic, (source, receiver)):
            draft.move(row, receiver, f"{reason}; {draft.snapshot.brokers[receiver]} has room")
        else:
            everything = False
    return everything
