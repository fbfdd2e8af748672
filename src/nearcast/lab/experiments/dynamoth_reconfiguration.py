"""DYN-6: topics move, change strategy, and clients come and go; nothing is lost, repeated or out of order.

Virtual time: every seed is a run of the production client, agent and coordinator on a simulated network of its own, and
ends in the history checker. Live: one run on real servers, judged by the same checker.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from nearcast.control.rules import ALL_ON
from nearcast.control.timing import Timing
from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Cell, Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.live.run import LiveScale, play
from nearcast.sim.check import CheckResult, check
from nearcast.sim.history import History
from nearcast.sim.reconfiguration import Scale, grace_s, run_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dynamoth.reconfiguration"
_SEEDS = 1000
_QUICK_SEEDS = 50
_SCALES = {  # (faults, quick); with faults leases are short, or a run would take hours
    (False, False): LiveScale(fanout=200, moves=200, audiences=2, lease_s=Timing().lease_s),
    (False, True): LiveScale(fanout=50, moves=30),
    (True, False): LiveScale(fanout=200, moves=200, kills=50),
    (True, True): LiveScale(fanout=50, moves=30, kills=2),
}
_ROUNDS = 10
_QUICK_ROUNDS = 2
_ELASTIC_FANOUT = 100  # with new servers and all that listen coming to them, 200 are more than two cores can serve
_BARRIER_OFF_SEEDS = 40  # one in five shows what the barrier is for: as many as it takes, so many at most
_BARRIER_OFF_BATCH = 8

LOST = Expectation("DYN-6", "messages lost without a report", "== 0")
DUPLICATED = Expectation("DYN-6", "messages delivered twice", "== 0")
REORDERED = Expectation("DYN-6", "messages out of their publisher's order", "== 0")
FALSE_ALARMS = Expectation("DYN-6", "gaps and discontinuities reported in runs without faults", "== 0")
UNFINISHED = Expectation("DYN-6", "moves that did not end", "== 0")
DISPUTED = Expectation("DYN-6", "epochs that were written with two different routes", "== 0")
BARRIER_OFF = Expectation("DYN-6", "messages missing, reported or not, with the barrier off", "> 0")


class SeedRow(NamedTuple):
    seed: int
    published: int
    delivered: int
    lost: int
    covered: int
    duplicated: int
    reordered: int
    invented: int
    gaps: int
    discontinuities: int
    moves: int
    longest_pause_s: float


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    return (_measure_live if settings.mode == "live" else _measure_virtual)(settings, progress)


def _measure_live(settings: RunSettings, progress: Progress) -> Outcome:
    if settings.seeds is not None:
        raise ConfigError(f"{NAME} on real servers takes one seed, not a number of them: leave out --seeds")
    kind = settings.brokers or "nats"
    scale = _SCALES[settings.faults, settings.quick]
    if settings.elastic:
        fanout = min(scale.fanout, _ELASTIC_FANOUT)
        scale = replace(scale, fanout=fanout, rounds=_QUICK_ROUNDS if settings.quick else _ROUNDS)
    found = play(kind, scale, settings.seed, progress)
    checked = found.checked
    claims = [
        LOST.judge(len(checked.lost) + len(checked.invented)),
        DUPLICATED.judge(len(checked.duplicated)),
        REORDERED.judge(len(checked.reordered)),
        UNFINISHED.judge(len(found.unfinished)),
        DISPUTED.judge(found.disputed),
    ]
    if not settings.faults:
        claims.append(FALSE_ALARMS.judge(checked.gaps + checked.discontinuities))
    return Outcome(
        claims=tuple(claims),
        metrics={
            "brokers": kind,
            "servers": scale.servers,
            "fanout": scale.fanout,
            "moves": found.moves,
            "moves_refused": found.refused,
            "killed": found.killed,
            "brokers_removed": found.removed,
            "seconds": round(found.seconds, 1),
            "share_of_all_cores_used": round(found.busy, 3),
            **checked.counts(),
        },
        tables={"reports": _reports(found.history)},
    )


def _reports(history: History) -> Table:
    """What subscriptions were told. Of discontinuities, from when to when, in seconds of the run."""
    begun_s = history.events[0][1] if history.events else 0.0
    rows: list[tuple[Cell, ...]] = []
    for event in history.events:
        match event:
            case ("gap", at_s, subscription, topic, publisher, first, last):
                rows.append((round(at_s - begun_s, 3), "gap", subscription, topic, str(publisher), first, last))
            case ("discontinuity", at_s, subscription, topic, broker, from_s, to_s):
                times = (None if each is None else round(each - begun_s, 3) for each in (from_s, to_s))
                rows.append((round(at_s - begun_s, 3), "discontinuity", subscription, topic, broker, *times))
            case _:
                pass
    return Table(("at_s", "what", "subscription", "topic", "of", "first", "last"), tuple(rows))


def _measure_virtual(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    judge = partial(judge_seed, faults=settings.faults, elastic=settings.elastic)
    rows = map_seeds(judge, seeds, settings.jobs, progress)
    claims = [
        LOST.judge(sum(row.lost + row.invented for row in rows)),
        DUPLICATED.judge(sum(row.duplicated for row in rows)),
        REORDERED.judge(sum(row.reordered for row in rows)),
    ]
    if not settings.faults:
        claims.append(FALSE_ALARMS.judge(sum(row.gaps + row.discontinuities for row in rows)))
        claims.append(BARRIER_OFF.judge(_missing_without_barrier(seeds[:_BARRIER_OFF_SEEDS], settings.jobs, progress)))
    return Outcome(
        claims=tuple(claims),
        metrics={
            "seeds": count,
            "faults": settings.faults,
            "elastic": settings.elastic,
            "published": sum(row.published for row in rows),
            "delivered": sum(row.delivered for row in rows),
            "moves": sum(row.moves for row in rows),
            "missing_but_reported": sum(row.covered for row in rows),
            "gaps": sum(row.gaps for row in rows),
            "discontinuities": sum(row.discontinuities for row in rows),
            "longest_pause_s": max(row.longest_pause_s for row in rows),
            "replay": [replay_command(row.seed, settings.faults, settings.elastic) for row in rows if failed(row)],
        },
        tables={"seeds": Table(SeedRow._fields, tuple(tuple(row) for row in rows))},
        figures={"pauses": partial(_draw_pauses, rows)},
    )


def judge_seed(seed: int, *, faults: bool, elastic: bool = False) -> SeedRow:
    return _row(seed, faults=faults, without="", elastic=elastic)


def _missing_without_barrier(seeds: range, jobs: int, progress: Progress) -> int:
    for first in range(0, len(seeds), _BARRIER_OFF_BATCH):
        batch = seeds[first : first + _BARRIER_OFF_BATCH]
        rows = map_seeds(_judge_without_barrier, batch, jobs, progress, doing="seeds with the barrier off")
        if missing := sum(row.lost + row.covered for row in rows):
            return missing
    return 0


def _judge_without_barrier(seed: int) -> SeedRow:
    return _row(seed, faults=False, without="barrier")


def _row(seed: int, *, faults: bool, without: str, elastic: bool = False) -> SeedRow:
    rules = ALL_ON.without(without) if without else ALL_ON
    return row_of(seed, run_seed(seed, faults=faults, rules=rules, scale=Scale(elastic=elastic)), faults=faults)


def row_of(seed: int, history: History, *, faults: bool) -> SeedRow:
    result: CheckResult = check(history, grace_s=grace_s(faults))
    return SeedRow(
        seed,
        result.published,
        result.delivered,
        len(result.lost),
        len(result.covered),
        len(result.duplicated),
        len(result.reordered),
        len(result.invented),
        result.gaps,
        result.discontinuities,
        sum(event[0] == "move" and event[-1] == "told" for event in history.events),
        round(result.longest_pause_s, 6),
    )


def replay_command(seed: int, faults: bool, elastic: bool = False) -> str:
    return f"nearcast lab replay {NAME} --seed {seed}{' --faults' if faults else ''}{' --elastic' if elastic else ''}"


def failed(row: SeedRow) -> bool:
    return bool(row.lost or row.duplicated or row.reordered or row.invented)


def _draw_pauses(rows: Sequence[SeedRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    axes.hist([row.longest_pause_s for row in rows], bins=30)
    axes.set_xlabel("longest pause of any subscription (s)")
    axes.set_ylabel("seeds")
    axes.set_title(f"{len(rows)} seeds, {sum(row.moves for row in rows)} moves and strategy changes")


EXPERIMENT = Experiment(
    name=NAME,
    paper="Dynamoth, section IV",
    summary="random moves and strategy changes under traffic, clients joining and leaving, with or without faults",
    expectations=(LOST, DUPLICATED, REORDERED, FALSE_ALARMS, UNFINISHED, DISPUTED, BARRIER_OFF),
    modes=("virtual", "live"),
    measure=measure,
    options=("seeds", "faults", "elastic", "brokers"),
)
