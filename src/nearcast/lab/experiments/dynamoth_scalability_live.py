"""`dynamoth.scalability` on real servers, scaled to one machine: three whose lines take 1.5 MB/s each.

3 updates a second and messages of 1,400 bytes, as at flow level; a player joins every 4 seconds, as fast for so few
as one a second is for the paper's. All three servers are there from the start, so that `hash` is the ring and
nothing else. What is carried is judged by the same rule: a mean response above 150 ms, averaged over 10 s, for longer
than 30 s is too much. The line between the servers and the players is the WAN emulator's; nothing else is limited.

On three servers a ring is nearly fair to 64 tiles that are alike, and little can be gained (1.1 times the players, by
the flow model). So this world has a market place: one hot spot, in the middle of the middle one of 49 tiles, to which
three walks in ten go. With `--popularity` it has 64 tiles without one, as unlike as real topics are.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Outcome, Progress, RunSettings, Table
from nearcast.lab.experiments.dynamoth_game import (
    BOUND_MS,
    FAILS_AT,
    MESSAGE_BYTES,
    Floats,
    carried,
    overwhelmed_at,
    setting_of,
)
from nearcast.lab.live.game import LiveGame, play_live
from nearcast.lab.live.players import SecondSeen
from nearcast.lab.workloads.schedule import Schedule
from nearcast.lab.workloads.tiles import World

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEEDS = 3
_SERVERS = 3
_LINE_BYTES_PER_S = 1.5e6
_POLICIES = {"dynamoth": "tab:blue", "hash": "tab:red"}
_MARKET = World(across=7, hot_share=0.3, hot_across=1)
_RAMP = Schedule(((0.0, 20), (720.0, 200)))
_QUICK_RAMP = Schedule(((0.0, 20), (180.0, 200)))

LIVE_RATIO = Expectation("DYN-3", "players carried live by three servers with dynamoth over with hash, mean", "> 1.3")

_Run = tuple[int, str, list[SecondSeen]]


def measure_live(settings: RunSettings, progress: Progress) -> Outcome:
    if settings.latency_matrix is not None:
        raise ConfigError("dynamoth.scalability has its players at one place when live: leave out --latency-matrix")
    seeds = range(settings.seed, settings.seed + (settings.seeds or (1 if settings.quick else _SEEDS)))
    runs: list[_Run] = []
    for seed in seeds:
        for policy in _POLICIES:
            game = _game(policy, settings)
            doing = partial(_told, progress, len(runs), len(seeds) * len(_POLICIES), f"seed {seed}, {policy}")
            runs.append((seed, policy, asyncio.run(play_live(game, seed, enough=overwhelmed, told=doing))))
    found = {(seed, policy): carried_by(seen) for seed, policy, seen in runs}
    ratios = [round(found[seed, "dynamoth"] / max(1, found[seed, "hash"]), 3) for seed in seeds]
    return Outcome(
        claims=(LIVE_RATIO.judge(round(float(np.mean(ratios)), 3)),),
        metrics={
            "brokers": settings.brokers or "redis",
            "servers": _SERVERS,
            "line_bytes_per_s": _LINE_BYTES_PER_S,
            "ratios": ratios,
            "players": {policy: [found[seed, policy] for seed in seeds] for policy in _POLICIES},
            "reports": {policy: sum(each.reports for _, by, seen in runs if by == policy for each in seen)
                        for policy in _POLICIES},
        },
        tables={
            "seconds": Table(
                ("seed", "policy", "at_s", "players", "published", "delivered", "response_ms", "reports"),
                tuple(
                    (seed, policy, each.at_s, each.players, each.published, each.delivered, round(ms, 2), each.reports)
                    for seed, policy, seen in runs
                    for each, ms in zip(seen, response_ms(seen).tolist(), strict=True)
                ),
            )
        },
        figures={"live": partial(_draw, runs, seeds.start)},
    )  # fmt: skip


def _game(policy: str, settings: RunSettings) -> LiveGame:
    schedule = _QUICK_RAMP if settings.quick else _RAMP
    return LiveGame(
        kind=settings.brokers or "redis",
        servers=_SERVERS,
        policy=policy,
        world=setting_of(policy, schedule, settings).world if settings.popularity else _MARKET,
        schedule=schedule,
        line_bytes_per_s=_LINE_BYTES_PER_S,
        fails_at=FAILS_AT,
        message_bytes=int(MESSAGE_BYTES),
    )


def response_ms(seen: Sequence[SecondSeen]) -> Floats:
    """The mean of every second; of one in which nobody heard from itself, that of the second before."""
    found, last = [], 0.0
    for each in seen:
        last = 1e3 * each.response_s / each.responses if each.responses else last
        found.append(last)
    return np.array(found)


def overwhelmed(seen: Sequence[SecondSeen]) -> bool:
    return bool(seen) and overwhelmed_at(response_ms(seen)) is not None


def carried_by(seen: Sequence[SecondSeen]) -> int:
    return carried(np.array([each.players for each in seen], dtype=np.float64), response_ms(seen))


def _told(progress: Progress, done: int, total: int, doing: str, last: SecondSeen) -> None:
    mean_ms = 1e3 * last.response_s / max(1, last.responses)
    progress(done, total, f"{doing}: {last.players} players, {mean_ms:.0f} ms")


def _draw(runs: list[_Run], seed: int, figure: "Figure") -> None:
    figure.set_size_inches(8.0, 6.0)
    response, delivered = figure.subplots(2, 1, sharex=True)
    for _, policy, seen in [run for run in runs if run[0] == seed]:
        color, at = _POLICIES[policy], [each.players for each in seen]
        response.plot(at, response_ms(seen), color=color, label=f"{policy} carries {carried_by(seen)}")
        delivered.plot(at, [each.delivered / 1000 for each in seen], color=color, linewidth=1, label=policy)
    response.axhline(BOUND_MS, color="black", linestyle="--", linewidth=1, label=f"{BOUND_MS:.0f} ms")
    response.set_yscale("log")
    response.set_ylabel("mean response (ms)")
    response.set_title(f"Players on {_SERVERS} real servers of {_LINE_BYTES_PER_S / 1e6:g} MB/s (seed {seed})")
    response.legend(loc="upper left", fontsize="small")
    delivered.set_ylabel("messages delivered (1000/s)")
    delivered.set_xlabel("players")
    delivered.legend(loc="upper left", fontsize="small")
