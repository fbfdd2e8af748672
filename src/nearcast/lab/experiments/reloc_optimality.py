"""REL-4: how far RELOC, and the search that begins with it, are from the best homes there are (future work of seed
004).

Small fields, each solved exactly: as many topics, clients and servers as can be proved, with storage and compute so
short that some processing has to be delegated. K is chosen by itself. On fields of at most eight clients what was
proved is compared with every assignment there is.
"""

import itertools
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Floats
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.workloads.field import Field, drawn_area
from nearcast.policies.area_homes import by_proof, by_reloc, by_search, nearest, one_topic_one_server
from nearcast.policies.settings import Allocation
from nearcast.policies.ways import Ways
from nearcast.predict.homed import Pattern, delay_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEEDS, _QUICK_SEEDS = 60, 6
_MOST_CLIENTS = 10
_TRIED_CLIENTS = 7
_SMALL = Field(topics=3, servers=4, most_members=5, storage=12.0, compute=40.0)
_SIGMAS = (2.0, 5.0, 10.0)
_METHODS = ("nearest", "one_topic", "reloc", "search")

SMALLER = Expectation("REL-4", "mean gap to the optimum of the search over that of RELOC", "< 1")
RIGHT = Expectation("REL-4", "fields where trying everything finds less than was proved", "== 0")
ENOUGH = Expectation("REL-4", "fields that were solved exactly", ">= 50")


class Row(NamedTuple):
    seed: int
    sigma_km: float
    shared: bool
    clients: int
    theta: float
    exact_ms: float
    nearest_ms: float
    one_topic_ms: float
    reloc_ms: float
    search_ms: float
    tried_ms: float | None

    def gap(self, method: str) -> float:
        return float(getattr(self, f"{method}_ms") / self.exact_ms - 1.0)


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    rows = map_seeds(_row, range(settings.seed, settings.seed + count), settings.jobs, progress, "fields")
    gaps = {method: np.array([row.gap(method) for row in rows]) for method in _METHODS}
    tried = [row for row in rows if row.tried_ms is not None]
    return Outcome(
        claims=(
            SMALLER.judge(float(gaps["search"].mean() / gaps["reloc"].mean()) if gaps["reloc"].any() else None),
            RIGHT.judge(sum(row.tried_ms < row.exact_ms * (1.0 - 1e-6) for row in tried if row.tried_ms is not None)),
            *((ENOUGH.judge(len(rows)),) if not settings.quick else ()),
        ),
        metrics={
            "mean_gap": {method: round(float(gap.mean()), 4) for method, gap in gaps.items()},
            "worst_gap": {method: round(float(gap.max()), 4) for method, gap in gaps.items()},
            "optimal": {method: int((gap < 1e-6).sum()) for method, gap in gaps.items()},
            "fields": len(rows),
            "fields_tried_throughout": len(tried),
            "fields_that_delegate": sum(row.theta < 1.0 for row in rows),
        },
        tables={"fields": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"gaps": partial(_draw, gaps)},
    )


def _row(seed: int) -> Row:
    sigma_km, shared = _SIGMAS[seed % len(_SIGMAS)], seed % 2 == 0
    area = _small_area(sigma_km, shared, seed)
    allocation = Allocation()
    found = delay_of(area, by_proof(area, allocation))
    nearest_ms, one_topic_ms, reloc_ms, search_ms = (
        round(1e3 * delay_of(area, method(area, allocation)).y_s, 6)
        for method in (nearest, one_topic_one_server, by_reloc, by_search)
    )
    return Row(
        seed,
        sigma_km,
        shared,
        len(area.clients),
        round(float(found.theta.min()), 4),
        round(1e3 * found.y_s, 6),
        nearest_ms,
        one_topic_ms,
        reloc_ms,
        search_ms,
        round(1e3 * least_y_s(area), 6) if len(area.clients) <= _TRIED_CLIENTS else None,
    )


def _small_area(sigma_km: float, shared: bool, seed: int) -> Area:
    """The first field of this seed that has not too many clients."""
    field = Field(
        _SMALL.topics,
        _SMALL.servers,
        sigma_km,
        storage=_SMALL.storage,
        compute=_SMALL.compute,
        shared=shared,
        most_members=_SMALL.most_members,
    )
    areas = (drawn_area(field, 1000 * seed + number) for number in itertools.count())
    return next(area for area in areas if len(area.clients) <= _MOST_CLIENTS)


def least_y_s(area: Area) -> float:
    """Of every assignment; of the last client all servers at once."""
    servers, clients, pattern = len(area.servers), len(area.clients), Pattern.of(area)
    least = np.inf
    for homes in itertools.product(range(servers), repeat=clients - 1):
        ways = Ways(area, np.array((*homes, 0)), pattern)
        least = min(least, (ways.total_s() - float(ways.gains(clients - 1).max())) / ways.publications)
    return float(least)


def _draw(gaps: Mapping[str, Floats], figure: "Figure") -> None:
    axes = figure.add_subplot()
    names = {"nearest": "NS", "one_topic": "OTOS", "reloc": "RELOC", "search": "ours"}
    for method, gap in gaps.items():
        ordered = np.sort(100.0 * gap)
        axes.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", label=names[method])
    axes.set_xlabel("gap to the optimum (%)")
    axes.set_ylabel("share of fields with at most this gap")
    axes.set_xlim(left=-1.0)
    axes.set_ylim(0.0, 1.02)
    axes.legend()


EXPERIMENT = Experiment(
    name="reloc.optimality",
    paper="RELOC, section 8",
    summary="Small fields: how far RELOC and a search from there are from the exact optimum",
    expectations=(SMALLER, RIGHT, ENOUGH),
    modes=("flow",),
    measure=measure,
    options=("seeds",),
)
