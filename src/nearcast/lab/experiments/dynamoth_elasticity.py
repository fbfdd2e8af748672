"""DYN-5: servers come and go with the players: up to 800, down to 200, up to almost 600.

Flow level, policy `dynamoth`; the game and the fleet are those of `dynamoth_game`. The paper gives the numbers of
players and no times: here one joins a second, and three leave a second. Figure 7 is drawn for the first seed.

A reconfiguration is taken to last from the decision until its moves are over and the 10 s mean has forgotten them.
"""

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.experiments.dynamoth_game import AVERAGE_S, BOUND_MS, FLEET, SERVERS, Timeline, play, setting_of
from nearcast.lab.fanout import map_seeds
from nearcast.lab.workloads.schedule import Schedule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dynamoth.elasticity"
_SEEDS = 10
_QUICK_SEEDS = 3
_FULL_S, _LEAVE_S, _FEW_S, _RETURN_S, _BACK_S, _END_S = 780.0, 900.0, 1100.0, 1300.0, 1690.0, 1800.0
_TIDE = Schedule(
    ((0.0, 20), (_FULL_S, 800), (_LEAVE_S, 800), (_FEW_S, 200), (_RETURN_S, 200), (_BACK_S, 590), (_END_S, 590))
)

RISEN = Expectation("DYN-5", "servers at 800 players (fewest of a seed)", ">= 2")
FALLEN = Expectation("DYN-5", "servers given back by the end of 200 players (fewest of a seed)", ">= 1")
RETURNED = Expectation("DYN-5", "servers added again by the end of 590 players (fewest of a seed)", ">= 1")
WITHIN = Expectation("DYN-5", "share of the seconds outside reconfigurations with a mean response above 150 ms", "== 0")
SPIKES = Expectation(
    "DYN-5", "largest rise of the mean response (ms, 10 s after against 10 s before) when servers are released", "< 10"
)


class SeedRow(NamedTuple):
    seed: int
    servers_at_800: int
    servers_at_200: int
    servers_at_590: int
    rebalancings: int
    released: int
    seconds_over: int
    seconds_over_outside: int
    highest_ms: float
    highest_rise_on_release_ms: float


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    runs = map_seeds(partial(play, setting_of("dynamoth", _TIDE, settings)), seeds, settings.jobs, progress)
    rows = [row_of(*each) for each in zip(seeds, runs, strict=True)]
    outside = sum(int((~reconfiguring(run)).sum()) for run in runs)
    return Outcome(
        claims=(
            RISEN.judge(min(row.servers_at_800 for row in rows)),
            FALLEN.judge(min(row.servers_at_800 - row.servers_at_200 for row in rows)),
            RETURNED.judge(min(row.servers_at_590 - row.servers_at_200 for row in rows)),
            WITHIN.judge(round(sum(row.seconds_over_outside for row in rows) / outside, 5)),
            SPIKES.judge(max(row.highest_rise_on_release_ms for row in rows)),
        ),
        metrics={
            "seeds": count,
            "capacity_bytes_per_s": round(FLEET.capacity_bytes_per_s),
            "message_bytes": FLEET.message_bytes,
            "servers_at_800": round(float(np.mean([row.servers_at_800 for row in rows])), 2),
            "servers_at_200": round(float(np.mean([row.servers_at_200 for row in rows])), 2),
            "servers_at_590": round(float(np.mean([row.servers_at_590 for row in rows])), 2),
            "seconds_over_150_ms": sum(row.seconds_over for row in rows),
            "highest_mean_response_ms": max(row.highest_ms for row in rows),
        },
        tables={"seeds": Table(SeedRow._fields, tuple(tuple(row) for row in rows)), "seconds": _seconds(runs[0])},
        figures={"figure7": partial(_draw_figure7, runs[0], settings.seed)},
    )


def row_of(seed: int, run: Timeline) -> SeedRow:
    over = run.response_ms > BOUND_MS
    return SeedRow(
        seed,
        int(run.servers[int(_LEAVE_S)]),
        int(run.servers[int(_RETURN_S)]),
        int(run.servers[int(_END_S)]),
        len(run.rebalanced_s),
        len(run.released_s),
        int(over.sum()),
        int((over & ~reconfiguring(run)).sum()),
        round(float(run.response_ms.max()), 1),
        round(max((_rise_ms(run, at_s) for at_s in run.released_s), default=0.0), 1),
    )


def reconfiguring(run: Timeline) -> NDArray[np.bool_]:
    """The seconds in which a rebalancing was under way or still showed."""
    lasts_s = FLEET.reconfiguration_s + FLEET.linger_s + AVERAGE_S
    busy = np.zeros(len(run.at_s), dtype=np.bool_)
    for begun_s in run.rebalanced_s:
        busy |= (run.at_s >= begun_s) & (run.at_s <= begun_s + lasts_s)
    return busy


def _rise_ms(run: Timeline, decided_s: float) -> float:
    """By how much the mean response rose when this plan took effect."""
    effect_s = decided_s + FLEET.step_s + FLEET.reconfiguration_s
    before = (run.at_s >= decided_s - AVERAGE_S) & (run.at_s < decided_s)
    after = (run.at_s >= effect_s) & (run.at_s < effect_s + AVERAGE_S)
    return float(run.response_ms[after].mean() - run.response_ms[before].mean()) if after.any() else 0.0


def _seconds(run: Timeline) -> Table:
    columns = ("at_s", "players", "servers", "response_ms", "messages_hz", "mean_ratio", "busiest_ratio")
    rows = zip(*(getattr(run, name) for name in columns), strict=True)
    return Table(columns, tuple(tuple(round(float(value), 3) for value in row) for row in rows))


def _draw_figure7(run: Timeline, seed: int, figure: "Figure") -> None:
    figure.set_size_inches(8.0, 8.0)
    players, response = figure.subplots(2, 1, sharex=True)
    servers, messages = players.twinx(), response.twinx()
    drawn = players.plot(run.at_s, run.players, color="black", label="players")
    drawn += servers.plot(run.at_s, run.servers, color="tab:green", linestyle=":", label="servers")
    drawn += players.plot(run.rebalanced_s, [15.0] * len(run.rebalanced_s), "kD", markersize=4, label="rebalancing")
    players.set_ylabel("players")
    players.set_ylim(0, 1100)
    servers.set_ylabel("servers")
    servers.set_ylim(0, len(SERVERS) + 3)
    servers.legend(handles=drawn, loc="upper right", fontsize="small", ncols=3)
    players.set_title(f"dynamoth: servers follow the players (seed {seed})")
    drawn = response.plot(run.at_s, run.response_ms, color="tab:blue", label="mean response")
    drawn += [response.axhline(BOUND_MS, color="gray", linestyle="--", label=f"{BOUND_MS:.0f} ms")]
    drawn += messages.plot(run.at_s, run.messages_hz / 1000.0, color="tab:orange", linewidth=1, label="messages")
    drawn += response.plot(run.rebalanced_s, [4.0] * len(run.rebalanced_s), "kD", markersize=4, label="rebalancing")
    response.set_ylabel("mean response (ms)")
    response.set_ylim(0, max(200.0, 1.3 * float(run.response_ms.max())))
    response.set_xlabel("time (s)")
    messages.set_ylabel("outgoing messages (1000/s)")
    messages.set_ylim(0, 1.5 * float(run.messages_hz.max()) / 1000.0)
    messages.legend(handles=drawn, loc="upper right", fontsize="small", ncols=4)


EXPERIMENT = Experiment(
    name=NAME,
    paper="Dynamoth, section V-E",
    summary="players come, leave and come again; servers are rented and given back",
    expectations=(RISEN, FALLEN, RETURNED, WITHIN, SPIKES),
    modes=("flow",),
    measure=measure,
    options=("seeds", "latency_matrix", "popularity"),
)
