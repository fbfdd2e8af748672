"""ePulsar, section 5.6, Figure 6: what it costs to tell the control plane where the clients of topics are.

Live: real agents and clients; bytes are those of the sealed messages that agents send on the control bus. What is said
of a topic is of the same size however many clients it has. Beside it, what a policy that sees every client would need.
"""

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.monitored import Traffic, watch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "epulsar.monitoring"
_TOPICS = (4, 16, 64)
_CLIENTS = (2, 4, 8, 16, 32, 64)
_ROUNDS = 3
_QUICK_TOPICS = (4, 16)
_QUICK_CLIENTS = (2, 8, 32)
_QUICK_ROUNDS = 1

FLAT = Expectation(
    "EP-5", "bytes of agents' reports with the most clients per topic, over the fewest; the most", "< 1.1"
)
LINEAR = Expectation(
    "EP-5", "R2 of a line through the bytes of every client's place over clients; the least", ">= 0.99"
)
MORE = Expectation("EP-5", "bytes with every client's place, over all of ours, with the most clients; the least", "> 1")


def _measure(settings: RunSettings, progress: Progress) -> Outcome:
    topics, clients = (_QUICK_TOPICS, _QUICK_CLIENTS) if settings.quick else (_TOPICS, _CLIENTS)
    rounds = _QUICK_ROUNDS if settings.quick else _ROUNDS
    found = watch(settings.brokers or "nats", topics, clients, rounds, progress)
    by_topics = [list(mine) for _, mine in groupby(sorted(found, key=_order), lambda each: each.topics)]
    return Outcome(
        claims=(
            FLAT.judge(round(max(told(mine[-1]) / told(mine[0]) for mine in by_topics), 3)),
            LINEAR.judge(round(min(map(_straight, by_topics)), 4)),
            MORE.judge(round(min(every(mine[-1]) / _all_of_ours(mine[-1]) for mine in by_topics), 2)),
        ),
        metrics={
            "reports_of_load_every_s": 1,
            "reports_of_places_every_s": 5,
            "most_bytes_per_s": {
                "ours": round(max(map(_all_of_ours, found))),
                "every_client": round(max(map(every, found))),
            },
        },
        tables={
            "traffic": Table(
                (
                    "topics",
                    "clients_per_topic",
                    "load_bytes_per_s",
                    "place_bytes_per_s",
                    "change_bytes_per_s",
                    "every_client_bytes_per_s",
                ),
                tuple(_row(each) for each in sorted(found, key=_order)),
            )
        },
        figures={"figure6": partial(_draw, found)},
    )


def told(traffic: Traffic) -> float:
    """What our agents say at their intervals, in bytes a second."""
    return traffic.load_bytes_per_s + traffic.place_bytes_per_s


def every(traffic: Traffic) -> float:
    """What they would say with every client's place instead of middles."""
    return traffic.load_bytes_per_s + traffic.every_bytes_per_s


def _all_of_ours(traffic: Traffic) -> float:
    """Also what is said between the intervals, when clients are seen elsewhere: as often as they move, and as noise."""
    return told(traffic) + traffic.change_bytes_per_s


def _order(traffic: Traffic) -> tuple[int, int]:
    return traffic.topics, traffic.clients


def _straight(mine: list[Traffic]) -> float:
    clients, sizes = [each.clients for each in mine], [every(each) for each in mine]
    return float(np.corrcoef(clients, sizes)[0, 1] ** 2)


def _row(traffic: Traffic) -> tuple[int, int, float, float, float, float]:
    rates = (traffic.load_bytes_per_s, traffic.place_bytes_per_s, traffic.change_bytes_per_s, traffic.every_bytes_per_s)
    load, place, change, all_of_them = (round(each, 1) for each in rates)
    return traffic.topics, traffic.clients, load, place, change, all_of_them


def _draw(found: list[Traffic], figure: "Figure") -> None:
    axes = figure.add_subplot()
    for clients in sorted({each.clients for each in found}):
        mine = sorted((each for each in found if each.clients == clients), key=_order)
        topics = [each.topics for each in mine]
        (line,) = axes.plot(
            topics, [every(each) / 1e3 for each in mine], "s--", label=f"every client, {clients} a topic"
        )
        ours = [told(each) / 1e3 for each in mine]
        axes.plot(topics, ours, "o-", color=line.get_color(), label=f"nearcast, {clients} a topic")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted({each.topics for each in found}), minor=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("topics at the broker")
    axes.set_ylabel("reports to the control plane (kB/s)")
    axes.legend(fontsize="x-small", ncols=2)
    axes.set_title("Monitoring traffic of one broker (Figure 6)")


EXPERIMENT = Experiment(
    name=NAME,
    paper="ePulsar, section 5.6",
    summary="what agents tell the control plane of topics and their clients, beside every client's place",
    expectations=(FLAT, LINEAR, MORE),
    modes=("live",),
    measure=_measure,
    options=("brokers",),
)
