"""REL-5: what the delay model of RELOC says, on real servers: processed at home, heard at home, delegated when full.

16 edge servers and a cloud, clients of a drawn field with homes by each of the paper's methods, all delays scaled by
one factor, so that the smallest Y is 100 ms and more and what programs take does not matter. Y is measured as the model
has it: the mean over publications of the mean over everybody else who hears the topic. What the WAN emulator takes
beyond what it is told is measured meanwhile, and subtracted for each link on the way; where that is milliseconds, the
machine had other things to do, and the method is measured again (`times`). A last run has servers that cannot spool
everything: whole topics are delegated, and measured Y is held against the model by whole topics.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Ints
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.homed import Homing, Pace, Told, lived
from nearcast.lab.reloc import CLUSTERS, NS, OTOS, RA, RELOC, homes_by
from nearcast.lab.workloads.field import Field, drawn_area
from nearcast.policies.settings import Allocation
from nearcast.predict.delegation import Delegated, delay_by_topics
from nearcast.predict.homed import Delay, Pattern, delay_of, storage_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "reloc.live"
METHODS = (RA, NS, OTOS, RELOC)
FULL = "RELOC, servers full"
_LEAST_MS = 110.0  # of the smallest Y, scaled
_STEP = 5  # factors are multiples of it
_FIELD = Field(topics=8, servers=16, most_members=7, storage=1e6, compute=1e6)
_QUICK_FIELD = replace(_FIELD, topics=3, servers=4, most_members=4)
_PACE = Pace(rate_hz=0.5, lasting_s=20.0)
_QUICK_PACE = Pace(rate_hz=1.0, lasting_s=5.0, most=1)
_TIE = 0.02
_ROOM = 0.6  # of what the fullest server would spool: so much do servers have in the last run

LARGEST = Expectation("REL-5", "largest difference between measured Y and the model's, of four methods", "<= 0.10")
ORDER = Expectation("REL-5", "pairs of methods in another order than by the model, of those 2 % apart or more", "== 0")
SMALLEST = Expectation("REL-5", "smallest Y of the model, scaled (ms)", ">= 100")
THETA = Expectation("REL-5", "smallest theta of the run with full servers", "< 1")
DELEGATED = Expectation(
    "REL-5", "difference between measured Y and the model's by whole topics, servers full", "<= 0.10"
)
MISSING = Expectation("REL-5", "messages lost, repeated or out of order", "== 0")
REPORTS = Expectation("REL-5", "gaps and discontinuities reported", "== 0")


class Row(NamedTuple):
    """Y in ms, scaled. `split_ms` is the paper's, where theta splits topics; `model_ms` with whole topics delegated."""

    method: str
    split_ms: float
    model_ms: float
    raw_ms: float
    measured_ms: float
    off: float
    crossing_ms: float
    times: int
    heard: int
    theta: float
    delegated: float


@dataclass(frozen=True, slots=True, eq=False)
class _Case:
    """What one run is to be, and what the model says of it, unscaled."""

    name: str
    area: Area
    home: Ints
    split: Delay
    model: Delay
    whole: Delegated


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    field, pace = (_QUICK_FIELD, _QUICK_PACE) if settings.quick else (_FIELD, _PACE)
    cases = _cases(drawn_area(field, settings.seed), settings.seed)
    least_ms = 1e3 * min(case.model.y_s for case in cases)
    factor = _STEP * math.ceil(_LEAST_MS / least_ms / _STEP)
    kind = settings.brokers or "nats"
    homings = [Homing(case.name, case.home, case.whole) for case in cases]
    told, verdict = lived(cases[0].area, kind, homings, replace(pace, factor=factor), progress)
    rows = [_row(case, each, factor) for case, each in zip(cases, told, strict=True)]
    methods, full = rows[:-1], rows[-1]
    return Outcome(
        claims=(
            LARGEST.judge(round(max(abs(row.off) for row in methods), 4)),
            ORDER.judge(_inversions(methods)),
            SMALLEST.judge(round(factor * least_ms, 3)),
            THETA.judge(full.theta),
            DELEGATED.judge(round(abs(full.off), 4)),
            MISSING.judge(len(verdict.lost) + len(verdict.duplicated) + len(verdict.reordered) + len(verdict.invented)),
            REPORTS.judge(verdict.gaps + verdict.discontinuities),
        ),
        metrics={
            "brokers": kind,
            "servers": field.servers + 1,
            "clients": len(cases[0].area.clients),
            "topics": field.topics,
            "publications": len(cases[0].model.delay_s),
            "factor": factor,
            "rate_hz": pace.rate_hz,
            **{f"{row.method}: measured_ms": row.measured_ms for row in rows},
            **{f"{row.method}: model_ms": row.model_ms for row in rows},
            "delegated_publications": full.delegated,
            "one_minus_theta": round(cases[-1].split.delegated, 4),
            **verdict.counts(),
        },
        tables={"methods": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"delays": partial(_draw, rows)},
    )


def _cases(area: Area, seed: int) -> list[_Case]:
    allocation = Allocation(clusters=min(CLUSTERS, len(area.servers)), seed=seed)
    found = [_case(method, area, homes_by(method, area, allocation)) for method in METHODS]
    room = _ROOM * float(storage_of(area, found[-1].home).max())
    tight = replace(area, storage=np.full(len(area.servers), room))
    # The homes stay: what is measured is what delegation does to them.
    return [*found, _case(FULL, tight, found[-1].home)]


def _case(name: str, area: Area, home: Ints) -> _Case:
    pattern = Pattern.of(area)
    model, whole = delay_by_topics(area, home, pattern)
    return _Case(name, area, home, delay_of(area, home, pattern), model, whole)


def _row(case: _Case, told: Told, factor: float) -> Row:
    raw_ms = 1e3 * float(np.nanmean(told.delay_s))
    crossings = _crossings(case)
    measured_ms = raw_ms - 1e3 * told.crossing_s * crossings
    model_ms = 1e3 * factor * case.model.y_s
    return Row(
        case.name,
        round(1e3 * factor * case.split.y_s, 3),
        round(model_ms, 3),
        round(raw_ms, 3),
        round(measured_ms, 3),
        round(measured_ms / model_ms - 1.0, 5),
        round(1e3 * told.crossing_s, 3),
        told.times,
        told.heard,
        round(float(case.model.theta.min()), 4),
        round(case.whole.share, 4),
    )


def _crossings(case: _Case) -> float:
    """The links on the way of a notification, as Y counts them: two where both are at home at the same server, else
    three.
    """
    area, home, pattern = case.area, case.home, Pattern.of(case.area)
    left = case.whole.of(home[pattern.client], pattern.topic, len(area.spool))
    found = []
    for client, topic, delegated in zip(pattern.client.tolist(), pattern.topic.tolist(), left.tolist(), strict=True):
        others = pattern.hearer[(pattern.heard == topic) & (pattern.hearer != client)]
        found.append(3.0 if delegated else float(np.mean(2.0 + (home[others] != home[client]))))
    return float(np.mean(found))


def _inversions(rows: Sequence[Row]) -> int:
    return sum(
        abs(one.model_ms - other.model_ms) > _TIE * one.model_ms
        and (one.model_ms < other.model_ms) != (one.measured_ms < other.measured_ms)
        for at, one in enumerate(rows)
        for other in rows[at + 1 :]
    )


def _draw(rows: Sequence[Row], figure: "Figure") -> None:
    axes = figure.add_subplot()
    at = np.arange(len(rows))
    for shift, (label, values) in enumerate(
        {"model": [row.model_ms for row in rows], "measured": [row.measured_ms for row in rows]}.items()
    ):
        bars = axes.bar(at + 0.4 * (shift - 0.5), values, 0.4, label=label)
        axes.bar_label(bars, fmt="%.0f", fontsize="small")
    axes.set_xticks(at, [row.method.replace(", ", ",\n") for row in rows])
    axes.set_ylabel("Y, scaled (ms)")
    axes.set_title("Notifications on real servers, and by the model")
    axes.legend()


EXPERIMENT = Experiment(
    name=NAME,
    paper="RELOC, sections 3 and 5",
    summary="homes by four methods on 17 real servers through the WAN emulator, against the delay model",
    expectations=(LARGEST, ORDER, SMALLEST, THETA, DELEGATED, MISSING, REPORTS),
    modes=("live",),
    measure=measure,
    options=("brokers",),
)
