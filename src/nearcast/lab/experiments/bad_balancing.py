"""What the experiments on balancing have in common: their tables and figures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.lab.balancing import NO_BALANCING, Case, Run
from nearcast.lab.experiment import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORT = {
    "random": "RND",
    "round-robin": "RR",
    "nearest": "NR",
    "least-loaded": "LL",
    NO_BALANCING: "no LB",
    "bad-ldm": "LDM",
    "bad-sdm": "SDM",
    "bad-groups": "groups",
}
_MB = 1e6


class CaseRow(NamedTuple):
    """One case of one seed; means are over the time after all have subscribed."""

    seed: int
    placement: str
    balancing: str
    alpha: float
    beta_bytes_per_s: float
    mean_max_load: float
    mean_cov: float
    last_cov: float
    mean_total_load: float
    moves: int
    moves_after: int
    first_plan_s: float | None
    last_plan_s: float | None
    shuffled_s: float | None
    most_homes: int
    fewest_homes: int


def balancing_of(case: Case) -> str:
    """As the paper calls it."""
    if case.policy == "bad-shuffle":
        return f"{case.balancing.scheme.upper()} + GSH"
    return SHORT[case.policy]


def label_of(case: Case) -> str:
    return f"{SHORT[case.placement]} + {balancing_of(case)}"


def row_of(seed: int, case: Case, run: Run, settled_s: float) -> CaseRow:
    """`settled_s`: from when on means are taken."""
    late = run.at_s >= settled_s
    moving = run.at_s[run.moved > 0]
    shuffled_s = float(run.at_s[run.shuffled][0]) if run.shuffled.any() else None
    after = run.at_s > (settled_s if shuffled_s is None else shuffled_s)
    return CaseRow(
        seed,
        case.placement,
        balancing_of(case),
        case.balancing.alpha,
        case.balancing.beta_bytes_per_s,
        round(float(run.max_load[late].mean()), 1),
        round(float(run.cov[late].mean()), 4),
        round(float(run.cov[-1]), 4),
        round(float(run.total[late].mean()), 1),
        int(run.moved.sum()),
        int(run.moved[after].sum()),
        float(moving[0]) if len(moving) else None,
        float(moving[-1]) if len(moving) else None,
        shuffled_s,
        int(run.placed.max()),
        int(run.placed.min()),
    )


def moves_after(run: Run, at_s: float) -> int:
    return int(run.moved[run.at_s > at_s].sum())


def case_table(rows: Sequence[CaseRow]) -> Table:
    return Table(CaseRow._fields, tuple(tuple(row) for row in rows))


def planning_table(runs: Mapping[str, Run]) -> Table:
    """Every planning of some runs, with the load of each broker."""
    brokers = next(iter(runs.values())).load.shape[1]
    columns = ("case", "at_s", "cov", "moved", *(f"load_{number + 1}" for number in range(brokers)))
    return Table(
        columns,
        tuple(
            (label, float(at_s), round(float(cov), 4), int(moved), *(round(float(each), 1) for each in load))
            for label, run in runs.items()
            for at_s, cov, moved, load in zip(run.at_s, run.cov, run.moved, run.load, strict=True)
        ),
    )


def draw_loads(runs: Mapping[str, Run], title: str, figure: "Figure") -> None:
    """A panel per case: the load of every broker over time, and below it how many subscribers moved."""
    figure.set_size_inches(4.2 * len(runs), 5.0)
    panels = figure.subplots(2, len(runs), sharex=True, sharey="row", height_ratios=(3, 1), squeeze=False)
    for number, (label, run) in enumerate(runs.items()):
        loads, moves = panels[:, number]
        for broker in range(run.load.shape[1]):
            loads.plot(run.at_s / 60, run.load[:, broker] / _MB, linewidth=1, label=f"broker {broker + 1}")
        loads.set_title(f"({number + 1}) {label}: {run.moved.sum():,} moves", fontsize="medium")
        small = np.where(run.shuffled, 0, run.moved)
        moves.bar(run.at_s / 60, small, width=0.15, color="tab:red", label="migrated")
        for at_s, count in zip(run.at_s[run.shuffled], run.moved[run.shuffled], strict=True):
            moves.axvline(at_s / 60, color="tab:purple", linestyle=":", label=f"shuffle: {count:,}")
        moves.set_ylim(bottom=0.0)
        moves.set_xlabel("time (min)")
        moves.legend(fontsize="x-small", loc="upper right")
    panels[0, 0].set_ylabel("load (MB/s)")
    panels[1, 0].set_ylabel("moves")
    panels[0, -1].legend(fontsize="x-small", loc="upper right", ncols=2)
    figure.suptitle(title)


def draw_measures(runs: Mapping[str, Run], title: str, figure: "Figure") -> None:
    """The largest load and cov over time, and all moves."""
    figure.set_size_inches(12.0, 3.8)
    load, cov, moves = figure.subplots(1, 3)
    for label, run in runs.items():
        load.plot(run.at_s / 60, run.max_load / _MB, linewidth=1, label=label)
        cov.plot(run.at_s / 60, run.cov, linewidth=1, label=label)
    load.set_ylabel("largest load (MB/s)")
    cov.set_ylabel("cov")
    # While the first few have subscribed cov is that of single subscribers: up to 2, and of no interest.
    cov.set_ylim(0.0, 1.3 * max(float(np.median(run.cov[run.cov > 0.0])) for run in runs.values()))
    for each in (load, cov):
        each.set_xlabel("time (min)")
        each.legend(fontsize="x-small")
    load.set_ylim(bottom=0.0)
    bars = moves.bar(list(runs), [int(run.moved.sum()) for run in runs.values()], color="tab:blue")
    moves.bar_label(bars, fontsize="small")
    moves.set_ylabel("subscribers moved")
    moves.tick_params(axis="x", labelsize="x-small")
    figure.suptitle(title)
