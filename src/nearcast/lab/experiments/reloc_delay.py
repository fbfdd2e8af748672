"""REL-1, REL-2, REL-3: the delay of RELOC, and of what it is compared with, over locality, spools and clusters (Figures
10 to 16 of RELOC).

`reloc.locality` varies sigma (Figure 14) and draws the homes of one field (Figures 10 to 13), `reloc.spool` the size of
spools (Figure 15), `reloc.clusters` K (Figure 16) beside the K that is chosen by itself. Each is run for topics that
share clients and for topics that do not, with 20 seeds; what is compared are means over them. "Ours" is the search that
begins with RELOC's homes.
"""

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.area import Area
from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.reloc import (
    CLIENT,
    KINDS,
    MIDDLE,
    NS,
    OTOS,
    OURS,
    RA,
    RELOC,
    THEIRS,
    Case,
    Row,
    draw_panels,
    following_in,
    mean_of,
    row_of,
    rows_of,
    worst_ratio,
)
from nearcast.lab.reloc_maps import draw_methods, draw_one_field, draw_sizes, draw_steps
from nearcast.lab.workloads.field import Field, drawn_area
from nearcast.policies.relations import relations_of
from nearcast.policies.reloc import allocated, chosen_clusters
from nearcast.policies.settings import Allocation
from nearcast.predict.homed import Pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEEDS, _QUICK_SEEDS = 20, 2
_SIGMAS, _QUICK_SIGMAS = (1.0, 5.0, 10.0, 15.0, 20.0), (1.0, 5.0, 20.0)
_SPREAD = 5.0  # km: from here on RELOC has the smallest Y
_SPOOLS, _QUICK_SPOOLS = (1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 3.0)
_CLUSTERS, _QUICK_CLUSTERS = tuple(float(count) for count in range(1, 17)), (1.0, 2.0, 4.0, 6.0, 16.0)
_LOCAL, _WIDE = (1.0, 5.0), (10.0, 15.0, 20.0)
_TITLES = {"shared": "topics share clients", "disjoint": "no client has two topics"}


class _Rules:
    """The expectations of one kind of fields."""

    def __init__(self, kind: str) -> None:
        def rule(claim: str, statement: str, expected: str) -> Expectation:
            return Expectation(claim, f"{statement} ({_TITLES[kind]})", expected)

        self.smallest = rule("REL-1", "Y of RELOC over the smallest of RA, NS, OTOS, any sigma >= 5 at most", "< 1")
        self.stronger = rule(
            "REL-1", "Y of RELOC over that of OTOS at topics' middles (ours), any sigma >= 5 at most", "< 1"
        )
        self.nearest = rule(
            "REL-1", "way to homes of NS over the shortest of RA, OTOS, RELOC, any sigma at most", "< 1"
        )
        self.least = rule("REL-1", "storage of OTOS over the least of RA, NS, RELOC, any sigma at most", "< 1")
        self.farther = rule("REL-1", "Y1 of RELOC over that of OTOS, any sigma at most", "< 1")
        self.within = rule("REL-1", "storage of RELOC's mean server over A, any sigma at most", "<= 1")
        self.never = rule("REL-1", "share of fields in which RELOC fills any server above A", "== 0")
        self.spools = rule("REL-2", "Y of RELOC over the smallest of RA, NS, OTOS, any spool size at most", "< 1")
        self.falls = rule("REL-3", "Y with K = 16 over Y with K = 1, sigma 1 and 5 at most", "< 1")
        self.flat = rule("REL-3", "largest Y over smallest Y of any K, sigma 10 to 20 at most", "<= 1.25")
        self.chosen = rule("REL-3", "Y of the chosen K over that of the best K, mean over seeds, any sigma", "<= 1.02")

    @property
    def locality(self) -> tuple[Expectation, ...]:
        return self.smallest, self.stronger, self.nearest, self.least, self.farther, self.within, self.never

    @property
    def clusters(self) -> tuple[Expectation, ...]:
        return self.falls, self.flat, self.chosen


_RULES = {kind: _Rules(kind) for kind in KINDS}


def measure_locality(settings: RunSettings, progress: Progress) -> Outcome:
    sigmas = _QUICK_SIGMAS if settings.quick else _SIGMAS
    rows = _measured(settings, progress, partial(_at_sigma, sigmas))
    spread = [sigma for sigma in sigmas if sigma >= _SPREAD]
    claims: list[Claim] = []
    for kind, rules in _RULES.items():
        claims += (
            rules.smallest.judge(worst_ratio(rows, kind, "y_ms", (RELOC, THEIRS), spread)),
            rules.stronger.judge(worst_ratio(rows, kind, "y_ms", (RELOC, (MIDDLE,)), spread)),
            rules.nearest.judge(worst_ratio(rows, kind, "km", (NS, (RA, OTOS, RELOC)), sigmas)),
            rules.least.judge(worst_ratio(rows, kind, "storage", (OTOS, (RA, NS, RELOC)), sigmas)),
            rules.farther.judge(worst_ratio(rows, kind, "y1_ms", (RELOC, (OTOS,)), sigmas)),
            rules.within.judge(max(mean_of(rows, "storage", kind, RELOC, sigma) for sigma in sigmas) / Field().storage),
            rules.never.judge(_overfull(rows, kind)),
        )
    return Outcome(
        claims=tuple(claims),
        metrics=_metrics(rows, sigmas),
        tables={"locality": _table(rows)},
        figures={
            "figure10": draw_steps,
            "figure11": draw_methods,
            "figure12": draw_one_field,
            "figure13": draw_sizes,
            **{
                f"figure14-{kind}": partial(_draw, rows, kind, "sigma (km)", f"p = 2, K = 4; {_TITLES[kind]}")
                for kind in KINDS
            },
        },
    )


def measure_spool(settings: RunSettings, progress: Progress) -> Outcome:
    spools = _QUICK_SPOOLS if settings.quick else _SPOOLS
    rows = _measured(settings, progress, partial(_at_spool, spools))
    return Outcome(
        claims=tuple(
            rules.spools.judge(worst_ratio(rows, kind, "y_ms", (RELOC, THEIRS), spools))
            for kind, rules in _RULES.items()
        ),
        metrics=_metrics(rows, spools),
        tables={"spool": _table(rows)},
        figures={
            f"figure15-{kind}": partial(
                _draw, rows, kind, "messages of each client (p)", f"sigma = 5 km, K = 4; {title}"
            )
            for kind, title in _TITLES.items()
        },
    )


def measure_clusters(settings: RunSettings, progress: Progress) -> Outcome:
    sigmas = _QUICK_SIGMAS if settings.quick else _SIGMAS
    counts = _QUICK_CLUSTERS if settings.quick else _CLUSTERS
    rows = _measured(settings, progress, partial(_at_clusters, sigmas, counts))
    claims: list[Claim] = []
    for kind, rules in _RULES.items():
        by = {sigma: [mean_of(rows, "y_ms", kind, _label(sigma), x) for x in counts] for sigma in sigmas}
        claims += (
            rules.falls.judge(max(by[sigma][-1] / by[sigma][0] for sigma in sigmas if sigma in _LOCAL)),
            rules.flat.judge(max(max(by[sigma]) / min(by[sigma]) for sigma in sigmas if sigma in _WIDE)),
            rules.chosen.judge(max(_chosen_over_best(rows, kind, sigma) for sigma in sigmas)),
        )
    shown = [row for row in rows if row.x > 0.0]
    return Outcome(
        claims=tuple(claims),
        metrics={"best_k": {kind: _best_counts(rows, kind, sigmas, counts) for kind in KINDS}},
        tables={"clusters": _table(rows)},
        figures={
            f"figure16-{kind}": partial(_draw, shown, kind, "clusters (K)", f"RELOC, p = 2; {title}")
            for kind, title in _TITLES.items()
        },
    )


def _best_counts(rows: Sequence[Row], kind: str, sigmas: Sequence[float], counts: Sequence[float]) -> Metric:
    """The K with the least mean Y."""
    found = {}
    for sigma in sigmas:
        y_ms = [mean_of(rows, "y_ms", kind, _label(sigma), count) for count in counts]
        found[_label(sigma)] = int(counts[int(np.argmin(y_ms))])
    return found


def _measured(settings: RunSettings, progress: Progress, run: "partial[list[Row]]") -> list[Row]:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    found = map_seeds(partial(run, settings.followers), seeds, settings.jobs, progress, "fields")
    return [row for rows in found for row in rows]


def _at_sigma(sigmas: Sequence[float], followers: Path | None, seed: int) -> list[Row]:
    return [
        row
        for kind, shared in KINDS.items()
        for sigma in sigmas
        for row in rows_of((kind, seed, sigma), Field(sigma_km=sigma, shared=shared), followers)
    ]


def _at_spool(spools: Sequence[float], followers: Path | None, seed: int) -> list[Row]:
    return [
        row
        for kind, shared in KINDS.items()
        for spool in spools
        for row in rows_of((kind, seed, spool), Field(sigma_km=_SPREAD, spool=spool, shared=shared), followers)
    ]


def _label(sigma: float) -> str:
    return f"sigma {sigma:g} km"


def _at_clusters(sigmas: Sequence[float], counts: Sequence[float], followers: Path | None, seed: int) -> list[Row]:
    """Where x is 0, K was chosen among those that are tried by itself."""
    found: list[Row] = []
    for kind, shared in KINDS.items():
        for sigma in sigmas:
            area = drawn_area(Field(sigma_km=sigma, shared=shared), seed, following_in(followers))
            found += _by_clusters(Case(kind, seed, 0.0, _label(sigma)), area, counts)
    return found


def _by_clusters(case: Case, area: Area, counts: Sequence[float]) -> list[Row]:
    allocation, pattern = Allocation(), Pattern.of(area)
    related = relations_of(area, allocation.relations, allocation.factors)

    @cache
    def with_clusters(count: int) -> Row:
        return row_of(case._replace(x=count), area, allocated(area, allocation, related, count), pattern)

    chosen = chosen_clusters(lambda count: with_clusters(count).y_ms, len(area.servers))
    return [*(with_clusters(int(count)) for count in counts), with_clusters(chosen)._replace(x=0.0)]


def _chosen_over_best(rows: Sequence[Row], kind: str, sigma: float) -> float:
    mine = [row for row in rows if (row.kind, row.method) == (kind, _label(sigma))]
    ratios = [
        min(row.y_ms for row in mine if row.seed == seed and row.x == 0.0)
        / min(row.y_ms for row in mine if row.seed == seed and row.x > 0.0)
        for seed in sorted({row.seed for row in mine})
    ]
    return float(np.mean(ratios))


def _overfull(rows: Sequence[Row], kind: str) -> float:
    mine = [row.most_storage > Field().storage for row in rows if (row.kind, row.method) == (kind, RELOC)]
    return round(float(np.mean(mine)), 4)


def _metrics(rows: Sequence[Row], xs: Sequence[float]) -> dict[str, Metric]:
    """Means over seeds: of the fullest server's storage, and of Y beside RELOC's."""
    return {
        "fullest_server_of_reloc": {
            kind: {f"{x:g}": round(mean_of(rows, "most_storage", kind, RELOC, x), 1) for x in xs} for kind in KINDS
        },
        **{
            f"y_of_{name}_over_reloc": {
                kind: {f"{x:g}": round(worst_ratio(rows, kind, "y_ms", (method, (RELOC,)), (x,)), 4) for x in xs}
                for kind in KINDS
            }
            for name, method in (
                ("ours", OURS),
                ("one_client", CLIENT),
                ("ns", NS),
                ("otos", OTOS),
                ("otos_middle", MIDDLE),
            )
        },
    }


def _table(rows: Sequence[Row]) -> Table:
    return Table(Row._fields, tuple(tuple(row) for row in rows))


def _draw(rows: Sequence[Row], kind: str, label: str, title: str, figure: "Figure") -> None:
    field = Field()
    figure.suptitle(title)
    draw_panels([row for row in rows if row.kind == kind], label, (field.storage, field.compute), figure)


LOCALITY = Experiment(
    name="reloc.locality",
    paper="RELOC, Figures 10 to 14",
    summary="Clients nearer or farther from those they share topics with: RA, NS, OTOS, RELOC, and a search from there",
    expectations=tuple(each for rules in _RULES.values() for each in rules.locality),
    modes=("flow",),
    measure=measure_locality,
    options=("seeds", "followers"),
)
SPOOL = Experiment(
    name="reloc.spool",
    paper="RELOC, Figure 15",
    summary="Processors that keep more or fewer messages: who runs out of storage, and what it costs",
    expectations=tuple(rules.spools for rules in _RULES.values()),
    modes=("flow",),
    measure=measure_spool,
    options=("seeds", "followers"),
)
CLUSTERS = Experiment(
    name="reloc.clusters",
    paper="RELOC, Figure 16",
    summary="How many clusters RELOC divides the servers into, and choosing that by itself",
    expectations=tuple(each for rules in _RULES.values() for each in rules.clusters),
    modes=("flow",),
    measure=measure_clusters,
    options=("seeds", "followers"),
)
