"""BAD-6, BAD-7: the simulation of BAD, section 6.2 (Figures 13 and 14).

10 brokers, 10,000 subscribers with 200,000 subscriptions whose rates rise and fall
(`nearcast.lab.workloads.fluctuating`), at their nearest broker at first. LDM with alpha from .05 to .2 and beta from
300 to 500 MB/s, of which .15 and .05 at 300 MB/s are the paper's, and a shuffle (GSH) once cov is above .3 and the mean
above 300 MB/s. Figures are those of the first seed; claims are judged over all seeds.

What a shuffle is followed by is LDM with alpha .15, as Algorithm 1 has it: it may move subscribers after the shuffle,
and does not need to if the claim holds. What thresholds do to cov is judged over the whole half hour, as Figure 14
shows it: beta decides when balancing begins, and once it has begun everywhere it makes no difference (`sweep.csv` has
both). In the last ten minutes, when all is settled, LDM at .05 has come to the shuffle's cov if it is not farther from
it than .02 (ours): Algorithm 1 stops as soon as cov is not above alpha, so by itself it does not come closer to 0.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nearcast.lab.balancing import NO_BALANCING, Case, Run, play
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.experiments.bad_balancing import (
    case_table,
    draw_loads,
    moves_after,
    planning_table,
    row_of,
)
from nearcast.lab.fanout import map_seeds
from nearcast.lab.workloads.fluctuating import END_S, LAST_SUBSCRIPTION_S, TICK_S, Fluctuating
from nearcast.policies.settings import Balancing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "bad.simulation"
_SEEDS = 5
_QUICK_SEEDS = 2
_SETTLED_S = LAST_SUBSCRIPTION_S + 60.0
_LAST_S = END_S - 600.0
_ALPHA, _SMALL_ALPHA = 0.15, 0.05
_ALPHAS = (0.05, 0.10, 0.15, 0.20)
_BETAS = (300e6, 400e6, 500e6)

_BARE = Case("nearest", NO_BALANCING, Balancing(_ALPHA, _BETAS[0]))
_SHUFFLE = Case("nearest", "bad-shuffle", Balancing(_ALPHA, _BETAS[0], gamma=0.3, theta_bytes_per_s=_BETAS[0]))
_SWEEP = {(alpha, beta): Case("nearest", "bad-ldm", Balancing(alpha, beta)) for alpha in _ALPHAS for beta in _BETAS}
_LDM, _FINE = _SWEEP[_ALPHA, _BETAS[0]], _SWEEP[_SMALL_ALPHA, _BETAS[0]]
_QUICK_SWEEP = {at: case for at, case in _SWEEP.items() if at[0] in {_SMALL_ALPHA, _ALPHA} and at[1] != _BETAS[1]}

AT_ONCE = Expectation("BAD-6", "cov after the shuffle, at its largest from then on (largest of seeds)", f"< {_ALPHA}")
NO_MOVE = Expectation("BAD-6", "moves after the shuffle (all seeds)", "== 0")
LATER = Expectation(
    "BAD-6", "how much later than the shuffle LDM made its last move (s; smallest of seeds, alpha .15)", "> 0"
)
SMALLER_COV = Expectation(
    "BAD-7", "steps to a smaller alpha or beta after which cov was higher (means over the half hour and seeds)", "== 0"
)
MORE_MOVES = Expectation(
    "BAD-7", "steps to a smaller alpha or beta after which there were fewer moves (means over seeds)", "== 0"
)
AS_GOOD = Expectation(
    "BAD-7", "cov of LDM at alpha .05 less that of GSH, in the last 10 min (mean over seeds)", "<= 0.02"
)


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    sweep = _QUICK_SWEEP if settings.quick else _SWEEP
    cases = (_BARE, _SHUFFLE, *sweep.values())
    played = map_seeds(partial(play, Fluctuating, cases, TICK_S, END_S), seeds, settings.jobs, progress)
    runs = [dict(zip(cases, each, strict=True)) for each in played]
    rows = [
        row_of(seed, case, run, _SETTLED_S)
        for seed, each in zip(seeds, runs, strict=True)
        for case, run in each.items()
    ]
    shuffled_s = [_shuffled_s(each) for each in runs]
    cov = {at: _mean([each[case].cov.mean() for each in runs]) for at, case in sweep.items()}
    moves = {at: _mean([each[case].moved.sum() for each in runs]) for at, case in sweep.items()}
    first = {"NR + no LB": _BARE, "NR + LDM": _LDM, "NR + GSH": _SHUFFLE}
    shown = {label: runs[0][case] for label, case in first.items()}
    return Outcome(
        claims=(
            AT_ONCE.judge(_most_after(runs, shuffled_s)),
            NO_MOVE.judge(_moves_after(runs, shuffled_s)),
            LATER.judge(_later_s(runs, shuffled_s)),
            SMALLER_COV.judge(_steps_against(cov, -1)),
            MORE_MOVES.judge(_steps_against(moves, 1)),
            AS_GOOD.judge(round(_last_cov(runs, _FINE) - _last_cov(runs, _SHUFFLE), 4)),
        ),
        metrics={
            "seeds": count,
            "subscriptions": len(Fluctuating(settings.seed).crowd.key),
            "homes_at_first": runs[0][_BARE].placed.tolist(),
            "shuffled_s": [at_s for at_s in shuffled_s if at_s is not None],
            "moves_of_the_shuffle": _mean([each[_SHUFFLE].moved[each[_SHUFFLE].shuffled].sum() for each in runs]),
            "cov_in_the_last_10_min": {
                "none": round(_last_cov(runs, _BARE), 4),
                "ldm_alpha_0.15": round(_last_cov(runs, _LDM), 4),
                "ldm_alpha_0.05": round(_last_cov(runs, _FINE), 4),
                "gsh": round(_last_cov(runs, _SHUFFLE), 4),
            },
            "ldm_alpha_0.05_share_of_what_gsh_takes_off_cov": round(
                (_last_cov(runs, _BARE) - _last_cov(runs, _FINE))
                / (_last_cov(runs, _BARE) - _last_cov(runs, _SHUFFLE)),
                3,
            ),
        },
        tables={
            "cases": case_table(rows),
            "plannings": planning_table(shown),
            "sweep": Table(
                ("alpha", "beta_bytes_per_s", "mean_cov", "mean_cov_in_the_last_10_min", "mean_moves"),
                tuple(
                    (*at, round(cov[at], 4), round(_last_cov(runs, case), 4), round(moves[at], 1))
                    for at, case in sweep.items()
                ),
            ),
        },
        figures={
            "figure13": partial(draw_loads, shown, f"Nearest broker, 10,000 subscribers (seed {settings.seed})"),
            "homes": partial(_draw_homes, shown),
            "figure14": partial(_draw_sweep, runs[0], moves, settings.seed),
        },
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _shuffled_s(runs: Mapping[Case, Run]) -> float | None:
    found = runs[_SHUFFLE].at_s[runs[_SHUFFLE].shuffled]
    return float(found[0]) if len(found) else None


def _most_after(runs: Sequence[Mapping[Case, Run]], shuffled_s: Sequence[float | None]) -> float | None:
    """None when a seed had no shuffle."""
    found = []
    for each, at_s in zip(runs, shuffled_s, strict=True):
        if at_s is None:
            return None
        found.append(float(each[_SHUFFLE].cov[each[_SHUFFLE].at_s > at_s].max()))
    return round(max(found), 4)


def _moves_after(runs: Sequence[Mapping[Case, Run]], shuffled_s: Sequence[float | None]) -> int | None:
    found = 0
    for each, at_s in zip(runs, shuffled_s, strict=True):
        if at_s is None:
            return None
        found += moves_after(each[_SHUFFLE], at_s)
    return found


def _later_s(runs: Sequence[Mapping[Case, Run]], shuffled_s: Sequence[float | None]) -> float | None:
    found = []
    for each, at_s in zip(runs, shuffled_s, strict=True):
        moving = each[_LDM].at_s[each[_LDM].moved > 0]
        if at_s is None or not len(moving):
            return None
        found.append(float(moving[-1]) - at_s)
    return min(found)


def _steps_against(found: Mapping[tuple[float, float], float], sign: int) -> int:
    """How many steps from a threshold to the next smaller one, the other one as it is, change it the other way."""
    alphas, betas = (sorted({at[which] for at in found}) for which in (0, 1))
    pairs = [((small, beta), (large, beta)) for small, large in pairwise(alphas) for beta in betas]
    pairs += [((alpha, small), (alpha, large)) for small, large in pairwise(betas) for alpha in alphas]
    return sum(sign * (found[smaller] - found[larger]) < 0.0 for smaller, larger in pairs)


def _last_cov(runs: Sequence[Mapping[Case, Run]], case: Case) -> float:
    return _mean([each[case].cov[each[case].at_s >= _LAST_S].mean() for each in runs])


def _draw_homes(runs: Mapping[str, Run], figure: "Figure") -> None:
    figure.set_size_inches(4.2 * len(runs), 3.6)
    for axes, (label, run) in zip(figure.subplots(1, len(runs), sharey=True), runs.items(), strict=True):
        axes.bar(np.arange(len(run.homes)) + 1, run.homes, color="tab:blue")
        axes.set_title(f"{label}: subscribers in the end", fontsize="medium")
        axes.set_xlabel("broker")
        axes.set_ylabel("subscribers")


def _draw_sweep(
    runs: Mapping[Case, Run], moves: Mapping[tuple[float, float], float], seed: int, figure: "Figure"
) -> None:
    figure.set_size_inches(11.0, 4.2)
    cov, bars = figure.subplots(1, 2)
    drawn = {"no LB": _BARE, "GSH": _SHUFFLE} | {
        f"LDM, alpha {alpha:g}, beta {beta / 1e6:.0f} MB/s": _SWEEP[alpha, beta]
        for alpha, beta in ((0.05, 300e6), (0.15, 300e6), (0.05, 500e6), (0.15, 500e6))
    }
    for label, case in drawn.items():
        cov.plot(runs[case].at_s / 60, runs[case].cov, linewidth=1, label=label)
    cov.set_title(f"(1) cov (seed {seed})", fontsize="medium")
    cov.set_xlabel("time (min)")
    cov.set_ylabel("cov")
    cov.set_ylim(0.0, 1.5)
    cov.legend(fontsize="x-small")
    alphas, betas = (sorted({at[which] for at in moves}) for which in (0, 1))
    width = 0.8 / len(betas)
    at = np.arange(len(alphas))
    for number, beta in enumerate(betas):
        heights = [moves[alpha, beta] for alpha in alphas]
        bars.bar(at + number * width, heights, width, label=f"beta {beta / 1e6:.0f} MB/s")
    bars.set_xticks(at + width * (len(betas) - 1) / 2, [f"{alpha:g}" for alpha in alphas])
    bars.set_title("(2) subscribers moved by LDM (mean over seeds)", fontsize="medium")
    bars.set_xlabel("alpha")
    bars.legend(fontsize="x-small")


EXPERIMENT = Experiment(
    name=NAME,
    paper="BAD, section 6.2",
    summary="10,000 subscribers on 10 brokers whose rates rise and fall: shuffle, migration, and its thresholds",
    expectations=(AT_ONCE, NO_MOVE, LATER, SMALLER_COV, MORE_MOVES, AS_GOOD),
    modes=("flow",),
    measure=measure,
    options=("seeds",),
)
