"""Rule 3 of a move: why a subscriber lingers behind its last marker.

A server with several threads hands a message on to one connection after the other, and another connection's marker
meanwhile: at a large fan-out some subscribers get the marker first. Live, on one server; the second part is a run of
the whole protocol at the same fan-out, judged by the history checker.
"""

from typing import TYPE_CHECKING

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.overtaking import Overtaking, measure
from nearcast.lab.live.run import LiveScale, play

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dynamoth.linger"
_FANOUTS = (50, 200, 1000, 2000)
_QUICK_FANOUTS = (50, 200)
_TRIALS = 100
_QUICK_TRIALS = 30
_PAUSE_S = 0.05
_LINGER_S = 1.0  # Timing.linger_s, as it comes
_WHOLE = LiveScale(
    fanout=2000, moves=20, topics=2, clients=4, hot_rate=4.0, move_every_s=2.0, audiences=2, lease_s=20.0
)
_WHOLE_QUICK = LiveScale(fanout=100, moves=8, topics=2, clients=4)

OVERTAKEN = Expectation("DYN-6", "messages that their marker overtook, over all fan-outs, on NATS", "> 0")
LATEST = Expectation("DYN-6", "longest that an overtaken message came after its marker (s)", f"< {_LINGER_S}")
LOST = Expectation("DYN-6", "messages lost without a report at the largest fan-out, with the linger", "== 0")
REPEATED = Expectation("DYN-6", "messages delivered twice or out of order at the largest fan-out", "== 0")


def _measure(settings: RunSettings, progress: Progress) -> Outcome:
    kind = settings.brokers or "nats"
    fanouts, trials = (_QUICK_FANOUTS, _QUICK_TRIALS) if settings.quick else (_FANOUTS, _TRIALS)
    found = [measure(kind, fanout, trials, _PAUSE_S, progress) for fanout in fanouts]
    late_s = [each for one in found for each in one.late_s]
    whole = play(kind, _WHOLE_QUICK if settings.quick else _WHOLE, settings.seed, progress)
    checked = whole.checked
    claims = [
        LATEST.judge(max(late_s, default=0.0)),
        LOST.judge(len(checked.lost) + len(checked.invented)),
        REPEATED.judge(len(checked.duplicated) + len(checked.reordered)),
    ]
    if kind == "nats":
        claims.append(OVERTAKEN.judge(len(late_s)))
    return Outcome(
        claims=tuple(claims),
        metrics={"brokers": kind, "moves": whole.moves, "seconds": round(whole.seconds, 1), **checked.counts()},
        tables={
            "overtaken": Table(
                (
                    "fanout",
                    "trials",
                    "trials_overtaken",
                    "messages",
                    "messages_overtaken",
                    "median_late_ms",
                    "most_late_ms",
                ),
                tuple(_row(one) for one in found),
            )
        },
        figures={"overtaken": lambda figure: _draw(found, figure)},
    )


def _row(one: Overtaking) -> tuple[int, int, int, int, int, float | None, float | None]:
    late_ms = np.array(one.late_s) * 1e3
    median, most = (round(float(np.median(late_ms)), 3), round(float(late_ms.max()), 3)) if one.late_s else (None, None)
    return one.fanout, one.trials, one.overtaken, one.messages, len(one.late_s), median, most


def _draw(found: list[Overtaking], figure: "Figure") -> None:
    axes = figure.add_subplot()
    labels = [f"{one.fanout:,}" for one in found]
    axes.bar(labels, [100 * one.overtaken / one.trials for one in found])
    axes.set_xlabel("subscribers of the topic")
    axes.set_ylabel("bursts in which a marker\novertook a message (%)")
    axes.set_title("What a subscriber that leaves at its marker would miss")


EXPERIMENT = Experiment(
    name=NAME,
    paper="Dynamoth, section IV",
    summary="how often a marker overtakes the messages before it, by fan-out, and the whole protocol at the largest",
    expectations=(OVERTAKEN, LATEST, LOST, REPEATED),
    modes=("live",),
    measure=_measure,
    options=("brokers",),
)
