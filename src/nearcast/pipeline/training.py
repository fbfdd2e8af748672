"""`nearcast model train`: from rows to models of both kinds, judged by runs that were set apart before.

Where real runs are few and simulated ones many, both are learned from, and the real ones count as much as all simulated
ones together: what the simulator knows is kept where nobody has measured (transfer, which Khare leaves to others).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nearcast.domain.errors import ModelError
from nearcast.pipeline.latency_fit import HIDDEN, Floats, Hidden, Inputs, Sets, assembled, fit, learning_curve
from nearcast.pipeline.measurements import COLLECTED, SIMULATED, TELEMETRY, TRAIN, VALIDATE, Rows
from nearcast.pipeline.simulated_broker import calibrated
from nearcast.predict.latency_model import Fit, LatencyModel, Origin
from nearcast.predict.queueing import Processors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REAL = (COLLECTED, TELEMETRY)
INPUTS: tuple[Inputs, ...] = ("colocated", "queueing")
ARCHITECTURES: tuple[Hidden, ...] = ((10, 10), (40, 40), (100, 100))
_CALIBRATION = 40  # runs of each number of topics are enough for two figures
_CURVE_POINTS = 6
_HELD_OUT = 5  # one in so many of what is trained on chooses the architecture: never what validates
_MUCH_BETTER = 0.95

Map = Callable[[Callable[[int], Fit], Sequence[int]], list[Fit]]


@dataclass(frozen=True, slots=True)
class Material:
    """What there is to learn from, by the number of topics, how much each run counts, and what judges."""

    sets: dict[int, Sets]
    weights: dict[int, Floats]
    validation: dict[int, Sets]
    processors: Processors
    origin: Origin

    @property
    def rows(self) -> int:
        return sum(each.p90_ms.size for each in self.sets.values())


@dataclass(frozen=True, slots=True)
class Curve:
    """`points`: configurations, mean absolute error of the logarithm on them, and on others."""

    topics: int
    hidden: Hidden
    points: tuple[tuple[int, float, float], ...]


def material(
    rows: Rows, processors: Processors | None = None, *, seed: int = 0, most_real: int | None = None
) -> Material:
    """`most_real`: so many real runs of each number of topics at most. Without `processors` those are found with which
    the simulated broker is like the real runs, or, where there are none, like whatever made the simulated ones.

    Raises ModelError where there are no runs for some number of topics below the largest.
    """
    real, made = rows.sets(TRAIN, REAL), rows.sets(TRAIN, (SIMULATED,))
    if most_real is not None:
        real = {topics: sets.shuffled(seed).part(slice(0, most_real)) for topics, sets in real.items() if most_real}
    sets, weights = {}, {}
    for topics in sorted({*real, *made}):
        sets[topics], weights[topics] = _both(real.get(topics), made.get(topics))
    missing = [each for each in range(1, max(sets, default=1) + 1) if each not in sets]
    if missing:
        raise ModelError(
            f"no runs of {missing[0]} topics to learn from, but of {', '.join(map(str, sets)) or 'no other number'}:"
            " a model needs some for each number from 1 on"
        )
    if processors is None:
        processors = Processors(cores=rows.cores, lasting_s=rows.lasting_s)
        some = {topics: each.part(slice(0, _CALIBRATION)) for topics, each in (real or made).items()}
        processors = calibrated(some, processors, seed)
    validation = rows.sets(VALIDATE)
    judging = sum(len(each) for each in validation.values())
    origin = Origin(rows.runs, judging, rows.digest(VALIDATE) if judging else "", rows.discarded, seed)
    return Material(sets, weights, validation, processors, origin)


def _both(real: Sets | None, made: Sets | None) -> tuple[Sets, Floats]:
    if real is None or made is None:
        only = made if real is None else real
        assert only is not None
        return only, np.ones(len(only))
    much = max(1.0, len(made) / len(real))
    return real.joined(made), np.concatenate([np.full(len(real), much), np.ones(len(made))])


def train(
    given: Material, inputs: Inputs, *, name: str, hidden: Mapping[int, Hidden] = HIDDEN, over: Map | None = None
) -> LatencyModel:
    """A model for as many topics as there are runs of. `over` does the fits elsewhere."""
    one = partial(_fit, given, inputs, dict(hidden))
    fits = list(map(one, sorted(given.sets))) if over is None else over(one, sorted(given.sets))
    model = assembled(fits, given.validation, given.processors, name=name, rows=given.rows)
    return msgspec.structs.replace(model, origin=given.origin)


def _fit(given: Material, inputs: Inputs, hidden: dict[int, Hidden], topics: int) -> Fit:
    sets, weights = given.sets[topics], given.weights[topics]
    return fit(sets, inputs, given.processors, hidden=hidden.get(topics), weights=weights, seed=given.origin.seed)


def on_spark(spark: SparkSession) -> Map:
    """One task per number of topics. The large networks take minutes each; with fewer rows here is faster."""
    from nearcast.pipeline.fanout import map_on_spark  # noqa: PLC0415

    return partial(map_on_spark, spark)


def curves(
    given: Material, inputs: Inputs, topics: Sequence[int], architectures: Sequence[Hidden] = ARCHITECTURES
) -> list[Curve]:
    """Learning curves (Khare, Figures 2e and 2f), of one part of what is trained on and judged by the rest of it."""
    found = []
    for count in topics:
        order = given.sets[count].shuffled(given.origin.seed)
        kept = max(2, len(order) - len(order) // _HELD_OUT)
        sizes = np.unique(np.geomspace(min(8, kept), kept, _CURVE_POINTS).astype(int)).tolist()
        learned, others = order.part(slice(0, kept)), order.part(slice(min(kept, len(order) - 1), None))
        for hidden in architectures:
            points = learning_curve(learned, others, inputs, given.processors, hidden=hidden, sizes=sizes)
            found.append(Curve(count, hidden, tuple(points)))
    return found


def chosen(drawn: Sequence[Curve]) -> dict[int, Hidden]:
    """By the learning curves, the smallest network that no larger one is much better than."""
    found: dict[int, Hidden] = {}
    for topics in sorted({each.topics for each in drawn}):
        mine = sorted((each for each in drawn if each.topics == topics), key=lambda each: sum(each.hidden))
        best = min(each.points[-1][2] for each in mine)
        found[topics] = next(each.hidden for each in mine if best >= _MUCH_BETTER * each.points[-1][2])
    return found


def without_real(given: Material, rows: Rows) -> Material:
    """The simulated runs alone, with the same processors: what transfer is compared with."""
    made = rows.sets(TRAIN, (SIMULATED,))
    return replace(given, sets=made, weights={topics: np.ones(len(each)) for topics, each in made.items()})


def updated(given: Material, fresh: Mapping[int, Sets], share: float = 0.2) -> Material:
    """With what a fleet has measured since (Khare, section IV-E): together these runs count for `share` of all runs
    of as many topics, so that a few of them are heard among many."""
    sets, weights = dict(given.sets), dict(given.weights)
    for topics, new in fresh.items():
        if topics not in sets:
            continue
        much = share / (1.0 - share) * float(weights[topics].sum()) / len(new)
        sets[topics] = sets[topics].joined(new)
        weights[topics] = np.concatenate([weights[topics], np.full(len(new), much)])
    return replace(given, sets=sets, weights=weights)
