"""`dynamoth.overhead`: what the load analyzer costs the server beside it (Dynamoth, section III-A).

A server is given as much as it can deliver, over raw connections, beside clients of nearcast at their work; with the
analyzer on (clients count and tell, the agent asks the server for its counters, aggregates and reports) and off, in
turns. The ratio of a round compares two measurements that follow each other; the median of the rounds is judged.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Kind, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.overhead import OverheadFleet, OverheadRound, OverheadScale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "dynamoth.overhead"
_SCALE = OverheadScale()
_QUICK = OverheadScale(rounds=2, seconds=1.5, warm_up_s=0.5, clients=20, topics=10)
_KINDS: tuple[Kind, ...] = ("nats", "redis")

LEFT: dict[Kind, Expectation] = {
    kind: Expectation("DYN-7", f"{name}'s throughput with the analyzer on, as a part of that with it off", ">= 0.95")
    for kind, name in zip(_KINDS, ("NATS", "Redis"), strict=True)
}

Rounds = Mapping[Kind, Sequence[OverheadRound]]


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    scale = _QUICK if settings.quick else _SCALE
    kinds = _KINDS if settings.brokers is None else (settings.brokers,)
    found: dict[Kind, list[OverheadRound]] = {}
    for at, kind in enumerate(kinds):

        def done(number: int, at: int = at, kind: Kind = kind) -> None:
            progress(at * scale.rounds + number, len(kinds) * scale.rounds, f"rounds ({kind})")

        found[kind] = asyncio.run(_rounds(kind, scale, done))
    rows = [(kind, number, *_cells(each)) for kind, rounds in found.items() for number, each in enumerate(rounds)]
    return Outcome(
        claims=tuple(LEFT[kind].judge(median(each.ratio for each in rounds)) for kind, rounds in found.items()),
        metrics={
            "rounds": scale.rounds,
            "seconds": scale.seconds,
            "clients": scale.clients,
            "topics": scale.topics,
            **{kind: _metrics(rounds) for kind, rounds in found.items()},
        },
        tables={
            "rounds": Table(
                ("brokers", "round", "off_hz", "on_hz", "ratio", "server_cpu_on", "agent_cpu_on", "agent_cpu_off"),
                tuple(rows),
            )
        },
        figures={"ratios": partial(_draw, found)},
    )


async def _rounds(kind: Kind, scale: OverheadScale, done: Callable[[int], None]) -> list[OverheadRound]:
    found = []
    with tempfile.TemporaryDirectory(prefix="nearcast-lab-") as folder:
        state = Path(folder)
        async with (
            OverheadFleet(kind, scale, state / "off", analyzer=False) as off,
            OverheadFleet(kind, scale, state / "on", analyzer=True) as on,
        ):
            off.pause()
            on.pause()
            for number in range(scale.rounds):
                done(number)
                # Who goes first changes: what else the machine does falls on both alike.
                if number % 2:
                    with_it = await on.measure()
                    found.append(OverheadRound(await off.measure(), with_it))
                else:
                    found.append(OverheadRound(await off.measure(), await on.measure()))
    done(scale.rounds)
    return found


def _cells(one: OverheadRound) -> tuple[float, ...]:
    rates = (round(one.off.deliveries_hz, 1), round(one.on.deliveries_hz, 1), round(one.ratio, 4))
    return (*rates, round(one.on.server_cpu, 3), round(one.on.agent_cpu, 3), round(one.off.agent_cpu, 3))


def _metrics(rounds: Sequence[OverheadRound]) -> dict[str, Metric]:
    ratios = sorted(each.ratio for each in rounds)
    low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return {
        "ratio": round(median(ratios), 4),
        "ratio_min": round(ratios[0], 4),
        "ratio_quartiles": [round(low, 4), round(high, 4)],
        "ratio_max": round(ratios[-1], 4),
        "ratio_per_server_cpu": round(median(each.cpu_ratio for each in rounds), 4),
        "deliveries_hz_off": round(median(each.off.deliveries_hz for each in rounds), 1),
        "deliveries_hz_on": round(median(each.on.deliveries_hz for each in rounds), 1),
        "server_cpu_off": round(median(each.off.server_cpu for each in rounds), 3),
        "server_cpu_on": round(median(each.on.server_cpu for each in rounds), 3),
        "agent_cpu_off": round(median(each.off.agent_cpu for each in rounds), 4),
        "agent_cpu_on": round(median(each.on.agent_cpu for each in rounds), 4),
    }


def _draw(found: Rounds, figure: "Figure") -> None:
    axes = figure.add_subplot()
    for kind, rounds in found.items():
        axes.plot(range(1, len(rounds) + 1), [each.ratio for each in rounds], marker="o", label=kind)
    axes.axhline(0.95, linestyle="--", color="grey")
    axes.set_xlabel("round")
    axes.set_ylabel("throughput, analyzer on / off")
    axes.set_ylim(bottom=0)
    axes.legend()
    axes.set_title("what the load analyzer leaves of a server's throughput")


EXPERIMENT = Experiment(
    name=NAME,
    paper="Dynamoth, section III-A",
    summary="a server's throughput with the load analyzer on and off, in turns",
    expectations=tuple(LEFT.values()),
    modes=("live",),
    measure=measure,
    options=("brokers",),
)
