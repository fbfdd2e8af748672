"""EP-8: swarms of drones fly over the zones of a city, and their topics follow them (ePulsar, section 5.8.1, Figure 8).

8 swarms of 8 drones over 4 zones. A swarm's leader publishes on one topic for the others, and they on another for the
leader; 40 ms are promised for both. A swarm that comes to another zone reaches its topics' broker only through the site
of that zone, which takes 44 ms; the loop finds the promise broken and moves the topics to the zone's own broker.

Virtual time: the paper's 200 messages a second of every drone, for five of its ten minutes unless `--duration` says
otherwise; in two, one in eight flights changed no zone. Live: real servers and clients on one machine, for as long, at
a rate that it can take, with all delays and the promise times 5: a machine that is late by some ms then does not decide
what is over the bound (`--scale 1` is the paper's). Where the machine has its processors taken away by its host (see
`live.stalls`), what was under way then is counted and not judged.
"""

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.heard import Heard
from nearcast.lab.live import uav as live
from nearcast.lab.promised import Episode, Observed, decisions_table, episodes
from nearcast.lab.uav import LOOP_S, RATE_HZ, SETTLE_S, SIZE_BYTES, Flight, topics_of
from nearcast.lab.virtual import uav as virtual
from nearcast.lab.workloads import swarms, zones

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "epulsar.uav"
_SWARMS, _ZONES = 8, 4
_BACK_S = 2 * LOOP_S
_RUN_S = 300.0
_LIVE_HZ = 3.0  # ten processes on two processors, and none of them late
_LIVE_SCALE = 5.0  # a virtual machine stands still for some 10 ms, often
_QUICK_S, _QUICK_HZ = 40.0, 20.0
_QUICK_CITY = 1 / 8  # of its size, so that zones change often enough in so short a time

OUTSIDE = Expectation(
    "EP-8",
    "windows over 40 ms (times the scale) that are not between a zone change and the end of its migration (the machine"
    " having its processors)",
    "== 0",
)
BACK = Expectation(
    "EP-8",
    "longest time from a zone change until a swarm's latency is under 40 ms (times the scale) again (s)",
    "<= 10",
)
HEARD = Expectation("EP-8", "share of deliveries during which the machine had its processors", ">= 0.5")
CHANGES = Expectation("EP-8", "zone changes", "> 0")
MISSING = Expectation("EP-8", "messages lost, repeated or out of order", "== 0")
REPORTS = Expectation("EP-8", "gaps and discontinuities reported", "== 0")


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    flight, facts = flight_of(settings)
    if settings.mode == "live":
        flown = live.fly(flight, settings.brokers or "nats", settings.seed, progress)
    else:
        flown = virtual.fly(flight, settings.seed, progress)
    found = judged(flight, flown, flown.heard)
    changes = sum(len(flight.causes_s(swarm)) - 1 for swarm in range(flight.swarms))
    return Outcome(
        claims=(
            OUTSIDE.judge(sum(each.outside for each in found)),
            HEARD.judge(round(len(flown.heard) / len(flown.whole), 4)),
            BACK.judge(round(max(each.over_s for each in found), 3)),
            CHANGES.judge(changes),
            MISSING.judge(flown.missing),
            REPORTS.judge(flown.reports),
        ),
        metrics={
            **facts,
            "run_s": flight.run_s,
            "rate_hz": flight.rate_hz,
            "rate_scale": round(flight.rate_hz / RATE_HZ, 4),
            "scale": flight.scale,
            "bound_ms": flight.bound_ms,
            "message_bytes": SIZE_BYTES,
            "window_s": flown.heard.window_s,
            "zone_changes": changes,
            "migrations": len(flown.migrations),
            "episodes_over_the_bound": sum(each.over_s > 0.0 for each in found),
            "median_back_s": _median([each.over_s for each in found if each.over_s]),
            "stalled_s": round(flown.stalled_s, 3),
            "held_up_by_stalls": flown.held_up,
            "outside_with_stalls": sum(each.outside for each in judged(flight, flown, flown.whole)),
            "longest_from_begun_to_told_s": _longest([each.told_s - each.begun_s for each in flown.migrations]),
            **flown.counts,
        },
        tables={
            "episodes": _episodes(found),
            "windows": _windows(flight, flown),
            **decisions_table(flown.decisions),
        },
        figures={"figure8": partial(_draw, flight, flown)},
    )


def flight_of(settings: RunSettings) -> tuple[Flight, dict[str, str | float]]:
    """What is flown, and what it was made of."""
    rng = np.random.default_rng((settings.seed, _SWARMS))
    run_s = settings.duration_s or (_QUICK_S if settings.quick else _RUN_S)
    rate_hz = settings.rate_hz or (_LIVE_HZ if settings.mode == "live" else _QUICK_HZ if settings.quick else RATE_HZ)
    cells = zones.built_in_cells(rng) if settings.data is None else zones.measured_cells(settings.data)
    city = zones.Zones.of(cells * (_QUICK_CITY if settings.quick else 1.0), _ZONES, rng)
    facts: dict[str, str | float] = {"cells": "built-in" if settings.data is None else "real"}
    if settings.recorded and settings.data is not None:
        tracks, factor = swarms.recorded(settings.data, city, _SWARMS, run_s)
        facts |= {"paths": "recorded", "stretched": round(factor, 1)}
    else:
        tracks = [swarms.random_waypoint(city, run_s, rng) for _ in range(_SWARMS)]
        facts |= {"paths": "random waypoint", "speed_m_s": swarms.SPEED_M_S}
    scale = settings.scale or (_LIVE_SCALE if settings.mode == "live" else 1.0)
    return Flight(swarms.crossings(tracks, city, run_s), run_s, rate_hz, _ZONES, _SWARMS, scale=scale), facts


def judged(flight: Flight, flown: Observed, heard: Heard) -> list[Episode]:
    """Every zone change of every topic's swarm, and what followed, by what was `heard`."""
    found = []
    for swarm in range(flight.swarms):
        for topic in topics_of(swarm):
            found += episodes(
                topic,
                flight.causes_s(swarm),
                heard.windows(topic),
                flown.migrations,
                bound_ms=flight.bound_ms,
                window_s=heard.window_s,
                settle_s=SETTLE_S,
                patience_s=_BACK_S,
            )
    return found


def _median(values: list[float]) -> float | None:
    return round(float(np.median(values)), 3) if values else None


def _longest(values: list[float]) -> float | None:
    known = [value for value in values if np.isfinite(value)]
    return round(max(known), 3) if known else None


def _episodes(found: list[Episode]) -> Table:
    """Of several migrations after one zone change, the last."""
    rows = []
    for each in found:
        last = each.migrations[-1] if each.migrations else None
        times = (last.begun_s, last.told_s, last.done_s) if last else ()
        told = [round(value - each.cause_s, 3) if np.isfinite(value) else None for value in times] or [None] * 3
        rows.append((each.topic, each.cause_s, round(each.over_s, 3), each.outside, len(each.migrations), *told))
    columns = ("topic", "at_s", "over_for_s", "outside", "migrations", "begun_after_s", "told_after_s", "done_after_s")
    return Table(columns, tuple(rows))


def _windows(flight: Flight, flown: Observed) -> Table:
    rows = []
    for topic in flight.topics:
        of = flown.heard.windows(topic)
        values = zip(of.at_s, of.count, of.p95_ms, of.max_ms, strict=True)
        rows += [
            (topic, round(float(at_s), 3), int(count), round(float(p95_ms), 3), round(float(max_ms), 3))
            for at_s, count, p95_ms, max_ms in values
        ]
    return Table(("topic", "at_s", "messages", "p95_ms", "max_ms"), tuple(rows))


def _draw(flight: Flight, flown: Observed, figure: "Figure") -> None:
    """As in the paper one topic a swarm: the leader's."""
    figure.set_size_inches(11.0, 1.5 * flight.swarms + 0.8)
    rows = figure.subplots(flight.swarms, 1, sharex=True)
    for swarm, axes in enumerate(rows):
        topic = topics_of(swarm)[0]
        of = flown.heard.windows(topic)
        if flown.held_up:
            whole = flown.whole.windows(topic)
            axes.plot(whole.at_s, whole.p95_ms, color="0.8", linewidth=1, label="p95, with the machine's stalls")
        axes.plot(of.at_s, of.p95_ms, color="tab:blue", linewidth=1, label="p95")
        axes.plot(of.at_s, of.max_ms, color="tab:blue", linewidth=0.5, alpha=0.4, label="highest")
        axes.axhline(
            flight.bound_ms, color="tab:red", linestyle="--", linewidth=1, label=f"{flight.bound_ms:g} ms promised"
        )
        for number, at_s in enumerate(flight.causes_s(swarm)[1:]):
            axes.axvline(at_s, color="black", linestyle=":", linewidth=1, label=None if number else "zone change")
        told = [each.told_s for each in flown.migrations if each.topic == topic and np.isfinite(each.told_s)]
        axes.plot(told, [0.1 * flight.bound_ms] * len(told), "^", color="tab:green", markersize=6, label="migrated")
        axes.set_ylim(0, 2 * flight.bound_ms)
        axes.set_xlim(0, flight.run_s)
        axes.set_ylabel(f"swarm {swarm}\n(ms)", fontsize="small")
    rows[0].set_title(f"latency of each swarm's follow_leader, {flight.rate_hz:g} msg/s a drone")
    handles, labels = max((axes.get_legend_handles_labels() for axes in rows), key=lambda found: len(found[1]))
    rows[0].legend(handles, labels, loc="upper right", fontsize="x-small", ncols=5)
    rows[-1].set_xlabel("time (s)")


EXPERIMENT = Experiment(
    name=NAME,
    paper="ePulsar, section 5.8.1",
    summary="swarms of drones fly from zone to zone: how late their messages are, and how soon topics follow",
    expectations=(OUTSIDE, HEARD, BACK, CHANGES, MISSING, REPORTS),
    modes=("virtual", "live"),
    measure=measure,
    options=("data", "duration", "rate", "scale", "recorded", "brokers"),
)
