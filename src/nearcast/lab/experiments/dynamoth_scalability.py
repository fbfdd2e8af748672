"""DYN-3 and DYN-4: more and more players on up to eight servers, under `dynamoth` and under elastic hashing.

Flow level. 120 players at first and one more every second up to 1,200, 3 updates a second each; the game and the fleet
are those of `dynamoth_game`. Figures 5 and 6 of the paper are drawn for the first seed.

Carried are the players that were there before the mean response, averaged over 10 s, rose above 150 ms for longer than
30 s: what a rebalancing mends within that time is a spike, as in the paper.

Saturated is the whole when players ask for more than eight servers are configured to send; no placement of topics, were
it perfect at every moment, can carry more players than fill the eight lines (`most_players`).

There are two baselines, because the paper's text and the code that its authors published differ: see
`dynamoth_published_hash`. The text's, `hash`, spreads topics fairly over all servers and is the stronger one.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.experiments import dynamoth_published_hash
from nearcast.lab.experiments.dynamoth_game import (
    BOUND_MS,
    FLEET,
    MESSAGE_BYTES,
    SERVERS,
    Timeline,
    play,
    scaled,
    setting_of,
    smooth,
)
from nearcast.lab.experiments.dynamoth_scalability_live import LIVE_RATIO, measure_live
from nearcast.lab.fanout import map_seeds
from nearcast.lab.workloads.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "dynamoth.scalability"
_SEEDS = 10
_QUICK_SEEDS = 3
_OURS, _BASELINE, _PUBLISHED = "dynamoth", "hash", dynamoth_published_hash.NAME
_RAMP = Schedule(((0.0, 120), (1080.0, 1200)))
# With real popularity a few tiles draw most players, and 120 of them are too many for the one server of the beginning.
_RAMP_FROM_FEW = Schedule(((0.0, 12), (1188.0, 1200)))
# Colour, mark of a rebalancing, and the height at which those marks are drawn, per policy.
_STYLES = (("tab:blue", "D", 8.0), ("tab:red", "o", 13.0), ("tab:gray", "s", 21.0))
# Servers of these sizes carry 0.71 and 1.41 of the players: the ramp is as long in each case, and ends accordingly.
_SCALES = ((0.5, Schedule(((0.0, 85), (764.0, 849)))), (2.0, Schedule(((0.0, 170), (1527.0, 1697)))))

RATIO = Expectation("DYN-3", "players carried with dynamoth over players carried with hash, mean over seeds", ">= 1.60")
RATIO_PUBLISHED = Expectation(
    "DYN-3", "the same over hashing by the rule of the authors' published code, mean over seeds", ">= 1.60"
)
REUSED = Expectation(
    "DYN-3", "rebalancings that added no server, before the last one was added (fewest of a seed)", ">= 1"
)
AVERAGE = Expectation("DYN-4", "largest average load ratio before the whole was saturated (10 s means)", "< 1")
BUSIEST = Expectation("DYN-4", "share of that time in which the busiest server's load ratio was below 1", ">= 0.9")


class SeedRow(NamedTuple):
    seed: int
    dynamoth_players: int
    hash_players: int
    published_players: int
    ratio: float | None
    ratio_published: float | None
    dynamoth_rebalancings: int
    hash_rebalancings: int
    reused: int
    added_at_ratio: float
    saturated_players: int
    most_players: int
    average_ratio_max: float
    busiest_below_1: float


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    return measure_live(settings, progress) if settings.mode == "live" else _measure_flow(settings, progress)


def _measure_flow(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    ramp = _RAMP_FROM_FEW if settings.popularity else _RAMP
    ours, baseline, published = (
        map_seeds(partial(play, setting_of(policy, ramp, settings)), seeds, settings.jobs, progress, doing=policy)
        for policy in (_OURS, _BASELINE, _PUBLISHED)
    )
    rows = [row_of(*each) for each in zip(seeds, ours, baseline, published, strict=True)]
    first = {_OURS: ours[0], _BASELINE: baseline[0], _PUBLISHED: published[0]}
    return Outcome(
        claims=(
            RATIO.judge(_mean(row.ratio for row in rows)),
            RATIO_PUBLISHED.judge(_mean(row.ratio_published for row in rows)),
            REUSED.judge(min(row.reused for row in rows)),
            AVERAGE.judge(max(row.average_ratio_max for row in rows)),
            BUSIEST.judge(_mean(row.busiest_below_1 for row in rows)),
        ),
        metrics={
            "seeds": count,
            "servers": len(SERVERS),
            "capacity_bytes_per_s": round(FLEET.capacity_bytes_per_s),
            "message_bytes": MESSAGE_BYTES,
            "dynamoth_players": _mean(row.dynamoth_players for row in rows),
            "hash_players": _mean(row.hash_players for row in rows),
            "hash_published_players": _mean(row.published_players for row in rows),
            "saturated_players": _mean(row.saturated_players for row in rows),
            "most_players_of_any_placement": _mean(row.most_players for row in rows),
            "most_ratio_of_any_placement": _mean(_ratio(row.most_players, row.hash_players) for row in rows),
            "seeds_overloaded_from_the_start": sum(row.ratio is None for row in rows),
            "lowest_mean_ratio_when_a_server_was_added": min(row.added_at_ratio for row in rows),
            "subscribers_cut_off": {name: round(run.disconnected) for name, run in first.items()},
            "smallest_ratio": min((row.ratio for row in rows if row.ratio is not None), default=None),
            "largest_ratio": max((row.ratio for row in rows if row.ratio is not None), default=None),
            "scale": [] if settings.quick else _at_other_scales(settings, progress),
        },
        tables={
            "seeds": Table(SeedRow._fields, tuple(tuple(row) for row in rows)),
            "seconds": _seconds(first),
        },
        figures={
            "figure5": partial(_draw_figure5, first, settings.seed),
            "figure6": partial(_draw_figure6, ours[0], settings.seed),
            "ratios": partial(_draw_ratios, rows),
        },
    )


def row_of(seed: int, ours: Timeline, baseline: Timeline, published: Timeline) -> SeedRow:
    full_hz = len(SERVERS) * FLEET.capacity_bytes_per_s / MESSAGE_BYTES
    until = _first(ours.offered_hz >= full_hz)
    no_more = _first(ours.offered_hz >= full_hz * FLEET.line_ratio)
    mean_ratio = smooth(ours.mean_ratio)
    last_added_s = max(ours.rented_s, default=0.0)
    return SeedRow(
        seed,
        ours.carried,
        baseline.carried,
        published.carried,
        _ratio(ours.carried, baseline.carried),
        _ratio(ours.carried, published.carried),
        len(ours.rebalanced_s),
        len(baseline.rebalanced_s),
        sum(at_s < last_added_s and at_s not in ours.rented_s for at_s in ours.rebalanced_s),
        round(min((float(mean_ratio[int(at_s)]) for at_s in ours.rented_s), default=0.0), 3),
        int(ours.players[until - 1]),
        int(ours.players[no_more - 1]),
        round(float(mean_ratio[:until].max()), 3),
        round(float((ours.busiest_ratio[:until] < 1.0).mean()), 3),
    )


def _first(happens: NDArray[np.bool_]) -> int:
    """The index of the first second in which it happens; behind the last if it never does."""
    found = np.flatnonzero(happens)
    return int(found[0]) if len(found) else len(happens)


def _at_other_scales(settings: RunSettings, progress: Progress) -> list[dict[str, float | None]]:
    """The ratio with servers of half and of double the bandwidth, for the first seed: the scale hardly matters."""
    found: list[dict[str, float | None]] = []
    for factor, ramp in _SCALES:
        ours, baseline = (
            play(scaled(setting_of(policy, ramp, settings), factor), settings.seed).carried
            for policy in (_OURS, _BASELINE)
        )
        found.append(
            {"bandwidth": factor, "dynamoth_players": ours, "hash_players": baseline, "ratio": _ratio(ours, baseline)}
        )
        progress(len(found), len(_SCALES), "other bandwidths")
    return found


def _seconds(runs: dict[str, Timeline]) -> Table:
    columns = ("policy", "at_s", "players", "response_ms", "messages_hz", "servers", "mean_ratio", "busiest_ratio")
    return Table(
        columns,
        tuple(
            (policy, *(round(float(value), 3) for value in row))
            for policy, run in runs.items()
            for row in zip(*(getattr(run, name) for name in columns[1:]), strict=True)
        ),
    )


def _draw_figure5(runs: dict[str, Timeline], seed: int, figure: "Figure") -> None:
    figure.set_size_inches(8.0, 10.0)
    players, messages, response = figure.subplots(3, 1, sharex=True)
    servers = messages.twinx()
    players.plot(runs[_OURS].at_s, runs[_OURS].players, color="black", label="players")
    for (name, run), (color, marker, height_ms) in zip(runs.items(), _STYLES, strict=True):
        players.axhline(run.carried, color=color, linestyle="--", linewidth=1, label=f"{name} carries {run.carried}")
        messages.plot(run.at_s, run.messages_hz / 1000.0, color=color, linewidth=1, label=f"{name}: messages")
        servers.plot(run.at_s, run.servers, color=color, linestyle=":", label=f"{name}: servers")
        response.plot(run.at_s, run.response_ms, color=color, label=name)
        marks = [height_ms] * len(run.rebalanced_s)
        response.plot(run.rebalanced_s, marks, marker, color=color, markersize=4, label=f"{name}: rebalancing")
    players.set_title(f"Players join; dynamoth and elastic hashing on up to {len(SERVERS)} servers (seed {seed})")
    players.set_ylabel("players")
    players.legend(loc="upper left", fontsize="small")
    messages.set_ylabel("outgoing messages (1000/s)")
    servers.set_ylabel("servers")
    servers.set_ylim(0, len(SERVERS) + 1)
    _legend(messages, servers)
    response.axhline(BOUND_MS, color="black", linestyle="--", linewidth=1, label=f"{BOUND_MS:.0f} ms")
    response.set_yscale("log")
    response.set_ylim(5.0, None)
    response.set_ylabel("mean response (ms)")
    response.set_xlabel("time (s)")
    response.legend(loc="upper left", fontsize="small")


def _draw_figure6(ours: Timeline, seed: int, figure: "Figure") -> None:
    axes = figure.add_subplot()
    axes.plot(ours.at_s, ours.busiest_ratio, color="tab:orange", linewidth=1, label="busiest server")
    axes.plot(ours.at_s, ours.mean_ratio, color="tab:blue", label="mean of active servers")
    axes.plot(ours.rebalanced_s, [0.03] * len(ours.rebalanced_s), "D", color="black", markersize=4, label="rebalancing")
    axes.axhline(1.0, color="gray", linestyle="--", linewidth=1)
    axes.set_ylim(0.0, 1.3)
    axes.set_xlabel("time (s)")
    axes.set_ylabel("load ratio")
    servers = axes.twinx()
    servers.plot(ours.at_s, ours.servers, color="tab:green", linestyle=":", label="servers")
    servers.set_ylim(0, len(SERVERS) + 2)
    servers.set_ylabel("servers")
    _legend(axes, servers)
    axes.set_title(f"dynamoth: load of the servers as players join (seed {seed})")


def _draw_ratios(rows: Sequence[SeedRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    at = np.arange(len(rows))
    axes.bar(at - 0.27, [row.dynamoth_players for row in rows], 0.27, label=_OURS, color="tab:blue")
    axes.bar(at, [row.hash_players for row in rows], 0.27, label=_BASELINE, color="tab:red")
    axes.bar(at + 0.27, [row.published_players for row in rows], 0.27, label=_PUBLISHED, color="tab:gray")
    for x, row in zip(at.tolist(), rows, strict=True):
        bars = ((x, row.hash_players, row.ratio), (x + 0.27, row.published_players, row.ratio_published))
        for place, players, ratio in bars:
            axes.annotate(_shown(ratio), (place, players), ha="center", va="bottom", fontsize="x-small")
    axes.set_xticks(at, [str(row.seed) for row in rows])
    axes.set_xlabel("seed")
    axes.set_ylabel(f"players carried at a mean response up to {BOUND_MS:.0f} ms")
    axes.set_ylim(0, 1.25 * max(1, *(row.dynamoth_players for row in rows)))
    axes.legend(loc="upper right", ncols=3)
    over_hash, over_published = _mean(row.ratio for row in rows), _mean(row.ratio_published for row in rows)
    axes.set_title(
        f"{len(SERVERS)} servers; above a bar: how many times as many dynamoth carries\n"
        f"(mean: {_shown(over_hash)} times {_BASELINE}, {_shown(over_published)} times {_PUBLISHED})",
        fontsize="medium",
    )


def _ratio(players: int, others: int) -> float | None:
    """None where one of them was overloaded from the start, which says nothing of how they compare."""
    return round(players / others, 3) if players and others else None


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of what could be measured."""
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 3) if known else None


def _shown(ratio: float | None) -> str:
    return "?" if ratio is None else f"{ratio:.2f}"


def _legend(first: "Axes", second: "Axes") -> None:
    """One legend for two axes on the same place, drawn above both."""
    handles = [first.get_legend_handles_labels(), second.get_legend_handles_labels()]
    second.legend(handles[0][0] + handles[1][0], handles[0][1] + handles[1][1], loc="upper left", fontsize="small")


EXPERIMENT = Experiment(
    name=NAME,
    paper="Dynamoth, section V-D",
    summary="players join a tile game until eight servers are full; how many are carried, against elastic hashing",
    expectations=(RATIO, RATIO_PUBLISHED, REUSED, AVERAGE, BUSIEST, LIVE_RATIO),
    modes=("flow", "live"),
    measure=measure,
    options=("seeds", "latency_matrix", "popularity", "brokers"),
)
