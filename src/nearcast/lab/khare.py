"""The latency model that flow-level experiments place topics by: learned from the simulated broker, in a minute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nearcast.lab.workloads.colocated import MOST_TOPICS, NOMINAL, drawn, isolated_sweep, most_rates
from nearcast.pipeline.latency_fit import Sets, trained
from nearcast.pipeline.simulated_broker import simulated
from nearcast.predict.latency_model import LatencyModel

_SEED = 20_190  # the rows that a model is learned from are the same for whatever it then decides
_SETS, _QUICK_SETS = 1000, 150
_VALIDATION = 50


@dataclass(frozen=True, slots=True)
class Learned:
    model: LatencyModel
    most_hz: dict[float, int]


@lru_cache(maxsize=2)
def learned_model(quick: bool) -> Learned:
    """The paper's networks for up to six topics, of as many simulated configurations as the paper measured."""
    sweep = isolated_sweep(NOMINAL, _SEED)
    most_hz = most_rates(sweep)
    pairs = zip(sweep.interval_ms[:, 0].tolist(), sweep.rate_hz[:, 0].tolist(), strict=True)
    kept = np.array([rate <= most_hz[each] for each, rate in pairs])
    rows: dict[int, Sets] = {1: sweep.part(np.flatnonzero(kept))}
    validation: dict[int, Sets] = {}
    for topics in range(2, MOST_TOPICS + 1):
        rows[topics] = _simulated(_QUICK_SETS if quick else _SETS, topics, most_hz, _SEED + topics)
        validation[topics] = _simulated(_VALIDATION, topics, most_hz, _SEED + 100 + topics)
    return Learned(trained(rows, validation, "colocated", NOMINAL, name="simulated"), most_hz)


def _simulated(count: int, topics: int, most_hz: dict[float, int], seed: int) -> Sets:
    interval_ms, rate_hz = drawn((count, topics), most_hz, np.random.default_rng(seed))
    return simulated(interval_ms, rate_hz, NOMINAL, seed)
