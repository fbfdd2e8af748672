"""EP-11: acknowledged means there. Section 3.5 of ePulsar: the log is at the broker's own site, on distinct racks.

Live: two sites of three NATS servers, a topic with three replicas, three publishers and a reader. Servers are killed
(-9) and started again: the broker that clients are connected to, and who leads the topic's segment, in turn; another
replica; and whoever has a part in a move, while the topic moves to the other site. After every kill the histories of
the reader, and of one that begins at the first message, are judged by the checker over all that has been published so
far.
"""

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, get_args

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.persistent import Kind, Round, Sites, Traffic, kill_once

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "epulsar.persistent"
KINDS: tuple[Kind, ...] = get_args(Kind)
_KILLS = 50
_QUICK_KILLS = 2
_WHAT = {
    "broker": "kills of the broker",
    "replica": "kills of a replica",
    "move": "kills in the middle of a move",
}

LOST = {
    kind: Expectation("EP-11", f"acknowledged messages lost: {what}, live and replayed", "== 0")
    for kind, what in _WHAT.items()
}
REPEATED = {
    kind: Expectation("EP-11", f"messages read twice or out of their publisher's order: {what}", "== 0")
    for kind, what in _WHAT.items()
}
REPORTED = Expectation("EP-11", "gaps and discontinuities told, with no retention", "== 0")


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    kills = settings.seeds or (_QUICK_KILLS if settings.quick else _KILLS)
    rounds = asyncio.run(_run(kills, random.Random(settings.seed), progress))
    by_kind = {kind: [each for each in rounds if each.kind == kind] for kind in KINDS}
    checks = {kind: [check for each in found for check in (each.live, each.replay)] for kind, found in by_kind.items()}
    return Outcome(
        claims=(
            *(LOST[kind].judge(max(len(each.lost) + len(each.covered) for each in checks[kind])) for kind in KINDS),
            *(
                REPEATED[kind].judge(
                    max(len(each.duplicated) + len(each.reordered) + len(each.invented) for each in checks[kind])
                )
                for kind in KINDS
            ),
            REPORTED.judge(max(each.gaps + each.discontinuities for found in checks.values() for each in found)),
        ),
        metrics={
            "kills": {kind: len(found) for kind, found in by_kind.items()},
            "acknowledged": {kind: found[-1].acknowledged for kind, found in by_kind.items()},
            "unconfirmed": {kind: found[-1].unconfirmed for kind, found in by_kind.items()},
            "longest_pause_s": {kind: round(max(each.pause_s for each in found), 2) for kind, found in by_kind.items()},
        },
        tables={
            "rounds": Table(
                ("kind", "round", "killed", "acknowledged", "unconfirmed", "pause_s", "lost", "repeated", "reordered"),
                tuple(_row(each) for each in rounds),
            )
        },
        figures={"pauses": partial(_draw, by_kind)},
    )


async def _run(kills: int, rng: random.Random, progress: Progress) -> list[Round]:
    rounds: list[Round] = []
    async with Sites.running() as sites:
        for kind in KINDS:
            async with Traffic.on(sites, f"kept-{kind}") as traffic:
                for number in range(kills):
                    progress(len(rounds), len(KINDS) * kills, _WHAT[kind])
                    rounds.append(await kill_once(sites, traffic, kind, number, rng))
    return rounds


def _row(each: Round) -> tuple[str | int | float, ...]:
    checks = (each.live, each.replay)
    lost, repeated, reordered = (
        sum(len(getattr(check, name)) for check in checks) for name in ("lost", "duplicated", "reordered")
    )
    pause_s = round(each.pause_s, 3)
    counts = (each.acknowledged, each.unconfirmed, pause_s, lost, repeated, reordered)
    return (each.kind, each.number, each.killed, *counts)


def _draw(by_kind: dict[Kind, list[Round]], figure: "Figure") -> None:
    axes = figure.subplots()
    for kind, found in by_kind.items():
        pauses_s = sorted(each.pause_s for each in found)
        shares = [(at + 1) / len(pauses_s) for at in range(len(pauses_s))]
        axes.step(pauses_s, shares, where="post", marker=".", label=f"{_WHAT[kind]} ({len(found)})")
    axes.set_xlabel("longest time without an acknowledgement (s)")
    axes.set_ylabel("share of kills")
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.05)
    axes.set_title("a server is killed (-9) under traffic: how long nothing was acknowledged")
    axes.legend(loc="lower right", fontsize="small")


EXPERIMENT = Experiment(
    name=NAME,
    paper="ePulsar, section 3.5",
    summary="servers of persistent topics are killed, with and without a move; what was acknowledged is there, once",
    expectations=(*LOST.values(), *REPEATED.values(), REPORTED),
    modes=("live",),
    measure=measure,
    options=("seeds",),
)
