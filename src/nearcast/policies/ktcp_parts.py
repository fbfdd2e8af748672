"""Topics that are more than one broker can serve in time: into how many parts each goes (which Khare leaves out).

The publishers of a topic on several brokers (`all_subscribers`) are parted among them, and its subscribers listen at
all. So each broker processes its part of the messages, every publisher's in order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Bools, Floats, Ints, Snapshot

_DIGITS = 2


def published(snapshot: Snapshot) -> tuple[Floats, Ints]:
    """Of every topic how much is published on it, at all brokers together, and by how many."""
    entries, count = snapshot.entries, len(snapshot.topics)
    rate_hz = np.bincount(entries.topic, weights=entries.publications, minlength=count)
    publishers = np.bincount(entries.topic, weights=entries.publishers, minlength=count)
    return rate_hz.astype(np.float64), publishers.astype(np.int64)


def can_move(snapshot: Snapshot) -> Bools:
    """Topics whose publishers are all at one broker, or parted: none of their brokers is silent."""
    parted = np.isin(
        snapshot.strategy, [STRATEGIES.index(each) for each in (Strategy.SINGLE, Strategy.ALL_SUBSCRIBERS)]
    )
    silent = np.add.reduceat(snapshot.silent[snapshot.members].astype(np.int64), snapshot.first[:-1])
    movable: Bools = parted & (silent == 0)
    return movable


def parts_needed(
    snapshot: Snapshot,
    topics: Ints,
    rate_hz: Floats,
    *,
    most: Ints,
    keeps_alone: Callable[[Ints, Floats], Bools],
    keep_ratio: float,
) -> Ints:
    """The fewest parts of each of `topics` such that a part keeps the promise at a broker of its own; 0 where `most` of
    them would not do.

    A topic that is parted already loses parts only if it would also with 1 / `keep_ratio` times its rate: one that
    hovers at a threshold is not changed back and forth.
    """
    needed = _fewest(topics, rate_hz, most, keeps_alone)
    now = np.diff(snapshot.first)[topics]
    loses = (needed < now) & (needed > 0)
    if loses.any():
        with_more = _fewest(topics[loses], rate_hz / keep_ratio, most, keeps_alone)
        needed[loses] = np.where(
            (with_more == 0) | (with_more > now[loses]), now[loses], np.maximum(needed[loses], with_more)
        )
    return needed


def _fewest(topics: Ints, rate_hz: Floats, most: Ints, keeps_alone: Callable[[Ints, Floats], Bools]) -> Ints:
    found = np.zeros(len(topics), dtype=np.int64)
    parts = 1
    open_ = np.arange(len(topics))
    while len(open_):
        kept = keeps_alone(topics[open_], rate_hz[topics[open_]] / parts)
        found[open_[kept]] = parts
        parts += 1
        open_ = open_[~kept]
        open_ = open_[most[topics[open_]] >= parts]
    return found


def rounded_up(values: Floats) -> Floats:
    """To two digits: what is more than it is said to be would break a promise."""
    known = values > 0.0
    unit = 10.0 ** (np.floor(np.log10(np.where(known, values, 1.0))) - (_DIGITS - 1))
    return np.where(known, np.ceil(values / unit - 1e-9) * unit, values)
