"""KH-5, KH-6: how well a latency model foretells real runs that it was not learned from (Khare, section VI-B).

Live: a real broker is measured, as `nearcast model collect` does it, into the folder `--rows` or one of its own; what
is there is not measured again. Flow: nothing is measured, and the folder must be given. Either way the simulated broker
is made like the real one by the runs that are trained on, and adds runs that may only train. The paper's inputs stand
beside those with what a queue tells; the runs that judge were marked before anything was learned.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.khare import most_rates_by, taught
from nearcast.lab.learning import draw_curves
from nearcast.lab.measuring import collect, planned
from nearcast.lab.workloads.colocated import INTERVALS_MS, MOST_TOPICS, most_rates_of
from nearcast.pipeline.latency_fit import BOUND_MS, Sets, fit, judged
from nearcast.pipeline.measurements import COLLECTED, SIMULATED, TRAIN, VALIDATE, Rows
from nearcast.pipeline.simulated_broker import distance
from nearcast.pipeline.training import INPUTS, Curve, Material, curves, train
from nearcast.predict.latency_model import Accuracy, LatencyModel
from nearcast.predict.queueing import Processors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST, _QUICK_MOST = MOST_TOPICS, 2
_VALIDATE = {1: 50, 2: 50, 3: 50, 4: 50, 5: 20, 6: 20}
_TRAIN, _QUICK_TRAIN, _QUICK_VALIDATE = 10, 3, 3
_SIMULATED, _QUICK_SIMULATED = 4000, 60  # the paper's six inputs need so many
_LASTING_S, _QUICK_LASTING_S = 24.0, 2.0  # chance takes 0.025 from R2 of six topics in 12 s, 0.012 in 24
_SHOWN = 1000  # simulated runs of a number of topics, for curves and transfers
_WARM_UP = 0.18  # of a run
_NOMINAL = Processors(1, 0.5, 2.0)
_TRANSFER_TOPICS = 3
_TRANSFER = (0, 6, 12, 24, 48)
_CURVE_TOPICS = (4, 6)

ISOLATED = Expectation(
    "KH-5", "R2 of ln p90 of a topic alone, polynomial of degree 4, real runs not learned from", ">= 0.97"
)
LOWEST = Expectation(
    "KH-6", "R2 of ln p90, the paper's inputs, real runs not learned from: lowest of k = 2..6", ">= 0.95"
)
MEAN = Expectation("KH-6", "R2 of ln p90, the paper's inputs, real runs not learned from: mean of k = 2..6", ">= 0.97")
NO_WORSE = Expectation("KH-6", "R2 with a queue's inputs less that with the paper's: lowest of any k", ">= 0")
BETTER = Expectation("KH-6", "R2 with a queue's inputs less that with the paper's: mean of k = 1..6", "> 0")


class Transfer(NamedTuple):
    inputs: str
    real_runs: int
    with_simulated: bool
    r2: float
    median_error: float
    p90_error: float


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as own:
        folder = settings.rows or Path(own) / "rows"
        if settings.mode == "live":
            asyncio.run(_collect(settings, folder, progress))
        elif settings.rows is None:
            raise ConfigError("khare.model in mode flow learns from what was measured: say where that is, with --rows")
        progress(0, 4, "learning")
        most = _QUICK_MOST if settings.quick else _MOST
        runs = _QUICK_SIMULATED if settings.quick else _SIMULATED
        found = taught(folder, most=most, simulated_runs=runs, seed=settings.seed)
        given = found.given
        progress(1, 4, "learning")
        models: dict[str, LatencyModel] = {each: train(given, each, name=each) for each in INPUTS}
        progress(2, 4, "learning")
        transfers = _transfers(given, found.rows, settings.seed)
        shown = [each for each in _CURVE_TOPICS if each in given.sets] or [max(given.sets)]
        some = replace(given, sets={topics: _some(given.sets[topics], settings.seed) for topics in shown})
        drawn = curves(some, "colocated", shown, ((40, 40),) if settings.quick else ((10, 10), (40, 40), (100, 100)))
        progress(4, 4, "learning")
        return _outcome(given, models, transfers, drawn, found.real)


async def _collect(settings: RunSettings, folder: Path, progress: Progress) -> None:
    lasting_s = settings.duration_s or (_QUICK_LASTING_S if settings.quick else _LASTING_S)
    plan = []
    for topics in range(1, (_QUICK_MOST if settings.quick else _MOST) + 1):
        plan += planned(
            [topics],
            runs=_QUICK_TRAIN if settings.quick else _TRAIN,
            validate=_QUICK_VALIDATE if settings.quick else _VALIDATE[topics],
            most_hz=most_rates_of(_NOMINAL),
            processors=_NOMINAL,
            seed=settings.seed,
            source=COLLECTED,
        )
    await collect(
        plan,
        folder,
        kind=settings.brokers or "nats",
        lasting_s=lasting_s,
        warm_up_s=_WARM_UP * lasting_s,
        for_s=None,
        progress=progress,
    )


def _transfers(given: Material, rows: Rows, seed: int) -> list[Transfer]:
    """What real runs add to simulated ones, and those to real ones, of one number of topics."""
    topics = min(_TRANSFER_TOPICS, max(given.sets))
    real, made = rows.sets(TRAIN, (COLLECTED,)).get(topics), _some(rows.sets(TRAIN, (SIMULATED,))[topics], seed)
    judging = given.validation.get(topics)
    if real is None or judging is None:
        return []
    found = []
    for inputs in INPUTS:
        for count in [each for each in _TRANSFER if each < len(real)] + [len(real)]:
            some = real.shuffled(seed).part(slice(0, count))
            for simulated in (True, False) if count else (True,):
                sets = _joined(some, made) if simulated else some
                much = max(1.0, len(made) / max(1, count)) if simulated else 1.0
                weights = np.concatenate([np.full(count, much), np.ones(len(sets) - count)])
                learned = fit(sets, inputs, given.processors, weights=weights, seed=seed)
                accuracy = judged(
                    learned.p90_ms(judging.interval_ms, judging.rate_hz, given.processors), judging.p90_ms
                )
                found.append(Transfer(inputs, count, simulated, accuracy.r2, accuracy.median_error, accuracy.p90_error))
    return found


def _some(sets: Sets, seed: int) -> Sets:
    return sets.shuffled(seed).part(slice(0, _SHOWN))


def _joined(some: Sets, made: Sets) -> Sets:
    return some.joined(made) if len(some) else made


def _outcome(
    given: Material,
    models: dict[str, LatencyModel],
    transfers: Sequence[Transfer],
    drawn: Sequence[Curve],
    real: Rows,
) -> Outcome:
    r2 = {inputs: {each.topics: each.r2 for each in model.accuracy} for inputs, model in models.items()}
    paper, queue = r2["colocated"], r2["queueing"]
    several = [value for topics, value in paper.items() if topics > 1]
    apart = [queue[topics] - paper[topics] for topics in paper]
    validation = real.sets(VALIDATE)
    return Outcome(
        claims=(
            ISOLATED.judge(_rounded(paper.get(1))),
            LOWEST.judge(_rounded(min(several, default=None))),
            MEAN.judge(_rounded(float(np.mean(several)) if several else None)),
            NO_WORSE.judge(_rounded(min(apart, default=None))),
            BETTER.judge(_rounded(float(np.mean(apart)) if apart else None)),
        ),
        metrics={
            "runs": real.runs,
            "discarded": real.discarded,
            "lasting_s": real.lasting_s,
            "validation_runs": {str(topics): len(sets) for topics, sets in validation.items()},
            "validation_digest": given.origin.digest,
            "overhead_ms": round(given.processors.overhead_ms, 3),
            "delay_ms": round(given.processors.delay_ms, 3),
            "r_max_hz": {f"{ms:g} ms": rate for ms, rate in most_rates_by(models["colocated"]).items()},
            "accuracy": {inputs: _figures(model.accuracy) for inputs, model in models.items()},
            "simulated_broker": _figures(distance(validation, given.processors)),
        },
        tables={
            "accuracy": Table(
                ("inputs", *Accuracy.__struct_fields__),
                tuple(
                    (inputs, *(getattr(each, name) for name in Accuracy.__struct_fields__))
                    for inputs, model in models.items()
                    for each in model.accuracy
                ),
            ),
            "transfer": Table(Transfer._fields, tuple(tuple(each) for each in transfers)),
            "curves": Table(
                ("topics", "layers", "configurations", "error_learned", "error_others"),
                tuple((each.topics, str(each.hidden), *point) for each in drawn for point in each.points),
            ),
        },
        figures={
            "figure2a": partial(_draw_isolated, models, validation),
            "figure2": partial(_draw_foretold, models, validation),
            "curves": partial(draw_curves, drawn),
            "transfer": partial(_draw_transfer, transfers),
        },
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _figures(accuracy: Sequence[Accuracy]) -> dict[str, Metric]:
    return {
        str(each.topics): {
            "r2": round(each.r2, 4),
            "median_error": round(each.median_error, 4),
            "p90_error": round(each.p90_error, 4),
            "missed": round(each.missed, 4),
            "spurned": round(each.spurned, 4),
        }
        for each in accuracy
    }


_NAMES = {"colocated": "the paper's inputs", "queueing": "with a queue's"}


def _draw_isolated(models: dict[str, LatencyModel], validation: dict[int, Sets], figure: "Figure") -> None:
    axes, alone = figure.add_subplot(), validation.get(1)
    for number, each in enumerate(INTERVALS_MS):
        rate_hz = np.linspace(1.0, 1.25e3 / each, 100)[:, None]
        for inputs, style in (("colocated", "-"), ("queueing", ":")):
            p90_ms = models[inputs].p90_ms(np.full_like(rate_hz, each), rate_hz)[:, 0]
            axes.plot(rate_hz[:, 0], p90_ms, style, color=f"C{number}", linewidth=1)
        if alone is not None:
            mine = alone.interval_ms[:, 0] == each
            axes.plot(alone.rate_hz[mine, 0], alone.p90_ms[mine, 0], "o", color=f"C{number}", label=f"{each:g} ms")
    axes.axhline(BOUND_MS, color="gray", linestyle="--", linewidth=1)
    axes.set_yscale("log")
    axes.set_xlabel("messages/s, a topic alone")
    axes.set_ylabel("p90 (ms)")
    axes.set_title("points: real runs not learned from; lines: polynomial, dotted: over a queue", fontsize="medium")
    axes.legend(fontsize="small")


def _draw_foretold(models: dict[str, LatencyModel], validation: dict[int, Sets], figure: "Figure") -> None:
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False)[0]
    for axes, (inputs, model) in zip(panels, models.items(), strict=True):
        for topics, sets in sorted(validation.items()):
            if topics <= model.most:
                p90_ms = model.p90_ms(sets.interval_ms, sets.rate_hz)
                axes.scatter(sets.p90_ms.ravel(), p90_ms.ravel(), s=8, label=f"k = {topics}")
        ends = axes.get_xlim()
        axes.plot(ends, ends, color="gray", linewidth=1)
        for line in (axes.axhline, axes.axvline):
            line(BOUND_MS, color="gray", linestyle="--", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(_NAMES[inputs], fontsize="medium")
        axes.set_xlabel("measured p90 (ms)")
    panels[0].set_ylabel("foretold p90 (ms)")
    panels[0].legend(fontsize="small")


def _draw_transfer(transfers: Sequence[Transfer], figure: "Figure") -> None:
    axes = figure.add_subplot()
    for number, inputs in enumerate(INPUTS):
        for simulated, style in ((True, "-"), (False, "--")):
            mine = [each for each in transfers if (each.inputs, each.with_simulated) == (inputs, simulated)]
            if mine:
                label = f"{_NAMES[inputs]}, {'simulated and real' if simulated else 'real alone'}"
                points = [(each.real_runs, each.median_error) for each in mine]
                axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=f"C{number}", label=label)
    axes.set_xlabel(f"real runs learned from ({_TRANSFER_TOPICS} topics)")
    axes.set_ylabel("median relative error of p90, real runs not learned from")
    axes.set_ylim(bottom=0.0)
    if transfers:
        axes.legend(fontsize="small")


EXPERIMENT = Experiment(
    name="khare.model",
    paper="Khare, sections IV-D and VI-B",
    summary="Latency models, learned from real and simulated runs and judged by real ones that they have not seen",
    expectations=(ISOLATED, LOWEST, MEAN, NO_WORSE, BETTER),
    modes=("live", "flow"),
    measure=measure,
    options=("brokers", "duration", "rows"),
)
