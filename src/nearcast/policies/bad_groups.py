"""Policy `bad-groups`: subscribers that are alike migrate together (the future work of BAD, section 7).

Triggered as `bad-ldm`, from the heaviest broker while cov > alpha and the mean load > beta. What it moves differs. A
subscriber that leaves alone takes its own bytes along and leaves behind what others there still want, which is then
pulled twice. A group takes what it pulls along with it.

A group is a seed and those of its broker that have at least a quarter of what is sent to them in common with it, the
most similar first, as many as fit: all of them, or half of them, a quarter, and so on. It may go to any broker below
the mean, and fits if the two are on their sides of the mean afterwards; so every move of a group is valid by Algorithm
1. Seeds are the heaviest subscribers, a few of them. Of all these groups the one is taken by which the sum of all loads
grows least (or shrinks most) for what leaves the heaviest; one that is less than a quarter of what should leave only
when there is no larger one. When there is no group, `bad-ldm` decides.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.rows import entries_of
from nearcast.policies.bad import Migration, least_loaded, policy_of
from nearcast.policies.bad_spread import Spread

NAME = "bad-groups"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SEEDS = 16
_ALIKE = 0.25
_WORTH = 0.25


def in_groups(spread: Spread, source: int) -> Migration | None:
    """The group by which the sum of loads grows least, or what `bad-ldm` would do."""
    mean = spread.mean
    below = spread.usable[spread.load[spread.usable] < mean]
    some = spread.at_home(source)
    some = some[spread.weight[some] > 0.0]
    if not len(some) or not len(below):
        return None
    rate, (row, entry) = spread.homes.rate, entries_of(spread.homes.first, some)
    key = spread.homes.key[entry]
    best: tuple[tuple[bool, float, float], Ints, int] | None = None
    for seed in range(min(_SEEDS, len(some))):
        for group in _groups(seed, spread.weight[some], row, key, rate):
            among = np.zeros(len(some), dtype=np.bool_)
            among[group] = True
            mine = np.bincount(key[among[row]], minlength=len(rate))
            sent = float(spread.weight[some[group]].sum())
            removed = sent + float(rate[(mine > 0) & (mine == spread.count[source])].sum())
            if spread.load[source] - removed < mean:
                continue
            added = sent + ((spread.count[below] == 0) & (mine > 0)) @ rate
            fits = spread.load[below] + added <= mean
            if not fits.any():
                continue
            at = int(np.where(fits, added, np.inf).argmin())
            wanted = min(spread.load[source] - mean, mean - spread.load[below[at]])
            score = (removed < _WORTH * wanted, (float(added[at]) - removed) / removed, -removed)
            if best is None or score < best[0]:
                best = score, some[group], int(below[at])
    return least_loaded(spread, source) if best is None else (best[1].tolist(), best[2])


def _groups(seed: int, weight: Floats, row: Ints, key: Ints, rate: Floats) -> list[Ints]:
    """Who is alike to the seed, itself first: all, half of them, and so on. Rows are subscribers by `weight`."""
    wanted = np.zeros(len(rate))
    own = key[row == seed]
    wanted[own] = rate[own]
    alike = np.bincount(row, wanted[key], len(weight)) / weight
    order = np.argsort(-alike, kind="stable")
    order = np.concatenate((np.array([seed]), order[order != seed]))
    count = int((alike >= _ALIKE).sum())
    found = []
    while count >= 1:
        found.append(order[:count])
        count //= 2
    return found


bad_groups = policy_of(NAME, lambda _: in_groups)
