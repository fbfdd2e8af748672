"""Rows from the simulated broker, how it is made to be like a real one, and how far from one it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nearcast.pipeline.latency_fit import Floats, Sets, judged
from nearcast.predict.latency_model import Accuracy
from nearcast.predict.queueing import Processors
from nearcast.sim.processing import Configuration, simulated_ms

RANK = 90.0
_WARM_UP = 0.1  # of a run
_MOST_STEPS = 40
_FIRST_MS = (0.5, 2.0)  # overhead and delay: of this order on any machine of today


def simulated_latencies(sets: Iterable[tuple[Floats, Floats]], processors: Processors, seed: int) -> list[list[Floats]]:
    """Of each set (intervals and rates) and topic what its messages took, in ms."""
    configurations = [Configuration(tuple(p.tolist()), tuple(r.tolist())) for p, r in sets]
    return simulated_ms(configurations, processors, warm_up_s=_WARM_UP * processors.lasting_s, seed=seed)


def simulated(interval_ms: Floats, rate_hz: Floats, processors: Processors, seed: int) -> Sets:
    """What the simulated broker makes of each row of topics."""
    found = simulated_latencies(zip(interval_ms, rate_hz, strict=True), processors, seed)
    return Sets(interval_ms, rate_hz, np.array([[np.percentile(each, RANK) for each in topics] for topics in found]))


def calibrated(measured: Mapping[int, Sets], processors: Processors, seed: int = 0) -> Processors:
    """With the overhead and the delay for which the simulated broker is nearest to what was `measured`.

    Nearest: the least mean square of the logarithms' difference, by Nelder and Mead's simplex, always with the same
    messages.
    """
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

    def with_these(logarithms: Sequence[float]) -> Processors:
        overhead_ms, delay_ms = np.exp(logarithms)
        return replace(processors, overhead_ms=float(overhead_ms), delay_ms=float(delay_ms))

    def off(logarithms: Sequence[float]) -> float:
        tried = with_these(logarithms)
        apart = [
            np.log(simulated(sets.interval_ms, sets.rate_hz, tried, seed).p90_ms / sets.p90_ms).ravel()
            for _, sets in sorted(measured.items())
        ]
        return float(np.mean(np.concatenate(apart) ** 2))

    found = minimize(
        off, np.log(_FIRST_MS), method="Nelder-Mead", options={"maxfev": _MOST_STEPS, "xatol": 0.02, "fatol": 1e-4}
    )
    return with_these(found.x)


def distance(measured: Mapping[int, Sets], processors: Processors, seed: int = 0) -> tuple[Accuracy, ...]:
    """How far the simulated broker is from what was `measured`, by the number of topics."""
    return tuple(
        judged(simulated(sets.interval_ms, sets.rate_hz, processors, seed).p90_ms, sets.p90_ms)
        for _, sets in sorted(measured.items())
    )
