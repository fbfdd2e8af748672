"""Topics that are processed at brokers, as seed 001 draws them (sections VI-A and VI-B): an interval of 10 to 40 ms,
and a rate that a broker can serve if it has no other topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nearcast.pipeline.latency_fit import BOUND_MS, Floats, Sets
from nearcast.predict.queueing import Processors
from nearcast.sim.processing import Configuration, simulated_ms

INTERVALS_MS = (10.0, 20.0, 30.0, 40.0)
MARGIN_MS = 100.0  # what a placement keeps off the bound, as the authors' code does
MOST_TOPICS = 6

NOMINAL = Processors(cores=1, overhead_ms=0.5, delay_ms=2.0, lasting_s=120.0)
"""The paper's runs last two minutes; the overheads are of this order on any machine of today."""

_WARM_UP = 0.1  # of a run
_RANK = 90.0

Rates = Mapping[float, int]
"""For each interval the highest rate that keeps the bound at a broker of its own: the paper's r_max."""


def drawn(count: tuple[int, ...], most_hz: Rates, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Intervals and whole rates, each as likely as the other."""
    interval_ms = rng.choice(INTERVALS_MS, count)
    most = np.vectorize(most_hz.__getitem__, otypes=[np.float64])(interval_ms)
    return interval_ms, np.floor(rng.uniform(1.0, most + 1.0))


def simulated_latencies(sets: Sequence[tuple[Floats, Floats]], processors: Processors, seed: int) -> list[list[Floats]]:
    """Of each set (intervals and rates) and topic what its messages took, in ms, at a simulated broker."""
    configurations = [Configuration(tuple(p.tolist()), tuple(r.tolist())) for p, r in sets]
    return simulated_ms(configurations, processors, warm_up_s=_WARM_UP * processors.lasting_s, seed=seed)


def simulated(interval_ms: Floats, rate_hz: Floats, processors: Processors, seed: int) -> Sets:
    """What the simulated broker makes of each row of topics."""
    found = simulated_latencies(list(zip(interval_ms, rate_hz, strict=True)), processors, seed)
    return Sets(interval_ms, rate_hz, np.array([[np.percentile(each, _RANK) for each in topics] for topics in found]))


def isolated_sweep(processors: Processors, seed: int) -> Sets:
    """Each interval at every whole rate up to a tenth more than a core can serve: Figures 1c and 2a."""
    pairs = [(each, float(rate)) for each in INTERVALS_MS for rate in range(1, int(1.1e3 / each) + 1)]
    interval_ms, rate_hz = (np.array(column)[:, None] for column in zip(*pairs, strict=True))
    return simulated(interval_ms, rate_hz, processors, seed)


def most_rates(sweep: Sets, bound_ms: float = BOUND_MS) -> dict[float, int]:
    """r_max: the last rate before the first that breaks the bound."""
    found = {}
    for each in INTERVALS_MS:
        mine = np.flatnonzero(sweep.interval_ms[:, 0] == each)
        mine = mine[np.argsort(sweep.rate_hz[mine, 0])]
        late = np.append(sweep.p90_ms[mine, 0] > bound_ms, True)
        found[each] = max(1, int(sweep.rate_hz[mine[max(0, int(np.argmax(late)) - 1)], 0]))
    return found
