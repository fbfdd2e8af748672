"""Latency models from rows of measurements (Khare, sections IV-D and VI-B).

A topic alone: a polynomial of degree 4. Several together: a network with two hidden layers per number of topics, ReLU,
lbfgs, L2 of 0.1, of the logarithm of the 90th percentile. `inputs` are the paper's six ("colocated"), or those and what
a queue tells ("queueing"), which is ours: the network then learns how far the queue is off, also for a topic alone. The
fits are small and run where they are fastest: here.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nearcast.predict.features import INPUTS, LOG_WAIT
from nearcast.predict.latency_model import Accuracy, Fit, LatencyModel, Network, Polynomial, Scale, polynomial_terms
from nearcast.predict.queueing import Processors

Floats = NDArray[np.float64]
Inputs = Literal["colocated", "queueing"]
Hidden = tuple[int, ...]

DEGREE = 4
L2 = 0.1
L2_OVER_QUEUE = 3.0  # where nothing was measured, a queue is believed
HIDDEN: dict[int, Hidden] = {1: (40, 40), 2: (40, 40), 3: (40, 40), 4: (40, 40), 5: (40, 40), 6: (100, 100)}
"""The paper's layers, by the number of topics; for one it has none."""
BOUND_MS = 1000.0


@dataclass(frozen=True, slots=True)
class Sets:
    """Configurations of as many topics each: arrays of configurations x topics."""

    interval_ms: Floats
    rate_hz: Floats
    p90_ms: Floats

    def __len__(self) -> int:
        return len(self.interval_ms)

    @property
    def topics(self) -> int:
        return int(self.interval_ms.shape[1])

    def part(self, which: NDArray[np.int64] | slice) -> Sets:
        return Sets(self.interval_ms[which], self.rate_hz[which], self.p90_ms[which])

    def shuffled(self, seed: int) -> Sets:
        return self.part(np.random.default_rng(seed).permutation(len(self)))

    def joined(self, other: Sets) -> Sets:
        pairs = ((getattr(self, name), getattr(other, name)) for name in ("interval_ms", "rate_hz", "p90_ms"))
        return Sets(*(np.concatenate(pair) for pair in pairs))


def fit_isolated(sets: Sets, processors: Processors, weights: Floats | None = None) -> Fit:
    """Least squares of the logarithm: a message that is twice as late as expected is as bad at 20 ms as at 500."""
    inputs = INPUTS["isolated"](sets.interval_ms, sets.rate_hz, processors)[:, 0]
    scale = _scale(inputs)
    terms = polynomial_terms(scale.of(inputs), DEGREE)
    counted = np.ones(len(sets)) if weights is None else np.sqrt(weights)
    found, *_ = np.linalg.lstsq(terms * counted[:, None], np.log(sets.p90_ms[:, 0]) * counted, rcond=None)
    return Fit(1, "isolated", scale, Polynomial(DEGREE, tuple(found.tolist())))


def fit_network(
    sets: Sets,
    inputs: Inputs,
    processors: Processors,
    *,
    hidden: Hidden | None = None,
    weights: Floats | None = None,
    seed: int = 0,
    most_steps: int = 2000,
) -> Fit:
    """`weights`: how much each configuration counts, by default all as much."""
    from sklearn.exceptions import (  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
        ConvergenceWarning,
    )
    from sklearn.neural_network import MLPRegressor  # type: ignore[import-untyped]  # noqa: PLC0415
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415

    over_queue = inputs == "queueing"
    told = INPUTS[inputs](sets.interval_ms, sets.rate_hz, processors)
    rows = told.reshape(-1, told.shape[-1])
    scale = _scale(rows)
    wanted = np.log(sets.p90_ms) - (told[..., LOG_WAIT] if over_queue else 0.0)
    network = MLPRegressor(
        hidden_layer_sizes=hidden or HIDDEN[sets.topics],
        solver="lbfgs",
        alpha=L2_OVER_QUEUE if over_queue else L2,
        max_iter=most_steps,
        max_fun=10**7,
        random_state=seed,
    )
    # One thread: matrices of some thousand rows are too small to share, and threads would wait for each other.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)  # as far as `most_steps` come is what is judged
        counted = None if weights is None else np.repeat(weights, sets.topics)
        network.fit(scale.of(rows), wanted.ravel(), sample_weight=counted)
    layers = tuple(tuple(tuple(row) for row in layer.tolist()) for layer in network.coefs_)
    regressor = Network(layers, tuple(tuple(each.tolist()) for each in network.intercepts_))
    return Fit(sets.topics, inputs, scale, regressor, over_queue=over_queue)


def _scale(rows: Floats) -> Scale:
    unit = rows.std(axis=0)
    return Scale(tuple(rows.mean(axis=0).tolist()), tuple(np.where(unit > 0.0, unit, 1.0).tolist()))


def judged(expected_ms: Floats, measured_ms: Floats, bound_ms: float = BOUND_MS) -> Accuracy:
    """How near `expected_ms` is, of configurations x topics."""
    expected, measured = np.log(expected_ms).ravel(), np.log(measured_ms).ravel()
    spread = np.sum((measured - measured.mean()) ** 2)
    off = np.abs(expected_ms / measured_ms - 1.0).ravel()
    late, foretold = measured_ms.ravel() > bound_ms, expected_ms.ravel() > bound_ms
    return Accuracy(
        expected_ms.shape[1],
        expected.size,
        float(1.0 - np.sum((expected - measured) ** 2) / spread),
        float(np.median(off)),
        float(np.quantile(off, 0.9)),
        float(np.mean(late & ~foretold)),
        float(np.mean(~late & foretold)),
    )


def fit(
    sets: Sets,
    inputs: Inputs,
    processors: Processors,
    *,
    hidden: Hidden | None = None,
    weights: Floats | None = None,
    seed: int = 0,
) -> Fit:
    """The paper's polynomial for a topic alone, and a network otherwise; ours is a network always."""
    if sets.topics == 1 and inputs == "colocated":
        return fit_isolated(sets, processors, weights)
    return fit_network(sets, inputs, processors, hidden=hidden, weights=weights, seed=seed)


def assembled(
    fits: Sequence[Fit], validation: Mapping[int, Sets], processors: Processors, *, name: str, rows: int
) -> LatencyModel:
    """A model of fits for 1, 2, 3 ... topics, judged by `validation`, which none of them has seen."""
    accuracy = tuple(
        judged(fits[topics - 1].p90_ms(sets.interval_ms, sets.rate_hz, processors), sets.p90_ms)
        for topics, sets in sorted(validation.items())
        if topics <= len(fits)
    )
    return LatencyModel(name, processors, tuple(fits), accuracy, rows)


def trained(
    by_topics: Mapping[int, Sets],
    validation: Mapping[int, Sets],
    inputs: Inputs,
    processors: Processors,
    *,
    name: str,
    hidden: Mapping[int, Hidden] = HIDDEN,
    weights: Mapping[int, Floats] | None = None,
    seed: int = 0,
) -> LatencyModel:
    """A model for 1 to as many topics as there are rows for."""
    fits = [
        fit(
            by_topics[topics],
            inputs,
            processors,
            hidden=hidden.get(topics),
            weights=None if weights is None else weights.get(topics),
            seed=seed,
        )
        for topics in range(1, max(by_topics) + 1)
    ]
    rows = sum(each.p90_ms.size for each in by_topics.values())
    return assembled(fits, validation, processors, name=name, rows=rows)


def learning_curve(
    sets: Sets,
    validation: Sets,
    inputs: Inputs,
    processors: Processors,
    *,
    hidden: Hidden,
    sizes: Sequence[int],
    seed: int = 0,
) -> list[tuple[int, float, float]]:
    """For so many configurations: the mean absolute error of the logarithm, of what was learned from and of others."""
    found = []
    order = sets.shuffled(seed)
    for size in sizes:
        part = order.part(slice(0, size))
        learned = fit_network(part, inputs, processors, hidden=hidden, seed=seed)
        found.append((size, _error(learned, part, processors), _error(learned, validation, processors)))
    return found


def _error(found: Fit, sets: Sets, processors: Processors) -> float:
    expected_ms = found.p90_ms(sets.interval_ms, sets.rate_hz, processors)
    return float(np.mean(np.abs(np.log(expected_ms / sets.p90_ms))))
