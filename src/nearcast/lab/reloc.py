"""What experiments on RELOC have in common: its methods, what is measured of them, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Ints
from nearcast.lab.workloads.field import MS_PER_KM, Field, Following, drawn_area, read_followers
from nearcast.policies.area_homes import at_random, by_reloc, nearest, one_topic_one_server
from nearcast.policies.reloc_search import searched
from nearcast.policies.settings import Allocation
from nearcast.predict.homed import Pattern, delay_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RA, NS, OTOS, RELOC, OURS = "RA", "NS", "OTOS", "RELOC", "ours"
MIDDLE = "OTOS, middle"  # at the server nearest to a topic's middle, which is stronger than what the paper shows
CLIENT = "RELOC, one client"  # the cooperation step moves one client, as the pseudocode has it
METHODS = (RA, NS, OTOS, MIDDLE, CLIENT, RELOC, OURS)
THEIRS = (RA, NS, OTOS)
KINDS = {"shared": True, "disjoint": False}
CLUSTERS = 4  # K of Table 2
_BAND = 1.96  # standard errors: 95 %


class Row(NamedTuple):
    """One method in one field. `x` is what the experiment varies; storage and load are of the mean server and of the
    fullest one, `km` of the mean client.
    """

    kind: str
    seed: int
    x: float
    method: str
    y_ms: float
    y1_ms: float
    y2_ms: float
    storage: float
    most_storage: float
    load: float
    most_load: float
    km: float
    theta: float
    delegated: float


def homes_by(method: str, area: Area, allocation: Allocation) -> Ints:
    """By one of the methods, but for ours, which begins with another's homes."""
    by: dict[str, Callable[[Area, Allocation], Ints]] = {
        RA: at_random,
        NS: nearest,
        OTOS: partial(one_topic_one_server, by_first=True),
        MIDDLE: one_topic_one_server,
        CLIENT: lambda area, allocation: by_reloc(area, replace(allocation, moves="client")),
        RELOC: by_reloc,
    }
    return by[method](area, allocation)


class Case(NamedTuple):
    """The first columns of a row."""

    kind: str
    seed: int
    x: float
    method: str


def row_of(case: Case, area: Area, home: Ints, pattern: Pattern) -> Row:
    found = delay_of(area, home, pattern)
    numbers = (
        1e3 * found.y_s,
        1e3 * found.y1_s,
        1e3 * found.y2_s,
        found.storage.mean(),
        found.storage.max(),
        found.load.mean(),
        found.load.max(),
        1e3 * found.home_s.mean() / MS_PER_KM,
        found.theta.min(),
        found.delegated,
    )
    return Row(*case, *(round(float(each), 5) for each in numbers))


def rows_of(case: tuple[str, int, float], field: Field, followers: Path | None) -> list[Row]:
    """Every method in the same field. `case`: its kind, seed, and what is varied."""
    kind, seed, x = case
    area = drawn_area(field, seed, following_in(followers))
    pattern, allocation = Pattern.of(area), Allocation(clusters=CLUSTERS, seed=seed)
    found, home = [], np.zeros(0, dtype=np.int64)
    for method in METHODS:
        # Ours begins where RELOC has ended.
        home = (
            searched(area, home, allocation.sweeps, pattern) if method == OURS else homes_by(method, area, allocation)
        )
        found.append(row_of(Case(kind, seed, x, method), area, home, pattern))
    return found


@cache
def following_in(followers: Path | None) -> Following | None:
    """None where a graph is drawn."""
    return None if followers is None else read_followers(followers)


def mean_of(rows: Sequence[Row], of: str, kind: str, method: str, x: float) -> float:
    found = [getattr(row, of) for row in rows if (row.kind, row.method, row.x) == (kind, method, x)]
    return float(np.mean(found)) if found else float("nan")


def worst_ratio(
    rows: Sequence[Row], kind: str, of: str, methods: tuple[str, Sequence[str]], xs: Sequence[float]
) -> float:
    """Of the means over seeds: the largest, over what was varied, of the first method's over the others' smallest."""
    one, others = methods
    return max(mean_of(rows, of, kind, one, x) / min(mean_of(rows, of, kind, other, x) for other in others) for x in xs)


PANELS = (
    ("storage", "storage of a server (messages)"),
    ("most_load", "load of the fullest server"),  # that of the mean server is the same whatever is done
    ("km", "way to the home (km)"),
    ("y_ms", "Y (ms)"),
    ("y1_ms", "Y1 (ms)"),
    ("y2_ms", "Y2 (ms)"),
)


def draw_panels(rows: Sequence[Row], label: str, limits: tuple[float, float], figure: Figure) -> None:
    """The six panels of Figures 14 to 16, a line per method, with 95 % of where the mean is."""
    figure.set_size_inches(12.0, 7.0)
    panels: Sequence[Axes] = figure.subplots(2, 3).ravel().tolist()
    methods = list(dict.fromkeys(row.method for row in rows))
    for axes, (of, name) in zip(panels, PANELS, strict=True):
        for method in methods:
            mine = [row for row in rows if row.method == method]
            xs = sorted({row.x for row in mine})
            values = [np.array([getattr(row, of) for row in mine if row.x == x]) for x in xs]
            mean = np.array([each.mean() for each in values])
            error = np.array([_BAND * each.std(ddof=1) / len(each) ** 0.5 if len(each) > 1 else 0.0 for each in values])
            (line,) = axes.plot(xs, mean, marker="o", markersize=3, linewidth=1, label=method)
            axes.fill_between(xs, mean - error, mean + error, alpha=0.2, color=line.get_color(), linewidth=0)
        axes.set_xlabel(label)
        axes.set_ylabel(name)
    for axes, limit, name in zip(panels, limits, "AB", strict=False):
        axes.axhline(limit, color="black", linewidth=1)
        axes.annotate(name, (1.01, limit), xycoords=("axes fraction", "data"), va="center", fontsize="small")
    ticks = sorted({row.x for row in rows})
    for axes in panels:
        axes.set_ylim(bottom=0.0)
        axes.set_xticks(ticks[:: 1 + len(ticks) // 10])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(methods))
