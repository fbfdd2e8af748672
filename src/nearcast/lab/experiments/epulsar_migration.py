"""ePulsar, section 5.7, Figure 7: moving every topic between two brokers while the control plane is far away.

Live: one listener per topic and a stream on each, all topics moved from the first broker to the second and back, once
by our coordinator and once by the workflow that has clients look up where their topic is. A listener's pause is
the longest time in which it was attached to no broker that gets its topic's messages, as it sees it itself, and at
least 1 ms in either workflow. The lookup workflow loses what is published meanwhile, as topics without a log do there:
that is counted, and claimed of ours only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import uvloop

from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.migration import Batch, Edge, LookupMover, OurMover, Streams, edge_on
from nearcast.lab.live.steady import Account, Workflow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "epulsar.migration"
_FLOOR_S = 0.001
_FAR_S = 0.04
_STEADY = 16  # streams with a message every 20 ms, in which silence shows; on the other topics there is one every 0.5 s
_EXECUTORS = 16


@dataclass(frozen=True, slots=True)
class Scale:
    topics: int
    delays_s: tuple[float, ...]
    some_topics: tuple[int, ...]  # of which the time per topic is measured, beside all
    executors: tuple[int, ...]


_FULL = Scale(128, (0.0, 0.02, 0.04, 0.08), (16, 32, 64), (1, 2, 4, 8, 16, 32))
_QUICK = Scale(16, (0.0, 0.04), (4,), (1, 16))

RATIO = Expectation("EP-6", "median pause of a client by lookup, over ours, the control plane 40 ms away", ">= 3")
GROWTH = Expectation("EP-6", "that ratio, over the one at the next smaller WAN latency; the least", "> 1")
BELOW = Expectation("EP-6", "longest pause of any client, ours over lookup's; the most of any WAN latency", "< 1")
LOST = Expectation("EP-6", "messages lost, repeated, out of order or reported missing in our moves", "== 0")
REFUSED = Expectation("EP-6", "moves of ours that were refused", "== 0")
FALL = Expectation(
    "EP-7", "median time per topic, over the one with the next larger pool; all topics; the least", "> 1"
)
RISE = Expectation("EP-7", "by lookup, median time per topic, over the one with fewer topics; the least", "> 1")


class PauseRow(NamedTuple):
    workflow: Workflow
    wan_ms: float
    clients: int
    median_ms: float
    p95_ms: float
    longest_ms: float
    median_silence_ms: float
    longest_silence_ms: float


class TimeRow(NamedTuple):
    """`median_ms`: from when all were handed over until this one was released; `own_ms`: from its turn on."""

    workflow: Workflow
    wan_ms: float
    topics: int
    executors: int
    median_ms: float
    p95_ms: float
    own_ms: float
    all_s: float


class _Found(NamedTuple):
    moves: list[Batch]  # all topics there and back, at every WAN latency
    sweep: list[Batch]  # so many topics by so many executors
    account: Account


def _measure(settings: RunSettings, progress: Progress) -> Outcome:
    kind, scale = settings.brokers or "nats", _QUICK if settings.quick else _FULL
    ours, lookup = uvloop.run(_run(kind, scale, settings.seed, progress))
    pauses = [row for found in (ours, lookup) for row in _pause_rows(found.moves)]
    times = [_time_row(batch) for found in (ours, lookup) for batch in (*found.moves, *found.sweep)]
    return Outcome(
        claims=tuple(_judge(scale, pauses, times, ours)),
        metrics={
            "brokers": kind,
            "topics": scale.topics,
            "steady_streams": min(_STEADY, scale.topics),
            "ratio_by_wan_ms": {f"{row[0]:g}": row[1] for row in _ratios(pauses)},
            "silence_ratio_by_wan_ms": {f"{row[0]:g}": row[1] for row in _ratios(pauses, of="median_silence_ms")},
            "messages": {"ours": _counts(ours.account), "lookup": _counts(lookup.account)},
        },
        tables={
            "pauses": Table(PauseRow._fields, tuple(pauses)),
            "times": Table(TimeRow._fields, tuple(times)),
        },
        figures={"figure7a": partial(_draw_pauses, pauses), "figure7b": partial(_draw_times, times)},
    )


# The runs


async def _run(kind: str, scale: Scale, seed: int, progress: Progress) -> tuple[_Found, _Found]:
    async with edge_on(kind) as edge:
        return await _ours(edge, scale, seed, progress), await _lookup(edge, scale, seed, progress)


async def _ours(edge: Edge, scale: Scale, seed: int, progress: Progress) -> _Found:
    topics = [f"ours-{number}" for number in range(scale.topics)]
    home, other = edge.spec.brokers
    moves, sweep = [], []
    async with OurMover(edge) as mover:
        async with Streams(edge, "ours", topics, _STEADY, seed) as streams:
            await mover.gather(topics, home)
            for number, delay_s in enumerate(scale.delays_s):
                progress(number, 2 * len(scale.delays_s) + 1, f"ours: the control plane {1e3 * delay_s:g} ms away")
                await edge.far(delay_s)
                for way in ((home, other), (other, home)):
                    batch = await streams.batch(mover, scale.topics, way, executors=_EXECUTORS, delay_s=delay_s)
                    moves.append(batch)
            account = await streams.end()
        progress(len(scale.delays_s), 2 * len(scale.delays_s) + 1, "ours: executors")
        await edge.far(_FAR_S)
        async with Streams(edge, "ours", topics, 0, seed) as streams:
            for count in (*scale.some_topics, scale.topics):
                way = home, other
                for executors in scale.executors:
                    sweep.append(await streams.batch(mover, count, way, executors=executors, delay_s=_FAR_S))
                    way = way[::-1]
                if way[0] != home:
                    await streams.batch(mover, count, way, executors=max(scale.executors), delay_s=_FAR_S)
            account += await streams.end()
        await edge.far(0.0)
    return _Found(moves, sweep, account)


async def _lookup(edge: Edge, scale: Scale, seed: int, progress: Progress) -> _Found:
    topics = [f"lookup-{number}" for number in range(scale.topics)]
    home, other = edge.spec.brokers
    moves, sweep = [], []
    async with LookupMover(edge) as mover, Streams(edge, "lookup", topics, _STEADY, seed) as streams:
        for number, delay_s in enumerate(scale.delays_s):
            done = len(scale.delays_s) + 1 + number
            progress(done, 2 * len(scale.delays_s) + 1, f"by lookup: the control plane {1e3 * delay_s:g} ms away")
            await edge.far(delay_s)
            moves.append(await streams.batch(mover, scale.topics, (home, other), delay_s=delay_s))
            moves.append(await streams.batch(mover, scale.topics, (other, home), delay_s=delay_s))
        await edge.far(_FAR_S)
        for count in scale.some_topics:
            sweep.append(await streams.batch(mover, count, (home, other), delay_s=_FAR_S))
            sweep.append(await streams.batch(mover, count, (other, home), delay_s=_FAR_S))
        account = await streams.end()
    return _Found(moves, sweep, account)


# What was found


def _pause_rows(moves: Iterable[Batch]) -> list[PauseRow]:
    moves, rows = list(moves), []
    for delay_s in dict.fromkeys(batch.delay_s for batch in moves):
        mine = [batch for batch in moves if batch.delay_s == delay_s]
        pauses_ms = 1e3 * np.maximum([pause_s for batch in mine for pause_s in batch.pauses_s], _FLOOR_S)
        silences_ms = 1e3 * np.array([silence_s for batch in mine for silence_s in batch.silences_s])
        figures = (
            *np.percentile(pauses_ms, (50, 95, 100)).tolist(),
            *np.percentile(silences_ms, (50, 100)).tolist(),
        )
        rows.append(PauseRow(mine[0].workflow, 1e3 * delay_s, len(pauses_ms), *(round(each, 2) for each in figures)))
    return rows


def _time_row(batch: Batch) -> TimeRow:
    times_ms = 1e3 * np.array(batch.times_s)
    whole = times_ms.sum(axis=1)
    median, p95 = (round(each, 2) for each in np.percentile(whole, (50, 95)).tolist())
    own, all_s = round(float(np.median(times_ms[:, 1])), 2), round(float(whole.max()) / 1e3, 3)
    return TimeRow(batch.workflow, 1e3 * batch.delay_s, len(times_ms), batch.executors, median, p95, own, all_s)


def _ratios(rows: Sequence[PauseRow], of: str = "median_ms") -> list[tuple[float, float]]:
    """(WAN latency, lookup's over ours), by latency."""
    found = {(row.workflow, row.wan_ms): float(getattr(row, of)) for row in rows}
    waits = [row.wan_ms for row in rows if row.workflow == "ours"]
    return [(wan_ms, round(found["lookup", wan_ms] / found["ours", wan_ms], 2)) for wan_ms in waits]


def _median_times(rows: Iterable[TimeRow], workflow: Workflow) -> dict[tuple[int, int], float]:
    """By (topics, executors), at the latency at which they are compared; the mean where there are several."""
    found: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        if row.workflow == workflow and row.wan_ms == 1e3 * _FAR_S:
            found.setdefault((row.topics, row.executors), []).append(row.median_ms)
    return {key: float(np.mean(each)) for key, each in sorted(found.items())}


def _judge(scale: Scale, pauses: list[PauseRow], times: list[TimeRow], ours: _Found) -> list[Claim]:
    ratios = _ratios(pauses)
    longest = {(row.workflow, row.wan_ms): row.longest_ms for row in pauses}
    by_pool = [ms for (topics, _), ms in _median_times(times, "ours").items() if topics == scale.topics]
    by_topics = list(_median_times(times, "lookup").values())
    account = ours.account
    wrong = account.lost + account.repeated + account.reordered + account.reported
    return [
        RATIO.judge(dict(ratios)[1e3 * _FAR_S]),
        GROWTH.judge(round(min(further / nearer for (_, nearer), (_, further) in pairwise(ratios)), 3)),
        BELOW.judge(round(max(longest["ours", wan_ms] / longest["lookup", wan_ms] for wan_ms, _ in ratios), 4)),
        LOST.judge(wrong),
        REFUSED.judge(sum(batch.refused for batch in (*ours.moves, *ours.sweep))),
        FALL.judge(round(min(small / large for small, large in pairwise(by_pool)), 3)),
        RISE.judge(round(min(more / fewer for fewer, more in pairwise(by_topics)), 3)),
    ]


def _counts(account: Account) -> dict[str, Metric]:
    return dict(msgspec.structs.asdict(account))


# Figures


def _draw_pauses(rows: list[PauseRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    labels = {"lookup": "clients look up their topic (stock Pulsar)", "ours": "nearcast"}
    for workflow, label in labels.items():
        mine = [row for row in rows if row.workflow == workflow]
        waits = [row.wan_ms for row in mine]
        spread = ([0.0] * len(mine), [row.longest_ms - row.median_ms for row in mine])
        axes.errorbar(waits, [row.median_ms for row in mine], yerr=spread, fmt="o-", capsize=4, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("one-way WAN latency to the control plane (ms)")
    axes.set_ylabel("pause of a client, median and longest (ms, at least 1)")
    axes.legend()
    axes.set_title(f"Client downtime while all topics move, {_EXECUTORS} executors (Figure 7a)")


def _draw_times(rows: list[TimeRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    ours, lookup = _median_times(rows, "ours"), _median_times(rows, "lookup")
    axes.plot([topics for topics, _ in lookup], list(lookup.values()), "ks--", label="lookup, one after the other")
    for executors in dict.fromkeys(executors for _, executors in sorted(ours, key=lambda key: key[1])):
        mine = {topics: ms for (topics, pool), ms in ours.items() if pool == executors}
        axes.plot(list(mine), list(mine.values()), "o-", label=f"nearcast, {executors} executor{'s' * (executors > 1)}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(dict.fromkeys(topics for topics, _ in ours)), minor=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("topics that are moved")
    axes.set_ylabel("median time per topic (ms)")
    axes.legend(fontsize="small")
    axes.set_title(f"From the order until a topic is released, {1e3 * _FAR_S:g} ms from the control plane (Figure 7b)")


EXPERIMENT = Experiment(
    name=NAME,
    paper="ePulsar, section 5.7",
    summary="all topics moved between two brokers, the control plane far away: pauses of clients, and time per topic",
    expectations=(RATIO, GROWTH, BELOW, LOST, REFUSED, FALL, RISE),
    modes=("live",),
    measure=_measure,
    options=("brokers",),
)
