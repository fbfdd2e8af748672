"""KH-9: what the heuristics of Khare, section V, have in common with the exact solution.

Random sets of topics under models that were learned from the simulated broker, as many as there are seeds. With two
topics at a broker matching is exact (Theorem 1). The heuristics are also run as the paper writes them, set by set and
topic by topic: FFD is the hybrid with k' = 1, and LFS that with k' = k. How far each heuristic is from the fewest
brokers there can be is told for every number of topics.
"""

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.khare import learned_model
from nearcast.lab.workloads.colocated import MARGIN_MS, MOST_TOPICS, drawn
from nearcast.pipeline.latency_fit import BOUND_MS
from nearcast.policies.colocation import Placed, Topics, exact, first_fit, hybrid, largest_set

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "khare.exact"
_SEEDS = 200
_QUICK_SEEDS = 20
_FEWEST, _MOST = 6, 20
_PLAIN_MOST = 12  # as many topics can be tried set by set
_SEARCHED = 3

MATCHING = Expectation("KH-9", "instances in which matching (k = 2) has more brokers than the exact solver", "== 0")
FIRST_FIT = Expectation("KH-9", "instances in which hybrid(1) is not FFD as the paper writes it", "== 0")
LARGEST = Expectation("KH-9", "instances in which hybrid(k) is not LFS as the paper writes it", "== 0")


class Row(NamedTuple):
    seed: int
    topics: int
    exact: int
    lfs: int
    hybrid: int
    ffd: int
    exact_pairs: int
    matched_pairs: int
    hybrid_1_is_ffd: bool
    hybrid_k_is_lfs: bool | None


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    rows = map_seeds(
        partial(_row, quick=settings.quick), range(settings.seed, settings.seed + count), settings.jobs, progress
    )
    tried = [row for row in rows if row.hybrid_k_is_lfs is not None]
    return Outcome(
        claims=(
            MATCHING.judge(sum(row.matched_pairs > row.exact_pairs for row in rows)),
            FIRST_FIT.judge(sum(not row.hybrid_1_is_ffd for row in rows)),
            LARGEST.judge(sum(not row.hybrid_k_is_lfs for row in tried) if tried else None),
        ),
        metrics={
            "instances": count,
            "instances_tried_set_by_set": len(tried),
            "brokers_over_the_fewest": {
                name: round(sum(getattr(row, name) for row in rows) / sum(row.exact for row in rows), 4)
                for name in ("lfs", "hybrid", "ffd")
            },
            "instances_with_the_fewest": {
                name: sum(getattr(row, name) == row.exact for row in rows) for name in ("lfs", "hybrid", "ffd")
            },
        },
        tables={"instances": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"distance": partial(_draw, rows)},
    )


def _row(seed: int, quick: bool) -> Row:
    learned = learned_model(quick)
    rng = np.random.default_rng(seed)
    count = int(rng.integers(_FEWEST, _MOST + 1))
    interval_ms, rate_hz = drawn((count,), learned.most_hz, rng)
    bound_ms = np.full(count, BOUND_MS - MARGIN_MS)
    alone_ms = Topics(learned.model, interval_ms, rate_hz, bound_ms).alone_ms()
    order = np.argsort(-alone_ms, kind="stable")
    topics = Topics(learned.model, interval_ms[order], rate_hz[order], bound_ms)
    ffd, lfs = first_fit(topics, MOST_TOPICS), largest_set(topics, MOST_TOPICS)
    return Row(
        seed,
        count,
        len(exact(topics, MOST_TOPICS)),
        len(lfs),
        len(hybrid(topics, _SEARCHED, MOST_TOPICS)),
        len(ffd),
        len(exact(topics, 2)),
        len(largest_set(topics, 2)),
        ffd == _algorithm_1(topics, MOST_TOPICS),
        _is_algorithm_2(lfs, topics, MOST_TOPICS) if count <= _PLAIN_MOST else None,
    )


# As the paper writes them


def _star(topics: Topics, members: Sequence[int]) -> bool:
    """F*: every part is feasible."""
    parts = [part for size in range(2, len(members) + 1) for part in combinations(sorted(members), size)]
    return all(bool(topics.feasible(np.array([part]))[0]) for part in parts)


def _algorithm_1(topics: Topics, most: int) -> Placed:
    brokers: Placed = []
    for topic in range(len(topics)):
        for broker in brokers:
            if len(broker) < most and _star(topics, [*broker, topic]):
                broker.append(topic)
                break
        else:
            brokers.append([topic])
    return brokers


def _is_algorithm_2(found: Placed, topics: Topics, most: int) -> bool:
    """Whether it is what comes of taking the first feasible set of the largest size, again and again. Of pairs, any
    matching with as many will do."""
    left = list(range(len(topics)))
    brokers: Placed = []
    for size in range(most, 2, -1):
        while found_set := next((each for each in combinations(left, size) if _star(topics, each)), None):
            brokers.append(list(found_set))
            left = [each for each in left if each not in found_set]
    rest = found[len(brokers) :]
    return found[: len(brokers)] == brokers and sorted(each for pair in rest for each in pair) == left


def _draw(rows: Sequence[Row], figure: "Figure") -> None:
    axes = figure.add_subplot()
    counts = sorted({row.topics for row in rows})
    for name in ("lfs", "hybrid", "ffd"):
        ratios = [np.mean([getattr(row, name) / row.exact for row in rows if row.topics == count]) for count in counts]
        axes.plot(counts, ratios, marker="o", markersize=3, linewidth=1, label=name.upper())
    axes.set_xlabel("topics")
    axes.set_ylabel("brokers over the fewest there can be (mean)")
    axes.set_xticks(counts)
    axes.legend()


EXPERIMENT = Experiment(
    name=NAME,
    paper="Khare, section V",
    summary="Small sets of topics: the heuristics beside the exact solution, and beside the paper's pseudocode",
    expectations=(MATCHING, FIRST_FIT, LARGEST),
    modes=("flow",),
    measure=measure,
    options=("seeds",),
)
