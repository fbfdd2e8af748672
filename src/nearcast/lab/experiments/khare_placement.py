"""KH-7, KH-8: what the heuristics of Khare make of 10 to 80 topics (Figures 3 and 4).

At flow level: topics are placed by models that were learned from the simulated broker, with four cores as the paper's,
and every broker of a placement is then simulated with what it was given. Live (`khare.placement` only): by a model that
was learned from what `nearcast model collect` measured (`--rows`), and the brokers of a placement, which do not depend
on each other, are run for real one after the other on the same core, as long as the measured runs were. A broker has
one core then, and topics are a quarter as heavy: as many share it. `--seeds` says of how many requests.

`khare.placement` compares FFD, LFS and the hybrid with k' = 3; `khare.hybrid` the hybrid with k' = 1 to 6 on 50
topics. Requests are the same for all heuristics. Of the paper's Figures 3d and 4d, which disagree about what a tighter
placement does to the mean latency, both are drawn.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.khare import learned_model, most_rates_by, taught
from nearcast.lab.live.pinned import Topic, pinned_broker
from nearcast.lab.workloads.colocated import MARGIN_MS, MOST_TOPICS, NOMINAL, PAPER_CORES, Rates, drawn
from nearcast.pipeline.latency_fit import BOUND_MS, Floats
from nearcast.pipeline.simulated_broker import RANK, simulated_latencies
from nearcast.pipeline.training import train
from nearcast.policies.colocation import Placed, Topics, first_fit, hybrid, largest_set
from nearcast.predict.latency_model import LatencyModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SEARCHED = 3
_TOPICS, _QUICK_TOPICS = tuple(range(10, 81, 10)), (10, 20)
_REQUESTS = 5
_SIMULATED = 300  # runs of each number of topics that a model of real runs also learns from
_WARM_UP = 0.18  # of a run
_TRIES = 6  # of a broker whose run was disturbed
_HYBRID_TOPICS, _QUICK_HYBRID_TOPICS = 50, 15

Place = Callable[[Topics], Placed]
HEURISTICS: dict[str, Place] = {
    "LFS": lambda topics: largest_set(topics, MOST_TOPICS),
    "hybrid": lambda topics: hybrid(topics, _SEARCHED, MOST_TOPICS),
    "FFD": lambda topics: first_fit(topics, MOST_TOPICS),
}
SEARCHED: dict[str, Place] = {
    f"k' = {each}": partial(hybrid, searched=each, most=MOST_TOPICS) for each in range(1, MOST_TOPICS + 1)
}


class Row(NamedTuple):
    topics: int
    request: int
    heuristic: str
    brokers: int
    seconds: float
    busy: float
    mean_p90_ms: float
    topics_missed: int
    messages: int
    messages_missed: int


NO_MORE_THAN_HYBRID = Expectation("KH-7", "brokers of LFS over those of the hybrid (all requests)", "<= 1")
NO_MORE_THAN_FFD = Expectation("KH-7", "brokers of the hybrid over those of FFD (all requests)", "<= 1")
FFD_QUICKER = Expectation("KH-7", "planning time of FFD over that of the hybrid (all requests)", "< 1")
HYBRID_QUICKER = Expectation("KH-7", "planning time of the hybrid over that of LFS (all requests)", "< 1")
LOWEST = Expectation("KH-7", "mean p90 of LFS over the lower one of the others' (all requests)", "<= 1")
TOPICS_MISSED = Expectation("KH-7", "topics that miss their bound, of any number and heuristic at most", "<= 0.13")
MESSAGES_MISSED = Expectation("KH-7", "messages later than the bound, of any number and heuristic at most", "<= 0.10")

FEWER = Expectation("KH-8", "brokers with k' = 6 over those with k' = 1 (n = 50, all requests)", "<= 1")
SLOWER = Expectation("KH-8", "planning time with k' = 6 over that with k' = 1", "> 1")
LATER = Expectation("KH-8", "mean p90 with k' = 6 over that with k' = 1", "> 1")
SEARCHED_TOPICS_MISSED = Expectation("KH-8", "topics that miss their bound, with any k' at most", "<= 0.12")
SEARCHED_MESSAGES_MISSED = Expectation("KH-8", "messages later than the bound, with any k' at most", "<= 0.06")


def measure_placement(settings: RunSettings, progress: Progress) -> Outcome:
    counts = _QUICK_TOPICS if settings.quick else _TOPICS
    metrics: Mapping[str, Metric]
    if settings.mode == "live":
        rows, metrics = asyncio.run(_run_for_real(settings, progress, counts[:1] if settings.quick else counts))
    else:
        rows, metrics = _measured(settings, progress, counts, tuple(HEURISTICS)), _metrics(settings)
    brokers, seconds, p90_ms = (_sums(rows, of) for of in ("brokers", "seconds", "mean_p90_ms"))
    topics_missed, messages_missed = _most_missed(rows)
    return Outcome(
        claims=(
            NO_MORE_THAN_HYBRID.judge(brokers["LFS"] / brokers["hybrid"]),
            NO_MORE_THAN_FFD.judge(brokers["hybrid"] / brokers["FFD"]),
            FFD_QUICKER.judge(seconds["FFD"] / seconds["hybrid"]),
            HYBRID_QUICKER.judge(seconds["hybrid"] / seconds["LFS"]),
            LOWEST.judge(p90_ms["LFS"] / min(p90_ms["hybrid"], p90_ms["FFD"])),
            TOPICS_MISSED.judge(topics_missed),
            MESSAGES_MISSED.judge(messages_missed),
        ),
        metrics=metrics,
        tables={"placements": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"figure3": partial(_draw, rows, "topics", "number of topics")},
    )


def measure_hybrid(settings: RunSettings, progress: Progress) -> Outcome:
    count = _QUICK_HYBRID_TOPICS if settings.quick else _HYBRID_TOPICS
    rows = _measured(settings, progress, (count,), tuple(SEARCHED))
    brokers, seconds, p90_ms = (_sums(rows, of) for of in ("brokers", "seconds", "mean_p90_ms"))
    topics_missed, messages_missed = _most_missed(rows)
    least, *_, most = SEARCHED
    return Outcome(
        claims=(
            FEWER.judge(brokers[most] / brokers[least]),
            SLOWER.judge(seconds[most] / seconds[least]),
            LATER.judge(p90_ms[most] / p90_ms[least]),
            SEARCHED_TOPICS_MISSED.judge(topics_missed),
            SEARCHED_MESSAGES_MISSED.judge(messages_missed),
        ),
        metrics=_metrics(settings),
        tables={"placements": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"figure4": partial(_draw, rows, "heuristic", "k'")},
    )


def _metrics(settings: RunSettings) -> dict[str, Metric]:
    learned = learned_model(settings.quick)
    return {
        "requests": settings.seeds or _REQUESTS,
        "most_hz": {f"{each:g} ms": rate for each, rate in learned.most_hz.items()},
        "r2": {str(each.topics): round(each.r2, 4) for each in learned.model.accuracy},
    }


def _measured(settings: RunSettings, progress: Progress, counts: Sequence[int], heuristics: Sequence[str]) -> list[Row]:
    if settings.rows is not None:
        raise ConfigError("--rows is for mode live: at flow level topics are placed by a model of the simulated broker")
    requests = settings.seeds or _REQUESTS
    numbers = range(len(counts) * requests)
    each = partial(
        _request,
        settings.seed,
        settings.quick,
        tuple((count, at) for count in counts for at in range(requests)),
        tuple(heuristics),
    )
    return [row for rows in map_seeds(each, numbers, settings.jobs, progress, "requests") for row in rows]


async def _run_for_real(
    settings: RunSettings, progress: Progress, counts: Sequence[int]
) -> tuple[list[Row], Mapping[str, Metric]]:
    if settings.rows is None:
        raise ConfigError("khare.placement in mode live places by what was measured: say where that is, with --rows")
    found = taught(settings.rows, most=MOST_TOPICS, simulated_runs=_SIMULATED, seed=settings.seed)
    model = train(found.given, "queueing", name="real")
    alone_hz = most_rates_by(model, BOUND_MS - MARGIN_MS)
    most_hz = {interval_ms: max(1, rate // PAPER_CORES) for interval_ms, rate in alone_hz.items()}
    requests = settings.seeds or 1
    numbers = [(count, request) for request in range(requests) for count in counts]
    rows, discarded, disturbed = [], 0, 0
    lasting_s = found.real.lasting_s
    async with pinned_broker(settings.brokers or "nats", lasting_s=lasting_s, warm_up_s=_WARM_UP * lasting_s) as broker:
        for done, (count, request) in enumerate(numbers):
            asked = _asked(model, most_hz, settings.seed, count, request)
            for number, heuristic in enumerate(HEURISTICS):
                progress(done * len(HEURISTICS) + number, len(numbers) * len(HEURISTICS), f"{count} topics")
                placed, seconds = _placed(model, asked, heuristic)
                late: list[Floats] = []
                for at, content in enumerate(placed):
                    topics = [Topic(asked[0][each], asked[1][each]) for each in content]
                    seed = settings.seed + 1000 * request + _TRIES * at
                    heard, in_vain = await broker.undisturbed(topics, seed, _TRIES)
                    discarded, disturbed = discarded + in_vain, disturbed + (heard.fault is not None)
                    late += [np.array(each) for each in heard.late_ms]
                rows.append(_row(asked, request, heuristic, placed, seconds, late))
    return rows, {
        "requests": requests,
        "lasting_s": lasting_s,
        "most_hz": {f"{each:g} ms": rate for each, rate in most_hz.items()},
        "r2": {str(each.topics): round(each.r2, 4) for each in model.accuracy},
        "brokers_run": sum(row.brokers for row in rows),
        "runs_discarded": discarded,
        "brokers_disturbed_each_time": disturbed,
    }


def _request(
    seed: int, quick: bool, requests: tuple[tuple[int, int], ...], heuristics: tuple[str, ...], number: int
) -> list[Row]:
    learned = learned_model(quick)
    count, request = requests[number]
    asked = _asked(learned.model, learned.most_hz, seed, count, request)
    found = []
    for heuristic in heuristics:
        placed, seconds = _placed(learned.model, asked, heuristic)
        sets = [(asked[0][each], asked[1][each]) for each in placed]
        late = [each for broker in simulated_latencies(sets, NOMINAL, seed) for each in broker]
        found.append(_row(asked, request, heuristic, placed, seconds, late))
    return found


def _asked(model: LatencyModel, most_hz: Rates, seed: int, count: int, request: int) -> tuple[Floats, Floats]:
    """Intervals and rates, in the order of FFD."""
    interval_ms, rate_hz = drawn((count,), most_hz, np.random.default_rng([seed, count, request]))
    order = np.argsort(-model.p90_ms(interval_ms[:, None], rate_hz[:, None])[:, 0], kind="stable")
    return interval_ms[order], rate_hz[order]


def _placed(model: LatencyModel, asked: tuple[Floats, Floats], heuristic: str) -> tuple[Placed, float]:
    """With the processor time that it took."""
    bound_ms = np.full(len(asked[0]), BOUND_MS - MARGIN_MS)
    begun_s = time.process_time()
    placed = {**HEURISTICS, **SEARCHED}[heuristic](Topics(model, *asked, bound_ms))
    return placed, time.process_time() - begun_s


def _row(  # noqa: PLR0917  # private; its callers have them all at hand
    asked: tuple[Floats, Floats], request: int, heuristic: str, placed: Placed, seconds: float, late: Sequence[Floats]
) -> Row:
    interval_ms, rate_hz = asked
    p90_ms = np.array([np.percentile(each, RANK) for each in late])
    return Row(
        len(interval_ms),
        request,
        heuristic,
        len(placed),
        round(seconds, 4),
        round(float(np.sum(interval_ms * rate_hz)) / 1e3 / len(placed), 4),
        round(float(p90_ms.mean()), 2),
        int(np.sum(p90_ms > BOUND_MS)),
        sum(len(each) for each in late),
        sum(int(np.sum(each > BOUND_MS)) for each in late),
    )


def _sums(rows: Sequence[Row], of: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        found[row.heuristic] = found.get(row.heuristic, 0.0) + getattr(row, of)
    return found


def _most_missed(rows: Sequence[Row]) -> tuple[float, float]:
    """Shares of topics and of messages, of the number and heuristic with the most; means over requests."""
    groups = [
        [row for row in rows if (row.topics, row.heuristic) == which]
        for which in sorted({(row.topics, row.heuristic) for row in rows})
    ]
    topics = max(sum(row.topics_missed for row in each) / sum(row.topics for row in each) for each in groups)
    messages = max(sum(row.messages_missed for row in each) / sum(row.messages for row in each) for each in groups)
    return round(topics, 4), round(messages, 4)


_PANELS: tuple[tuple[str, str, Callable[[Row], float]], ...] = (
    ("(a)", "brokers", lambda row: row.brokers),
    ("(b)", "planning time (s)", lambda row: row.seconds),
    ("(c)", "mean use of a core", lambda row: row.busy),
    ("(d)", "mean p90 (ms)", lambda row: row.mean_p90_ms),
    ("(e)", "messages later than the bound (%)", lambda row: 100 * row.messages_missed / row.messages),
    ("(f)", "topics that miss their bound (%)", lambda row: 100 * row.topics_missed / row.topics),
)


def _draw(rows: Sequence[Row], by: str, label: str, figure: "Figure") -> None:
    figure.set_size_inches(12.0, 6.5)
    for axes, (letter, name, value) in zip(figure.subplots(2, 3).flat, _PANELS, strict=True):
        if by == "topics":
            for heuristic in dict.fromkeys(row.heuristic for row in rows):
                _line(axes, [row for row in rows if row.heuristic == heuristic], value, heuristic)
            axes.legend(fontsize="x-small")
        else:
            means = {h: np.mean([value(row) for row in rows if row.heuristic == h]) for h in SEARCHED}
            axes.bar(range(1, len(means) + 1), list(means.values()))
        if letter == "(b)":
            axes.set_yscale("log")
        axes.set_title(f"{letter} {name}", fontsize="medium")
        axes.set_xlabel(label)


def _line(axes: "Axes", rows: Sequence[Row], value: Callable[[Row], float], label: str) -> None:
    counts = sorted({row.topics for row in rows})
    means = [np.mean([value(row) for row in rows if row.topics == count]) for count in counts]
    axes.plot(counts, means, marker="o", markersize=3, linewidth=1, label=label)


PLACEMENT = Experiment(
    name="khare.placement",
    paper="Khare, section VI-C",
    summary="10 to 80 topics placed by FFD, LFS and the hybrid: brokers, planning time, latency and misses",
    expectations=(
        NO_MORE_THAN_HYBRID,
        NO_MORE_THAN_FFD,
        FFD_QUICKER,
        HYBRID_QUICKER,
        LOWEST,
        TOPICS_MISSED,
        MESSAGES_MISSED,
    ),
    modes=("flow", "live"),
    measure=measure_placement,
    options=("seeds", "rows", "brokers"),
)

HYBRID = Experiment(
    name="khare.hybrid",
    paper="Khare, section VI-D",
    summary="50 topics placed by the hybrid, with k' from 1 (FFD) to 6 (LFS)",
    expectations=(FEWER, SLOWER, LATER, SEARCHED_TOPICS_MISSED, SEARCHED_MESSAGES_MISSED),
    modes=("flow",),
    measure=measure_hybrid,
    options=("seeds",),
)
