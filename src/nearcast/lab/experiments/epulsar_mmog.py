"""EP-9: players of a game in five cities go from group to group, and topics follow (ePulsar, section 5.8.2, Figure 9).

64 players, a topic for each one's avatar, 100 ms promised. A game server hears the avatars of all groups in which it
has a player; a player stays in a group for 30 to 60 s. Who joins changes which cities hear an avatar, and so where its
topic is best.

The paper's 300 updates a second of every avatar are scaled down: `rate_scale` says by how much, `--rate 300` takes
them all.
"""

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.heard import Floats
from nearcast.lab.live import mmog as live
from nearcast.lab.mmog import (
    BOUND_MS,
    CAPITAL,
    LOOP_S,
    RATE_HZ,
    SETTLE_S,
    SIZE_BYTES,
    Game,
    causes_s,
    line_of,
    topic_of,
)
from nearcast.lab.promised import Episode, Observed, decisions_table, episodes
from nearcast.lab.virtual import mmog as virtual
from nearcast.lab.workloads import cities, groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "epulsar.mmog"
_CITIES, _PLAYERS, _GROUPS = 5, 64, 8
_RUN_S = {"virtual": 300.0, "live": 180.0}
_RATE_HZ = {"virtual": 10.0, "live": 5.0}
_QUICK_S, _QUICK_HZ = 60.0, 4.0

WITHIN = Expectation("EP-9", "share of updates under 100 ms", ">= 0.99")
OUTSIDE = Expectation(
    "EP-9", "windows over 100 ms that are not between a regrouping and the end of its migration", "== 0"
)
MISSING = Expectation("EP-9", "updates lost, repeated or out of order", "== 0")
REPORTS = Expectation("EP-9", "gaps and discontinuities reported", "== 0")


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    game = game_of(settings)
    if settings.mode == "live":
        played = live.play(game, settings.brokers or "nats", settings.seed, progress)
    else:
        played = virtual.play(game, settings.seed, progress)
    found = judged(game, played)
    late_ms = np.concatenate([played.whole.late_ms(line) for line in game.lines])
    return Outcome(
        claims=(
            WITHIN.judge(round(float((late_ms < BOUND_MS).mean()), 6)),
            OUTSIDE.judge(sum(each.outside for each in found)),
            MISSING.judge(played.missing),
            REPORTS.judge(played.reports),
        ),
        metrics={
            "cities": list(game.cities),
            "latencies": _source(settings),
            "run_s": game.run_s,
            "rate_hz": game.rate_hz,
            "rate_scale": round(game.rate_hz / RATE_HZ, 4),
            "message_bytes": SIZE_BYTES,
            "regroupings": len(game.joinings) - _PLAYERS,
            "migrations": len(played.migrations),
            "updates": len(late_ms),
            "p50_ms": round(float(np.percentile(late_ms, 50)), 2),
            "p95_ms": round(float(np.percentile(late_ms, 95)), 2),
            "p99_ms": round(float(np.percentile(late_ms, 99)), 2),
            "highest_ms": round(float(late_ms.max()), 2),
            **played.counts,
        },
        tables={"spikes": _spikes(found), "windows": _windows(game, played), **decisions_table(played.decisions)},
        figures={"figure9": partial(_draw, game, played)},
    )


def _source(settings: RunSettings) -> str:
    if settings.latency_matrix is not None:
        return settings.latency_matrix.name
    return "built-in" if settings.data is None else "real"


def game_of(settings: RunSettings) -> Game:
    rng = np.random.default_rng((settings.seed, _PLAYERS))
    if settings.latency_matrix is not None:
        known = cities.read_matrix(settings.latency_matrix, CAPITAL)
    else:
        known = cities.built_in() if settings.data is None else cities.measured(settings.data)
    chosen = known.around(CAPITAL, _CITIES, rng)
    run_s = settings.duration_s or (_QUICK_S if settings.quick else _RUN_S[settings.mode])
    return Game(
        chosen.names,
        tuple(map(tuple, chosen.rtt_ms.tolist())),
        tuple((rng.permutation(_PLAYERS) % _CITIES).tolist()),
        groups.joinings(_PLAYERS, _GROUPS, run_s, rng),
        run_s,
        settings.rate_hz or (_QUICK_HZ if settings.quick else _RATE_HZ[settings.mode]),
    )


def judged(game: Game, played: Observed) -> list[Episode]:
    """Every avatar in every city that heard it: what followed each time when other cities came to hear it."""
    found = []
    for player, causes in enumerate(causes_s(game)):
        mine = [each for each in played.migrations if each.topic == topic_of(player)]
        for city in range(len(game.cities)):
            found += episodes(
                topic_of(player),
                causes,
                played.whole.windows(line_of(player, city)),
                mine,
                bound_ms=BOUND_MS,
                window_s=played.whole.window_s,
                settle_s=SETTLE_S,
                patience_s=2 * LOOP_S,
            )
    return found


def _spikes(found: list[Episode]) -> Table:
    rows = [
        (each.topic, each.cause_s, round(each.over_s, 3), each.outside, len(each.migrations))
        for each in found
        if each.over_s
    ]
    return Table(("topic", "regrouped_s", "over_for_s", "outside", "migrations"), tuple(rows))


def _windows(game: Game, played: Observed) -> Table:
    rows = []
    for player in range(len(game.city_of)):
        for city, name in enumerate(game.cities):
            of = played.whole.windows(line_of(player, city))
            values = zip(of.at_s, of.count, of.p95_ms, of.max_ms, strict=True)
            rows += [
                (topic_of(player), name, float(at_s), int(count), round(float(p95_ms), 3), round(float(max_ms), 3))
                for at_s, count, p95_ms, max_ms in values
            ]
    return Table(("topic", "heard_in", "at_s", "messages", "p95_ms", "max_ms"), tuple(rows))


def companions(game: Game, player: int) -> list[tuple[int, float, float]]:
    """(other, from, to): who was in the player's group, and when."""
    stays: dict[int, list[tuple[float, float, int]]] = {each: [] for each in range(len(game.city_of))}
    for each in stays:
        mine = [joining for joining in game.joinings if joining.player == each]
        ends_s = [after.at_s for _, after in pairwise(mine)] + [game.run_s]
        stays[each] = [(joining.at_s, end_s, joining.group) for joining, end_s in zip(mine, ends_s, strict=True)]
    found = []
    for from_s, to_s, group in stays[player]:
        for other, theirs in stays.items():
            for begin_s, end_s, where in theirs:
                if other != player and where == group and max(from_s, begin_s) < min(to_s, end_s):
                    found.append((other, max(from_s, begin_s), min(to_s, end_s)))
    return found


def _view(game: Game, played: Observed, player: int) -> list[tuple[Floats, Floats]]:
    """What a player hears of everybody in its group while they are in it: times, and the p95 of then."""
    found = []
    for other, from_s, to_s in companions(game, player):
        of = played.whole.windows(line_of(other, game.city_of[player]))
        inside = (of.at_s >= from_s) & (of.at_s < to_s)
        found.append((of.at_s[inside], of.p95_ms[inside]))
    return found


def _draw(game: Game, played: Observed, figure: "Figure") -> None:
    """The player who had the worst of it."""
    views = [_view(game, played, player) for player in range(len(game.city_of))]
    worst_ms = [max((float(p95_ms.max(initial=0.0)) for _, p95_ms in view), default=0.0) for view in views]
    shown = int(np.argmax(worst_ms))
    figure.set_size_inches(11.0, 4.5)
    axes = figure.add_subplot()
    for at_s, p95_ms in views[shown]:
        axes.plot(at_s, p95_ms, linewidth=1)
    axes.axhline(BOUND_MS, color="tab:red", linestyle="--", linewidth=1, label=f"{BOUND_MS:.0f} ms promised")
    own = [joining.at_s for joining in game.joinings if joining.player == shown and joining.at_s]
    for number, at in enumerate(own):
        axes.axvline(at, color="black", linestyle=":", linewidth=1, label=None if number else "goes to another group")
    axes.set_xlim(0, game.run_s)
    axes.set_ylim(0, 2.0 * BOUND_MS)  # a spike may be higher: the title says how high
    axes.set_xlabel("time (s)")
    axes.set_ylabel("p95 of updates (ms)")
    city = game.cities[game.city_of[shown]]
    axes.set_title(f"what a player in {city} hears of its group, a line each; at most {worst_ms[shown]:.0f} ms")
    axes.legend(loc="upper right", fontsize="small")


EXPERIMENT = Experiment(
    name=NAME,
    paper="ePulsar, section 5.8.2",
    summary="players in five cities go from group to group: how late each other's updates are",
    expectations=(WITHIN, OUTSIDE, MISSING, REPORTS),
    modes=("virtual", "live"),
    measure=measure,
    options=("data", "latency_matrix", "duration", "rate", "brokers"),
)
