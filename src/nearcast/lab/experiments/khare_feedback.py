"""KH-10: a promise that is measured to be broken is fed back (Khare, section IV-E).

At flow level, with the production policy (`ktcp-ffd`) and a model that was learned from the simulated broker. Topics
are placed so that all promises are expected to be kept. Then one of them is made slower on purpose: its messages take
longer than anybody is told, as when its processing is not bound by the processor. What subscribers measure is all that
shows it. Every interval the brokers are simulated as they are, the policy sees what was measured, and its plan is
carried out. After the first one the model learns from what was measured: later plans are by that model, and it is asked
again for what it got wrong. How often such a topic is late again later, because alone it looks quick, is counted.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.measuring import planned
from nearcast.lab.workloads.colocated import NOMINAL, drawn_together, most_rates_of
from nearcast.pipeline.latency_fit import BOUND_MS, Floats, Sets
from nearcast.pipeline.measurements import SIMULATED
from nearcast.pipeline.simulated_broker import RANK, simulated, simulated_latencies
from nearcast.pipeline.training import Material, train, updated
from nearcast.policies.ktcp import FFD
from nearcast.policies.registry import policy_named
from nearcast.policies.settings import Colocation, Settings
from nearcast.predict.latency_model import LatencyModel, Origin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PROCESSORS = replace(NOMINAL, cores=1, lasting_s=30.0)
_TOGETHER = 3
_RUNS, _QUICK_RUNS = 200, 60
_CASES, _QUICK_CASES = 20, 5
_SLOWER = 2.5
_BUSY = (0.55, 0.75)  # of the broker, before one is slower
_INTERVALS = 5
_BROKERS = ("a", "b", "c", "d")

MOVED = Expectation(
    "KH-10", "intervals until a topic that was made slower keeps its promise again, of any case at most", "<= 3"
)
KEPT = Expectation("KH-10", "cases in which the other topics keep their promises afterwards", ">= 1")
SAID = Expectation("KH-10", "steps for a late topic or its neighbours that do not say what is expected", "== 0")
CLOSER = Expectation(
    "KH-10", "error of the next prediction for what was wrong over that before, of all cases (median)", "< 1"
)


class Row(NamedTuple):
    case: int
    topic: str
    late_ms: float
    expected_ms: float
    intervals: int | None
    p90_after_ms: float
    others_late_after: int
    steps: int
    said: bool
    late_again: bool
    learned_ms: float
    error_before: float
    error_after: float


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    given = _material(settings)
    model = train(given, "queueing", name="before")
    count = settings.seeds or (_QUICK_CASES if settings.quick else _CASES)
    rows = []
    for case in range(count):
        progress(case, count, "cases")
        rows.append(_case(case, settings.seed, model, given))
    moved = [row.intervals for row in rows]
    ratios = [row.error_after / row.error_before for row in rows]
    return Outcome(
        claims=(
            MOVED.judge(None if None in moved else max(each for each in moved if each is not None)),
            KEPT.judge(round(float(np.mean([row.others_late_after == 0 for row in rows])), 4)),
            SAID.judge(sum(not row.said for row in rows)),
            CLOSER.judge(round(float(np.median(ratios)), 4)),
        ),
        metrics={
            "cases": count,
            "slower": _SLOWER,
            "closer_in": sum(each < 1.0 for each in ratios),
            "late_again_later": sum(row.late_again for row in rows),
            "own_promise_kept_after": sum(row.p90_after_ms <= BOUND_MS for row in rows),
        },
        tables={"cases": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"feedback": partial(_draw, rows)},
    )


def _material(settings: RunSettings) -> Material:
    runs = _QUICK_RUNS if settings.quick else _RUNS
    sets = {}
    for topics in range(1, _TOGETHER + 1):
        plan = planned(
            [topics],
            runs=runs,
            validate=0,
            most_hz=most_rates_of(_PROCESSORS),
            processors=_PROCESSORS,
            seed=settings.seed,
            source=SIMULATED,
        )
        interval_ms = np.array([each.interval_ms for each in plan])
        rate_hz = np.array([each.rate_hz for each in plan])
        sets[topics] = simulated(interval_ms, rate_hz, _PROCESSORS, settings.seed + topics)
    weights = {topics: np.ones(len(each)) for topics, each in sets.items()}
    return Material(sets, weights, {}, _PROCESSORS, Origin({SIMULATED: 3 * runs}, seed=settings.seed))


def _case(case: int, seed: int, model: LatencyModel, given: Material) -> Row:
    told_ms, rate_hz, slow = _drawn(model, seed, case)
    true_ms = told_ms.copy()
    true_ms[slow] *= _SLOWER
    names = [f"t{number}" for number in range(_TOGETHER)]
    where = dict.fromkeys(names, _BROKERS[0])
    expected = model.p90_ms(told_ms[None, :], rate_hz[None, :])[0]
    first = _p90_ms(where, names, true_ms, rate_hz, seed + case)
    fresh = Sets(told_ms[None, :], rate_hz[None, :], first[None, :])
    learned = train(updated(given, {_TOGETHER: fresh}), "queueing", name="after")
    steps, said, again, p90_ms = 0, True, False, first
    intervals: int | None = None
    for interval in range(1, _INTERVALS + 1):
        by = model if interval == 1 else learned
        settings = Settings(colocation=Colocation(most=_TOGETHER, processors=_PROCESSORS, model=by, margin_ms=0.0))
        plan = policy_named(FFD)(_seen(where, names, told_ms, rate_hz, p90_ms), settings, float(interval))
        steps += len(plan.steps)
        said &= all("90 of 100 messages are expected within" in step.reason for step in plan.steps)
        if p90_ms[slow] > BOUND_MS:
            said &= all("are promised" in step.reason for step in plan.steps if step.topic == names[slow])
        where |= {step.topic: step.brokers[0] for step in plan.steps}
        p90_ms = _p90_ms(where, names, true_ms, rate_hz, seed + case + 100 * interval)
        if p90_ms[slow] <= BOUND_MS:
            intervals = intervals or interval
        elif intervals:
            again = True
    after = learned.p90_ms(told_ms[None, :], rate_hz[None, :])[0]
    others = np.delete(p90_ms, slow)
    return Row(
        case,
        names[slow],
        round(float(first[slow]), 1),
        round(float(expected[slow]), 1),
        intervals,
        round(float(p90_ms[slow]), 1),
        int(np.sum(others > BOUND_MS)),
        steps,
        bool(said),
        again,
        round(float(after[slow]), 1),
        abs(float(np.log(expected[slow] / first[slow]))),
        abs(float(np.log(after[slow] / first[slow]))),
    )


def _drawn(model: LatencyModel, seed: int, case: int) -> tuple[Floats, Floats, int]:
    """Topics that are expected to keep their promises together, of which one, made slower, does not."""
    rng = np.random.default_rng([seed, case])
    most_hz = most_rates_of(_PROCESSORS)
    while True:
        interval_ms, rate_hz = drawn_together((1, _TOGETHER), most_hz, _PROCESSORS, rng)
        if not _BUSY[0] < _PROCESSORS.busy(interval_ms, rate_hz)[0] < _BUSY[1]:
            continue
        if np.any(model.p90_ms(interval_ms, rate_hz) > BOUND_MS):
            continue
        slow = int(np.argmax(interval_ms[0] * rate_hz[0]))
        true_ms = interval_ms[0].copy()
        true_ms[slow] *= _SLOWER
        alone = true_ms[slow] * rate_hz[0, slow] < 0.9e3  # at a broker of its own it can be served
        if alone and simulated(true_ms[None, :], rate_hz, _PROCESSORS, seed + case).p90_ms[0, slow] > BOUND_MS:
            return interval_ms[0], rate_hz[0], slow


def _p90_ms(where: dict[str, str], names: Sequence[str], true_ms: Floats, rate_hz: Floats, seed: int) -> Floats:
    """What subscribers measure in an interval, with topics where they are."""
    found = np.zeros(len(names))
    for broker in sorted(set(where.values())):
        here = [at for at, name in enumerate(names) if where[name] == broker]
        (late,) = simulated_latencies([(true_ms[here], rate_hz[here])], _PROCESSORS, seed)
        found[here] = [np.percentile(each, RANK) for each in late]
    return found


def _seen(where: dict[str, str], names: Sequence[str], told_ms: Floats, rate_hz: Floats, p90_ms: Floats) -> Snapshot:
    loads = [
        TopicLoad(name, rate, rate, 4096 * rate, 4096 * rate, 1, 1) for name, rate in zip(names, rate_hz, strict=True)
    ]
    reports = [
        BrokerReport(broker, 0.0, 0.0, 1e9, tuple(each for each in loads if where[each.topic] == broker))
        for broker in _BROKERS
    ]
    routes = {name: Route(1, Strategy.SINGLE, (where[name],)) for name in names}
    snapshot = Snapshot.of(reports, routes, Ring(_BROKERS), at_s=0.0)
    return replace(snapshot, processing=Processing(told_ms, np.full(len(names), BOUND_MS), p90_ms))


def _draw(rows: Sequence[Row], figure: "Figure") -> None:
    axes = figure.add_subplot()
    at = np.arange(len(rows))
    for label, name, marker in (
        ("measured, while slower", "late_ms", "o"),
        ("expected before", "expected_ms", "x"),
        ("expected after the model has learned of it", "learned_ms", "+"),
        ("measured after the plan", "p90_after_ms", "."),
    ):
        axes.plot(at, [getattr(row, name) for row in rows], marker, label=label)
    axes.axhline(BOUND_MS, color="gray", linestyle="--", linewidth=1)
    axes.set_yscale("log")
    axes.set_xticks(at)
    axes.set_xlabel("case")
    axes.set_ylabel("p90 of the slower topic (ms)")
    axes.legend(fontsize="small")


EXPERIMENT = Experiment(
    name="khare.feedback",
    paper="Khare, section IV-E",
    summary="A topic that turns slow unseen: what subscribers measure moves it, and the model learns from it",
    expectations=(MOVED, KEPT, SAID, CLOSER),
    modes=("flow",),
    measure=measure,
    options=("seeds",),
)
