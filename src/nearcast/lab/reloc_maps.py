"""Fields as RELOC draws them: clients, servers and homes on a map, and below it what servers store and compute
(Figures 10 to 13). The fields are those of its Table 1, drawn with one seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.area import Area
from nearcast.domain.places import Floats, Ints
from nearcast.lab.reloc import CLUSTERS, NS, OTOS, RA, RELOC, homes_by
from nearcast.lab.workloads.field import MS_PER_KM, Field, drawn_area
from nearcast.policies.settings import Allocation
from nearcast.predict.homed import delay_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SEED = 8
_CLIENTS = 7
_TABLE_1 = Field(topics=1, sigma_km=10.0, spool=1.0, storage=7.0, compute=20.0)
_MANY = Field(topics=5, sigma_km=1.0)
_S_PER_KM = MS_PER_KM / 1e3


def draw_steps(figure: Figure) -> None:
    """Figure 10: one topic, with one step of RELOC after the other switched on; the last as the pseudocode has it, and
    as the text does.
    """
    area = _seven(_TABLE_1)
    steps = {
        "locality": Allocation(clusters=CLUSTERS, relation=False, cooperation=False),
        "locality, relation": Allocation(clusters=CLUSTERS, cooperation=False),
        "and cooperation: one client": Allocation(clusters=CLUSTERS, moves="client"),
        "and cooperation: all publishers": Allocation(clusters=CLUSTERS),
    }
    homes = {name: homes_by(RELOC, area, allocation) for name, allocation in steps.items()}
    _draw_homes(area, homes, "One topic (A = 7, B = 20, p = 1, sigma = 10 km, K = 4)", figure)


def _seven(field: Field) -> Area:
    """A topic of seven clients: one that just fits into a server that stores 7."""
    areas = (drawn_area(field, seed) for seed in count(_SEED))
    return next(area for area in areas if len(area.clients) == _CLIENTS)


def draw_methods(figure: Figure) -> None:
    """Figure 11: the same topic by every method."""
    area = _seven(replace(_TABLE_1, storage=10.0, compute=50.0))
    allocation = Allocation(clusters=CLUSTERS, seed=_SEED)
    homes = {method: homes_by(method, area, allocation) for method in (RA, NS, OTOS, RELOC)}
    _draw_homes(area, homes, "One topic (A = 10, B = 50, p = 1, sigma = 10 km, K = 4)", figure)


def draw_one_field(figure: Figure) -> None:
    """Figures 9 and 12: five topics that share clients, and five that do not, with RELOC's homes."""
    figure.set_size_inches(11.0, 5.5)
    for axes, (title, shared) in zip(
        figure.subplots(1, 2), (("topics share clients", True), ("no client has two topics", False)), strict=True
    ):
        area = drawn_area(replace(_MANY, shared=shared), _SEED)
        _draw_map(axes, area, homes_by(RELOC, area, Allocation(clusters=CLUSTERS)))
        axes.set_title(title, fontsize="medium")
    _add_legend(figure)
    figure.suptitle("Homes by RELOC (5 topics, sigma = 1 km, p = 2, K = 4)")


def draw_sizes(figure: Figure) -> None:
    """Figure 13: how many clients topics have."""
    area = drawn_area(Field(), _SEED)
    axes = figure.add_subplot()
    sizes, topics = np.unique(np.bincount(area.topic), return_counts=True)
    axes.bar(sizes, topics, color="tab:blue")
    axes.set_xticks(np.arange(0, sizes.max() + 1, 3))
    axes.set_xlabel("clients of a topic")
    axes.set_ylabel("topics")
    axes.set_title(f"{len(area.spool)} topics, {len(area.clients)} clients", fontsize="medium")


def _draw_homes(area: Area, homes: Mapping[str, Ints], title: str, figure: Figure) -> None:
    figure.set_size_inches(4.0 * len(homes), 8.2)
    panels = figure.subplots(3, len(homes), sharey="row", height_ratios=(4, 1, 1), squeeze=False)
    for number, (name, home) in enumerate(homes.items()):
        found = delay_of(area, home)
        field, storage, load = panels[:, number]
        _draw_map(field, area, home)
        field.set_title(f"{name}\nY = {1e3 * found.y_s:.2f} ms", fontsize="medium")
        for axes, values, limit in ((storage, found.storage, area.storage[0]), (load, found.load, area.compute[0])):
            _draw_bars(axes, values, float(limit))
        load.set_xlabel("server, from below left")
    panels[0, 0].set_ylabel("km")
    panels[1, 0].set_ylabel("storage")
    panels[2, 0].set_ylabel("load")
    _add_legend(figure)
    figure.suptitle(title)


def _add_legend(figure: Figure) -> None:
    """Below the maps: there is a server in every corner."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))


def _draw_map(axes: Axes, area: Area, home: Ints) -> None:
    clients, servers = area.at.vec / _S_PER_KM, area.servers.vec / _S_PER_KM
    for at, to in zip(clients, servers[home], strict=True):
        axes.plot(*zip(at, to, strict=True), color="tab:gray", linewidth=0.6, zorder=1)
    axes.scatter(clients[:, 0], clients[:, 1], s=12, color="tab:blue", label="client", zorder=2)
    axes.scatter(
        servers[:, 0], servers[:, 1], s=40, marker="s", color="tab:orange", edgecolor="black", label="server", zorder=3
    )
    axes.set_xlim(0.0, 25.0)
    axes.set_ylim(0.0, 25.0)
    axes.set_aspect("equal")
    axes.set_xlabel("km")


def _draw_bars(axes: Axes, values: Floats, limit: float) -> None:
    axes.bar(np.arange(len(values)) + 1, values, color=np.where(values > limit, "tab:red", "tab:blue").tolist())
    axes.axhline(limit, color="black", linewidth=1)
    axes.annotate(f"{limit:g}", (1.01, limit), xycoords=("axes fraction", "data"), va="center", fontsize="x-small")
    axes.set_xticks(np.arange(1, len(values) + 1, 3))
