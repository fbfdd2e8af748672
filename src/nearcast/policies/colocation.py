"""k-topic co-location (Khare, sections III-D and V): the fewest brokers such that every topic keeps its promise.

A set of topics is feasible (F) if the latency model expects every one of them within its bound. Learned models are not
monotone, although latency is (Property 1b): one may refuse a set and take a larger one. So a set counts as feasible
here (F*) if it is, and every part of it. Then what cannot be extended need not be looked at again, and the heuristics
below find exactly what trying all sets would find.

Topics are indices, in the order in which they are to be considered: FFD's, by falling latency in isolation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from nearcast.domain.snapshot import Bools, Floats, Ints

_FIRST_AT_ONCE = 16
_MOST_AT_ONCE = 4096  # sets that are extended at a time; a search begins with few, for most end with the first found


class Predictor(Protocol):
    """`nearcast.predict.LatencyModel`, or what can stand for one: percentiles of sets of up to `most` topics."""

    @property
    def most(self) -> int: ...

    def p90_ms(self, interval_ms: Floats, rate_hz: Floats) -> Floats: ...


Placed = list[list[int]]
"""A broker's topics each, in the order in which they were found."""


class Topics:
    """Topics to place: intervals, rates and bounds. Those that are alike in all three are of one kind.

    Those of which `apart` has the same number are parts of one topic, and are never together; by default none are.
    """

    def __init__(
        self,
        predictor: Predictor,
        interval_ms: Floats,
        rate_hz: Floats,
        bound_ms: Floats,
        apart: Ints | None = None,
    ) -> None:
        self._predictor = predictor
        parted = apart is not None and len(np.unique(apart)) < len(apart)
        self._apart = apart if parted else None
        rows = np.stack([interval_ms, rate_hz, bound_ms], axis=1)
        self._kinds, self.kind = np.unique(rows, axis=0, return_inverse=True)
        self._beside: dict[tuple[int, ...], Bools] = {}
        self.looked_at = 0

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def most(self) -> int:
        return self._predictor.most

    def alone_ms(self) -> Floats:
        """The percentile of each topic at a broker of its own."""
        kinds = self._kinds[:, None, :]
        found: Floats = self._predictor.p90_ms(kinds[..., 0], kinds[..., 1])[self.kind, 0]
        return found

    def feasible(self, sets: Ints) -> Bools:
        """F of each row of topics."""
        kept = self._keep(self.kind[sets])
        if self._apart is not None:
            whose = np.sort(self._apart[sets], axis=1)
            kept &= np.all(whose[:, 1:] != whose[:, :-1], axis=1)
        return kept

    def beside(self, content: Sequence[int]) -> Bools:
        """Which topics could join those of `content`, a set that is feasible: F* of all of them together."""
        found: Bools = self._beside_kinds(tuple(sorted(self.kind[content].tolist())))[self.kind]
        if self._apart is not None:
            found &= ~np.isin(self._apart, self._apart[content])
        return found

    def _beside_kinds(self, content: tuple[int, ...]) -> Bools:
        known = self._beside.get(content)
        if known is None:
            kinds = np.arange(len(self._kinds))
            sets = np.empty((len(kinds), len(content) + 1), dtype=np.int64)
            sets[:, :-1], sets[:, -1] = content, kinds
            known = np.ones(len(kinds), dtype=np.bool_)
            for without in sorted({content[:at] + content[at + 1 :] for at in range(len(content))}):
                known &= self._beside_kinds(without)
            known[known] = self._keep(sets[known])
            self._beside[content] = known
        return known

    def _keep(self, kinds: Ints) -> Bools:
        self.looked_at += len(kinds)
        told = self._kinds[kinds]
        kept: Bools = np.all(self._predictor.p90_ms(told[..., 0], told[..., 1]) <= told[..., 2], axis=1)
        return kept


# Enumeration


def closed(feasible: Callable[[Ints], Bools], sets: Ints) -> Bools:
    """F* of sets that are F* without their last member: every part that has it is looked at, the small ones first.

    Members rise within a row.
    """
    alive = np.arange(len(sets))
    width = sets.shape[1]
    for size in range(2, width + 1):
        if not len(alive):
            break
        columns = [(*each, width - 1) for each in combinations(range(width - 1), size - 1)]
        parts = sets[alive][:, columns]
        alive = alive[_once(feasible, parts.reshape(-1, size)).reshape(parts.shape[:2]).all(axis=1)]
    found = np.zeros(len(sets), dtype=np.bool_)
    found[alive] = True
    return found


def _once(feasible: Callable[[Ints], Bools], sets: Ints) -> Bools:
    """Of each row, asking once for rows that are alike."""
    base = int(sets.max()) + 1
    if base ** sets.shape[1] < 2**62:
        codes = sets @ base ** np.arange(sets.shape[1] - 1, -1, -1)
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(sets, axis=0, return_index=True, return_inverse=True)
    return feasible(sets[first])[which]


def feasible_sets(feasible: Callable[[Ints], Bools], size: int, left: Bools) -> Iterator[list[int]]:
    """The sets of `size` topics that are F*, of those that are `left`, in the order of their members.

    `left` may lose topics meanwhile: sets that have one do not come any more.
    """
    for found in _grown(feasible, size, left, np.flatnonzero(left)[:, None]):
        if left[found].all():
            yield found.tolist()


def _grown(feasible: Callable[[Ints], Bools], size: int, left: Bools, sets: Ints) -> Iterator[Ints]:
    if sets.shape[1] == size:
        yield from sets
        return
    start, many = 0, _FIRST_AT_ONCE
    while start < len(sets):
        part = sets[start : start + many]
        part = part[left[part].all(axis=1)]
        start, many = start + many, min(2 * many, _MOST_AT_ONCE)
        longer = _extended(part, np.flatnonzero(left))
        yield from _grown(feasible, size, left, longer[closed(feasible, longer)])


def _extended(sets: Ints, topics: Ints) -> Ints:
    """Each set with each later topic, in the order of their members."""
    first = np.searchsorted(topics, sets[:, -1], side="right")
    counts = len(topics) - first
    rows = np.repeat(np.arange(len(sets)), counts)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.column_stack([sets[rows], topics[first[rows] + within]])


# Heuristics (section V-C)


def first_fit(topics: Topics, most: int) -> Placed:
    """Algorithm 1 (FFD): each topic goes to the first broker that it fits.

    Filled one broker after another, which gives the same: a topic comes to a broker if it fits what came before it.
    """
    return hybrid(topics, 1, most)


def largest_set(topics: Topics, most: int) -> Placed:
    """Algorithm 2 (LFS): the largest feasible set has a broker, then the largest of what is left; pairs are matched."""
    return hybrid(topics, most, most)


def hybrid(topics: Topics, searched: int, most: int) -> Placed:
    """Algorithm 3: feasible sets of `searched` topics, each filled up to `most` by first fit; then LFS of the rest."""
    left = np.ones(len(topics), dtype=np.bool_)
    placed: Placed = []
    for size in range(searched, 0, -1):
        if size == 2 and (most == 2 or searched > 2):
            placed += _matched(topics, left)
            continue
        for found in feasible_sets(topics.feasible, size, left):
            left[found] = False
            if size == searched:
                _fill(topics, found, left, most)
            placed.append(found)
    return placed


def _fill(topics: Topics, content: list[int], left: Bools, most: int) -> None:
    """First fit of what is left, in order, into one broker."""
    after = -1
    while len(content) < most:
        fits = topics.beside(content) & left
        fits[: after + 1] = False
        after = int(np.argmax(fits))
        if not fits[after]:
            return
        content.append(after)
        left[after] = False


def _matched(topics: Topics, left: Bools) -> Placed:
    """Theorem 1: with at most two topics at a broker the fewest brokers are a maximum matching."""
    import networkx as nx  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

    graph = nx.Graph()
    graph.add_edges_from(feasible_sets(topics.feasible, 2, left.copy()))
    found = sorted(sorted(pair) for pair in nx.max_weight_matching(graph, maxcardinality=True))
    left[[each for pair in found for each in pair]] = False
    return found


def exact(topics: Topics, most: int) -> Placed:
    """The fewest brokers there can be: every feasible set is tried. For small numbers of topics."""
    from ortools.sat.python import cp_model  # noqa: PLC0415  # an extra

    everything = np.ones(len(topics), dtype=np.bool_)
    sets = [each for size in range(1, most + 1) for each in feasible_sets(topics.feasible, size, everything)]
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(str(at)) for at in range(len(sets))]
    holding: list[list[int]] = [[] for _ in range(len(topics))]
    for at, each in enumerate(sets):
        for topic in each:
            holding[topic].append(at)
    for among in holding:
        model.add_exactly_one(chosen[at] for at in among)
    model.minimize(sum(chosen))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    assert status == cp_model.OPTIMAL, solver.status_name(status)
    return [each for at, each in enumerate(sets) if solver.boolean_value(chosen[at])]
