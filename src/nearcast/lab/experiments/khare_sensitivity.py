"""KH-1 to KH-4: what the latency of a processed topic depends on (Khare, Figure 1), on a real broker.

The broker, its agent and its processors have one core; the authors' has four. So that as many background topics come to
saturation, theirs are a quarter as heavy here: 12.5 ms each in Figure 1b, and drawn up to a tenth of the core in 1d.
"""

import asyncio
import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.knee import rank_correlation
from nearcast.lab.live.pinned import Topic, pinned_broker
from nearcast.lab.live.processed import Heard
from nearcast.lab.workloads.colocated import INTERVALS_MS
from nearcast.pipeline.latency_fit import BOUND_MS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LASTING_S, _QUICK_LASTING_S = 6.0, 1.5
_WARM_UP = 0.15  # of a run
_SUBSCRIBERS, _QUICK_SUBSCRIBERS = (1, 80, 160, 240), (1, 40)
_LISTENING = 200  # to the foreground topic of 1b
_FOREGROUND_MS, _BACKGROUND_MS, _BACKGROUND_HZ = 50.0, 12.5, 10.0
_BACKGROUND, _QUICK_BACKGROUND = tuple(range(9)), (0, 8)
_LOADS, _QUICK_LOADS = (0.1, 0.4, 0.6, 0.75, 0.85, 0.95, 1.1), (0.2, 0.7, 1.2)
_SHARED_MS = 20.0
_BESIDE = (0, 7, 11)
_HEAVIEST = 0.1  # of the core, a background topic of 1d
_TRIES = 6  # of a run that was disturbed
_KNEE = 5.0  # times what it is when nothing waits: that is the threshold rate


class Row(NamedTuple):
    figure: str
    interval_ms: float
    rate_hz: float
    subscribers: int
    background: int
    busy: float
    p50_ms: float
    p90_ms: float
    messages: int
    lag_ms: float
    stolen: float
    lost: int
    fault: str | None


MANY = Expectation("KH-1", "p90 with 240 subscribers over that with 1, of any interval at most", "< 2")
MANY_BOUND = Expectation("KH-1", "p90 with 240 subscribers (ms), of any interval at most", "< 1000")
RISES = Expectation("KH-2", "rank correlation of background topics with the foreground topic's p90", ">= 0.8")
SATURATED = Expectation("KH-2", "p90 of the foreground topic (ms) when the core is saturated", "< 1000")
KNEES = Expectation("KH-3", "intervals without a threshold rate", "== 0")
FALLING = Expectation("KH-3", "intervals whose threshold rate is not below that of the next shorter one", "== 0")
SEVEN = Expectation("KH-4", "threshold rate with 7 background topics over that without", "< 1")
ELEVEN = Expectation("KH-4", "threshold rate with 11 background topics over that with 7", "< 1")


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    rows, tried = asyncio.run(_measured(settings, progress))
    told = [row for row in rows if row.fault is None]
    alone = {
        each: _threshold([row for row in told if (row.figure, row.interval_ms) == ("c", each)]) for each in _ms(rows)
    }
    beside = {
        each: _threshold([row for row in told if (row.figure, row.background) == ("d", each)]) for each in _BESIDE
    }
    known = [alone[each] for each in sorted(alone)]
    ratios = [_ratio(told, each) for each in sorted({row.interval_ms for row in told if row.figure == "a"})]
    most = max((row.subscribers for row in told if row.figure == "a"), default=0)
    background = [row for row in told if row.figure == "b"]
    saturated = [row.p90_ms for row in background if row.busy >= 1.0]
    return Outcome(
        claims=(
            MANY.judge(_most(ratios)),
            MANY_BOUND.judge(_most([row.p90_ms for row in told if row.figure == "a" and row.subscribers == most])),
            RISES.judge(
                rank_correlation([row.background for row in background], [row.p90_ms for row in background])
                if len(background) > 2
                else None
            ),
            SATURATED.judge(_most(saturated)),
            KNEES.judge(sum(each is None for each in known) if known else None),
            FALLING.judge(
                sum(not (b is not None and a is not None and b < a) for a, b in itertools.pairwise(known))
                if len(known) > 1
                else None
            ),
            SEVEN.judge(_over(beside[7], beside[0])),
            ELEVEN.judge(_over(beside[11], beside[7])),
        ),
        metrics={
            "runs": tried,
            "discarded": tried - len(told),
            "lasting_s": _lasting_s(settings),
            "subscribers": most,
            "threshold_hz": {f"{each:g} ms": found for each, found in alone.items()},
            "threshold_beside_hz": {str(each): found for each, found in beside.items()},
        },
        tables={"runs": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"figure1": partial(_draw, told)},
    )


def _lasting_s(settings: RunSettings) -> float:
    return settings.duration_s or (_QUICK_LASTING_S if settings.quick else _LASTING_S)


class _Asked(NamedTuple):
    """One run: the first topic is the one that is looked at."""

    figure: str
    topics: tuple[Topic, ...]


def _asked(settings: RunSettings) -> list[_Asked]:
    quick = settings.quick
    intervals = INTERVALS_MS[1:3] if quick else INTERVALS_MS
    loads = _QUICK_LOADS if quick else _LOADS
    found = [
        _Asked("a", (Topic(each, 1.0, count),))
        for count in (_QUICK_SUBSCRIBERS if quick else _SUBSCRIBERS)
        for each in intervals[: 1 if quick else None]
    ]
    listening = 20 if quick else _LISTENING
    background = Topic(_BACKGROUND_MS, _BACKGROUND_HZ)
    found += [
        _Asked("b", (Topic(_FOREGROUND_MS, 1.0, listening), *(background,) * count))
        for count in (_QUICK_BACKGROUND if quick else _BACKGROUND)
    ]
    found += [_Asked("c", (Topic(each, _rate(each, load)),)) for each in intervals for load in loads]
    rng = np.random.default_rng(settings.seed)
    drawn = zip(rng.choice(INTERVALS_MS, _BESIDE[-1]), rng.uniform(0.02, _HEAVIEST, _BESIDE[-1]), strict=True)
    others = [Topic(ms, max(1.0, round(1e3 / ms * share))) for ms, share in drawn]
    found += [
        _Asked("d", (Topic(_SHARED_MS, _rate(_SHARED_MS, load)), *others[:count]))
        for count in _BESIDE
        for load in loads
    ]
    return found


def _rate(interval_ms: float, load: float) -> float:
    return float(max(1, round(load * 1e3 / interval_ms)))


async def _measured(settings: RunSettings, progress: Progress) -> tuple[list[Row], int]:
    """The last attempt of each (one at most where it is to be quick), and how many there were."""
    asked, rows, tried = _asked(settings), [], 0
    lasting_s = _lasting_s(settings)
    async with pinned_broker(settings.brokers or "nats", lasting_s=lasting_s, warm_up_s=_WARM_UP * lasting_s) as broker:
        for number, each in enumerate(asked):
            progress(number, len(asked), f"Figure 1{each.figure}")
            heard, in_vain = await broker.undisturbed(
                each.topics, settings.seed + number * _TRIES, 1 if settings.quick else _TRIES
            )
            tried += in_vain + (heard.fault is None)
            rows.append(_row(each, heard))
    return rows, tried


def _row(asked: _Asked, heard: Heard) -> Row:
    first = asked.topics[0]
    late_ms = heard.late_ms[0] or (float("nan"),)
    p50_ms, p90_ms = np.percentile(late_ms, (50, 90)).tolist()
    return Row(
        asked.figure,
        first.interval_ms,
        first.rate_hz,
        first.subscribers,
        len(asked.topics) - 1,
        round(sum(each.interval_ms * each.rate_hz for each in asked.topics) / 1e3, 3),
        round(p50_ms, 2),
        round(p90_ms, 2),
        len(late_ms),
        round(heard.lag_ms, 2),
        round(heard.stolen, 4),
        heard.lost,
        heard.fault,
    )


def _ms(rows: Sequence[Row]) -> list[float]:
    return sorted({row.interval_ms for row in rows if row.figure == "c"})


def _ratio(rows: Sequence[Row], interval_ms: float) -> float:
    mine = sorted((row.subscribers, row.p90_ms) for row in rows if (row.figure, row.interval_ms) == ("a", interval_ms))
    return mine[-1][1] / mine[0][1]


def _threshold(rows: Sequence[Row]) -> float | None:
    """The rate at which the percentile is `_KNEE` times the lowest; between two rates, by the logarithm."""
    points = sorted((row.rate_hz, row.p90_ms) for row in rows)
    if len(points) < 2:
        return None
    limit = _KNEE * min(p90_ms for _, p90_ms in points)
    for (before_hz, before), (after_hz, after) in itertools.pairwise(points):
        if before <= limit < after:
            part = np.log(limit / before) / np.log(after / before)
            return round(float(before_hz + part * (after_hz - before_hz)), 2)
    return None


def _most(values: Sequence[float]) -> float | None:
    return round(max(values), 3) if values else None


def _over(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else round(one / other, 3)


def _draw(rows: Sequence[Row], figure: "Figure") -> None:
    panels: list[Axes] = figure.subplots(2, 2).ravel().tolist()
    a, b, c, d = ([row for row in rows if row.figure == each] for each in "abcd")
    for ms in sorted({row.interval_ms for row in a}):
        _line(panels[0], [(row.subscribers, row.p90_ms) for row in a if row.interval_ms == ms], f"{ms:g} ms")
    _line(panels[1], [(row.background, row.p90_ms) for row in b], "")
    for ms in _ms(c):
        _line(panels[2], [(row.rate_hz, row.p90_ms) for row in c if row.interval_ms == ms], f"{ms:g} ms")
    for count in _BESIDE:
        label = "alone" if not count else f"with {count} others"
        _line(panels[3], [(row.rate_hz, row.p90_ms) for row in d if row.background == count], label)
    titles = (
        "(a) subscribers",
        "(b) background topics",
        "(c) messages/s, alone",
        "(d) messages/s, 20 ms, beside others",
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_xlabel(title)
    for axes in panels[2:]:
        axes.set_yscale("log")
        axes.axhline(BOUND_MS, color="gray", linestyle="--", linewidth=1)
    for axes in panels[:2]:
        axes.set_ylim(0.0, 1.3 * axes.get_ylim()[1])  # room for the legend
    panels[0].legend(fontsize="small", ncols=4, columnspacing=1.0, loc="upper center")
    for axes in panels[2:]:
        axes.legend(fontsize="small", loc="lower right")
    figure.supylabel("p90 from publication to receipt (ms)", fontsize="medium")


def _line(axes: "Axes", points: Sequence[tuple[float, float]], label: str) -> None:
    x, y = zip(*sorted(points), strict=True) if points else ((), ())
    axes.plot(x, y, marker="o", markersize=3, linewidth=1, label=label)


EXPERIMENT = Experiment(
    name="khare.sensitivity",
    paper="Khare, section IV-B",
    summary="A processed topic's latency by subscribers, background topics, rate and interval, on a real broker",
    expectations=(MANY, MANY_BOUND, RISES, SATURATED, KNEES, FALLING, SEVEN, ELEVEN),
    modes=("live",),
    measure=measure,
    options=("brokers", "duration"),
)
