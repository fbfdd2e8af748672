"""Dynamoth's Algorithm 1 (section III-B 1): which topics need more than one server, how, and how many.

Three things are ours where the paper has no word or leaves one out (ADR 8). The corner case, both very large, comes
first and gives `all_subscribers`; a topic that no single server could carry is one, whatever its ratios. A ratio asks
for no more servers than the count it is gated by: subscribers per publication grows as a topic falls silent, and would
then ask for ever more servers for ever less work. And in a busy fleet that cannot grow, hot topics are shared out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Bools, Floats, Ints
from nearcast.policies.draft import Draft
from nearcast.policies.settings import Replication, Settings

_SINGLE = STRATEGIES.index(Strategy.SINGLE)
_ALL_SUBSCRIBERS = STRATEGIES.index(Strategy.ALL_SUBSCRIBERS)
_ALL_PUBLISHERS = STRATEGIES.index(Strategy.ALL_PUBLISHERS)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most bytes per second that one server may carry of one topic, and what it is given when it is too much."""

    most: float
    share: float


def replicate(draft: Draft, *, can_rent: bool) -> dict[int, int]:
    """Give every topic the replicas it should have. Returns the topics that lack servers for that, and how many."""
    settings, rest, snapshot = draft.settings, draft.rest, draft.snapshot
    count = int(draft.usable.sum())
    if not count:
        return {}
    bounds = bounds_of(draft, can_rent=can_rent)
    most = min(settings.replication.most, count)
    loads = (rest.publications, rest.subscribers, rest.bytes_out)
    strategy, wanted = replicas(*loads, settings.replication, bounds)
    kept_strategy, kept = replicas(*loads, settings.replication, bounds, scale=settings.replication.keep_ratio)
    now = np.diff(snapshot.first)
    keeps = (kept_strategy == snapshot.strategy) & (wanted < now)
    strategy = np.where(keeps, kept_strategy, strategy)
    enough = np.where(keeps, np.minimum(np.maximum(kept, wanted), now), wanted)
    # With no publication there is no evidence of anything: a topic that is silent for a while stays as it is.
    settled = draft.frozen | draft.homed | (rest.publications <= 0)
    differs = (strategy != snapshot.strategy) | (np.minimum(enough, settings.replication.most) != now)
    short = {}
    # The busiest first: they have the most to gain, and the choice of servers.
    chosen = np.flatnonzero(~settled & differs)
    for topic in chosen[np.lexsort((chosen, -rest.bytes_out[chosen]))].tolist():
        if draft.changed(topic):
            continue
        asked = int(enough[topic])
        got = _apply(draft, topic, STRATEGIES[int(strategy[topic])], asked, min(asked, most))
        if got < min(asked, settings.replication.most):
            short[topic] = min(asked, settings.replication.most) - got
    return short


def bounds_of(draft: Draft, *, can_rent: bool) -> Bounds:
    """Where no server can be added to a busy fleet, topics are cut into small parts, which pack well.

    Small parts also share out what makes topics differ from one second to the next: a server with many of them is at
    the mean of all, where one with a few whole topics is at times far above it. Half the safe ratio is busy: a server
    may be overloaded then, and while it is this does not come and go with every plan.
    """
    if not can_rent and draft.mean_ratio > draft.settings.safe_ratio / 2:
        part = max(draft.settings.part_ratio * draft.typical_capacity, 1.0)
        return Bounds(part, part)
    return Bounds(
        most=draft.settings.high_ratio * float(draft.capacity[draft.usable].max(initial=0.0)),
        share=draft.settings.safe_ratio * draft.typical_capacity,
    )


def replicas(
    publications: Floats,
    subscribers: Floats,
    bytes_out: Floats,
    thresholds: Replication,
    bounds: Bounds,
    *,
    scale: float = 1.0,
) -> tuple[Ints, Ints]:
    """Per topic: the index of its strategy, and how many servers it asks for. `scale` lowers every threshold."""
    listeners = np.maximum(subscribers, 1.0)
    speakers = np.maximum(publications, 1e-9)
    many_in: Bools = publications > scale * thresholds.publications
    many_out: Bools = subscribers > scale * thresholds.subscribers
    in_ratio = publications / listeners / (scale * thresholds.all_subscribers_ratio)
    out_ratio = subscribers / speakers / (scale * thresholds.all_publishers_ratio)
    too_much: Bools = bytes_out > scale * bounds.most
    by_count_in = np.ceil(publications / (scale * thresholds.publications))
    by_count_out = np.ceil(subscribers / (scale * thresholds.subscribers))
    by_load = np.where(too_much, np.ceil(bytes_out / (scale * bounds.share)), 1.0)

    both = many_in & many_out
    to_all_subscribers = both | ((in_ratio > 1) & many_in)
    to_all_publishers = ~to_all_subscribers & (out_ratio > 1) & many_out
    asked = np.ones(len(publications))
    asked = np.where(to_all_publishers, np.minimum(np.ceil(out_ratio), by_count_out), asked)
    asked = np.where(to_all_subscribers, np.minimum(np.ceil(in_ratio), by_count_in), asked)
    asked = np.maximum(np.where(both, by_count_in, asked), by_load)
    strategy = np.where(to_all_publishers, _ALL_PUBLISHERS, np.where(asked > 1, _ALL_SUBSCRIBERS, _SINGLE))
    return strategy.astype(np.int64), np.minimum(asked, 2**31).astype(np.int64)


def replicas_plain(
    publications: float, subscribers: float, bytes_out: float, thresholds: Replication, bounds: Bounds
) -> tuple[Strategy, int]:
    """One topic, as one would say it: what `replicas` is tested against."""
    p_ratio = publications / max(subscribers, 1.0)
    s_ratio = subscribers / max(publications, 1e-9)
    by_load = math.ceil(bytes_out / bounds.share) if bytes_out > bounds.most else 1
    many_in = publications > thresholds.publications
    many_out = subscribers > thresholds.subscribers
    by_count_in = math.ceil(publications / thresholds.publications)
    by_count_out = math.ceil(subscribers / thresholds.subscribers)
    if many_in and many_out:
        return Strategy.ALL_SUBSCRIBERS, max(by_count_in, by_load)
    if p_ratio > thresholds.all_subscribers_ratio and many_in:
        by_ratio = math.ceil(p_ratio / thresholds.all_subscribers_ratio)
        return Strategy.ALL_SUBSCRIBERS, max(min(by_ratio, by_count_in), by_load)
    if s_ratio > thresholds.all_publishers_ratio and many_out:
        by_ratio = math.ceil(s_ratio / thresholds.all_publishers_ratio)
        return Strategy.ALL_PUBLISHERS, max(min(by_ratio, by_count_out), by_load)
    return (Strategy.ALL_SUBSCRIBERS, by_load) if by_load > 1 else (Strategy.SINGLE, 1)


def _apply(draft: Draft, topic: int, strategy: Strategy, asked: int, wanted: int) -> int:
    """More servers: the least loaded first; fewer: the busiest are freed first. Returns how many it has then."""
    now = draft.members_of(topic)
    copies = max(wanted, len(now), 2) - 1
    if not draft.may_leave(topic, now, copies=copies):
        return max(wanted, len(now))  # capped, not short: its turn comes with another plan
    if wanted > len(now):
        members = _more(draft, topic, now, wanted, copies)
    else:
        ratios = draft.ratios
        members = tuple(sorted(now, key=lambda at: (ratios[at], at))[:wanted])
        share = float(draft.rest.bytes_out[topic]) / max(wanted, 1)
        if wanted < len(now) and not _fits(draft, topic, members, share, draft.settings.safe_ratio):
            return len(now)
    if len(members) == 1:
        strategy = Strategy.SINGLE
    if (strategy, set(members)) != (draft.snapshot.strategy_of(topic), set(now)) and draft.usable[list(members)].all():
        draft.spread(topic, strategy, members, _reason(draft, topic, strategy, asked, len(members)))
    return len(members)


def _more(draft: Draft, topic: int, now: tuple[int, ...], wanted: int, copies: int) -> tuple[int, ...]:
    """As many of the wanted servers as there is room on. Those it is on are kept if there is room on them too."""
    for keeps_all in (False, True):
        for limit in (draft.settings.safe_ratio, draft.settings.high_ratio):
            room = draft.room(limit)
            for count in range(wanted, len(now), -1):
                share = float(draft.rest.bytes_out[topic]) / count
                found = [at for at in now if keeps_all or _fits(draft, topic, (at,), share, limit)]
                fits = room >= share
                while len(found) < count and (new := draft.least_loaded(fits, topic, found, copies=copies)) is not None:
                    found.append(new)
                if len(found) == count:
                    return tuple(found)
    return now


def _fits(draft: Draft, topic: int, members: tuple[int, ...], share: float, limit: float) -> bool:
    """Whether servers that the topic is on already can carry this share of it instead of their own."""
    first = draft.snapshot.first
    rows = range(int(first[topic]), int(first[topic + 1]))
    own = {int(draft.snapshot.members[row]): float(draft.rest.row_bytes[row]) for row in rows}
    return all(draft.load[at] - own[at] + share <= limit * draft.capacity[at] for at in members)


def _reason(draft: Draft, topic: int, strategy: Strategy, asked: int, got: int) -> str:
    rest, settings = draft.rest, draft.settings
    seen = f"{rest.publications[topic]:.4g} publications/s for {rest.subscribers[topic]:.0f} subscribers"
    if strategy is Strategy.SINGLE:
        return f"{seen}: one server is enough"
    why = _cause(rest.publications[topic], rest.subscribers[topic], strategy, settings)
    fewer = f" of {asked} asked for" if got < asked else ""
    return f"{seen}, {why}: {strategy.value} on {got} servers{fewer}"


def _cause(publications: float, subscribers: float, strategy: Strategy, settings: Settings) -> str:
    thresholds = settings.replication
    if strategy is Strategy.ALL_PUBLISHERS:
        return "many subscribers per publication"
    if publications > thresholds.publications and subscribers > thresholds.subscribers:
        return "both very many"
    if publications > thresholds.publications:
        return "many publications per subscriber"
    return "more than one server has room for"
