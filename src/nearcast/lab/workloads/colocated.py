"""Topics that are processed at brokers, as Khare draws them (sections VI-A and VI-B): an interval of 10 to 40 ms,
and a rate that a broker can serve if it has no other topic.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nearcast.pipeline.latency_fit import BOUND_MS, Floats, Sets
from nearcast.pipeline.simulated_broker import simulated
from nearcast.predict.queueing import Processors, waiting_ms

INTERVALS_MS = (10.0, 20.0, 30.0, 40.0)
MARGIN_MS = 100.0  # what a placement keeps off the bound, as the authors' code does
MOST_TOPICS = 6

PAPER_CORES = 4
"""Of a broker (section VI-A). A topic uses one at a time, so that a broker has room for four topics of any rate. Where
brokers have one core, topics a quarter as heavy share them alike."""

NOMINAL = Processors(cores=PAPER_CORES, overhead_ms=0.5, delay_ms=2.0, lasting_s=120.0)
"""The paper's runs last two minutes; the overheads are of this order on any machine of today."""

_LEAST_BUSY, _MOST_BUSY = 0.2, 1.3

Rates = Mapping[float, int]
"""For each interval the highest rate that keeps the bound at a broker of its own: the paper's r_max."""


def drawn(count: tuple[int, ...], most_hz: Rates, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Intervals and whole rates, each as likely as the other."""
    interval_ms = rng.choice(INTERVALS_MS, count)
    most = np.vectorize(most_hz.__getitem__, otypes=[np.float64])(interval_ms)
    return interval_ms, np.floor(rng.uniform(1.0, most + 1.0))


def drawn_together(
    count: tuple[int, int], most_hz: Rates, processors: Processors, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """As `drawn`, sets x topics; then a set's rates are changed alike, so that it needs from a fifth of the broker to
    `_MOST_BUSY` of it.

    The paper's brokers have four cores, and are seldom asked for more than they have. On one core most of what is drawn
    so would be far more than that, of which nothing can be learned about sets that keep their promises.
    """
    interval_ms, rate_hz = drawn(count, most_hz, rng)
    wanted = rng.uniform(_LEAST_BUSY, _MOST_BUSY, count[0]) / processors.busy(interval_ms, rate_hz)
    return interval_ms, np.maximum(1.0, np.round(rate_hz * wanted[:, None]))


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


def most_rates_of(processors: Processors, bound_ms: float = BOUND_MS) -> dict[float, int]:
    """r_max as a queue tells it: for drawing rates before anything has been measured."""
    found = {}
    for each in INTERVALS_MS:
        rate_hz = np.arange(1.0, 2e3 / each)[:, None]
        late = waiting_ms(np.full_like(rate_hz, each), rate_hz, processors)[:, 0] > bound_ms
        found[each] = max(1, int(np.argmax(late)))
    return found
