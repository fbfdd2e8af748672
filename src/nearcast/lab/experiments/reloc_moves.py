"""REL-7: homes change and delegate under traffic; nothing is lost, repeated or out of order.

Virtual time: every seed is a run of the production client, agent and coordinator in which most topics are homed,
clients change their homes, topics change their brokers, and homes begin and end to delegate; it ends in the history
checker. In every second seed topics are processed, at home or where that is delegated to.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from nearcast.control.rules import ALL_ON
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.experiments.dynamoth_reconfiguration import SeedRow, failed, row_of
from nearcast.lab.fanout import map_seeds
from nearcast.sim.reconfiguration import homed_scale, run_seed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "reloc.moves"
_SEEDS = 1000
_QUICK_SEEDS = 20
_BARRIER_OFF_SEEDS = 20
_BARRIER_OFF_BATCH = 4

LOST = Expectation("REL-7", "messages lost without a report", "== 0")
DUPLICATED = Expectation("REL-7", "messages delivered twice", "== 0")
REORDERED = Expectation("REL-7", "messages out of their publisher's order", "== 0")
FALSE_ALARMS = Expectation("REL-7", "gaps and discontinuities reported in runs without faults", "== 0")
BARRIER_OFF = Expectation("REL-7", "messages missing, reported or not, with the barrier off", "> 0")


class MovesRow(NamedTuple):
    judged: SeedRow
    homes: int
    processed: bool


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    found = map_seeds(partial(judge_seed, faults=settings.faults), seeds, settings.jobs, progress)
    rows = [each.judged for each in found]
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
            "published": sum(row.published for row in rows),
            "delivered": sum(row.delivered for row in rows),
            "moves": sum(row.moves for row in rows),
            "home_changes": sum(each.homes for each in found),
            "missing_but_reported": sum(row.covered for row in rows),
            "gaps": sum(row.gaps for row in rows),
            "discontinuities": sum(row.discontinuities for row in rows),
            "longest_pause_s": max(row.longest_pause_s for row in rows),
            "replay": [replay_command(row.seed, settings.faults) for row in rows if failed(row)],
        },
        tables={
            "seeds": Table(
                (*SeedRow._fields, *MovesRow._fields[1:]),
                tuple((*each.judged, *each[1:]) for each in found),
            )
        },
        figures={"pauses": partial(_draw_pauses, found)},
    )


def judge_seed(seed: int, *, faults: bool, without: str = "") -> MovesRow:
    scale = homed_scale(seed)
    rules = ALL_ON.without(without) if without else ALL_ON
    history = run_seed(seed, faults=faults, rules=rules, scale=scale)
    homes = sum(event[0] == "home" for event in history.events)
    return MovesRow(row_of(seed, history, faults=faults), homes, scale.processed)


def _missing_without_barrier(seeds: range, jobs: int, progress: Progress) -> int:
    judge = partial(judge_seed, faults=False, without="barrier")
    for first in range(0, len(seeds), _BARRIER_OFF_BATCH):
        batch = seeds[first : first + _BARRIER_OFF_BATCH]
        rows = map_seeds(judge, batch, jobs, progress, doing="seeds with the barrier off")
        if missing := sum(each.judged.lost + each.judged.covered for each in rows):
            return missing
    return 0


def replay_command(seed: int, faults: bool) -> str:
    return f"nearcast lab replay {NAME} --seed {seed}{' --faults' if faults else ''}"


def _draw_pauses(found: Sequence[MovesRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    kinds = {"processed": True, "not processed": False}
    pauses = [[each.judged.longest_pause_s for each in found if each.processed is kind] for kind in kinds.values()]
    axes.hist(pauses, bins=30, stacked=True, label=list(kinds))
    axes.set_xlabel("longest pause of any subscription (s)")
    axes.set_ylabel("seeds")
    axes.set_title(f"{len(found)} seeds, {sum(each.homes for each in found)} changes of homes")
    axes.legend()


EXPERIMENT = Experiment(
    name=NAME,
    paper="RELOC, sections 3 and 5",
    summary="homes change and delegate under traffic, clients joining and leaving, with or without faults",
    expectations=(LOST, DUPLICATED, REORDERED, FALSE_ALARMS, BARRIER_OFF),
    modes=("virtual",),
    measure=measure,
    options=("seeds", "faults"),
)
