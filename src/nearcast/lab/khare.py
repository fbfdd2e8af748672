"""The latency models that experiments place topics by: of the simulated broker alone, in a minute, or of a real one."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from nearcast.lab.experiment import silent
from nearcast.lab.measuring import collect_simulated, planned
from nearcast.lab.workloads.colocated import (
    INTERVALS_MS,
    MOST_TOPICS,
    NOMINAL,
    drawn,
    isolated_sweep,
    most_rates,
    most_rates_of,
)
from nearcast.pipeline.latency_fit import BOUND_MS, Sets, trained
from nearcast.pipeline.measurements import SIMULATED, Rows
from nearcast.pipeline.simulated_broker import simulated
from nearcast.pipeline.training import Material, material
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


@dataclass(frozen=True, slots=True)
class Taught:
    """`real` is what was measured, `rows` that and what the simulated broker, made like the real one, adds to it."""

    real: Rows
    rows: Rows
    given: Material


def taught(folder: Path, *, most: int, simulated_runs: int, seed: int) -> Taught:
    """From what `nearcast model collect` measured, and so many simulated runs for each number of topics."""
    real = Rows([folder])
    processors = material(real, seed=seed).processors
    plan = planned(
        range(1, most + 1),
        runs=simulated_runs,
        validate=0,
        most_hz=most_rates_of(processors),
        processors=processors,
        seed=seed,
        source=SIMULATED,
    )
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as own:
        collect_simulated(plan, Path(own), processors, seed, silent)
        rows = Rows([folder, Path(own)])
    return Taught(real, rows, material(rows, processors, seed=seed))


def most_rates_by(model: LatencyModel, bound_ms: float = BOUND_MS) -> dict[float, int]:
    """r_max as a model has it: for each interval the highest rate of which all up to it keep the bound alone."""
    found = {}
    for each in INTERVALS_MS:
        rate_hz = np.arange(1.0, 1.3e3 / each)[:, None]
        late = np.append(model.p90_ms(np.full_like(rate_hz, each), rate_hz)[:, 0] > bound_ms, True)
        found[each] = max(1, int(np.argmax(late)))
    return found
