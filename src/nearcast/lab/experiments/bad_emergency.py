"""BAD-1, BAD-2: the prototype of BAD, section 6.1, live: what every subscriber is told, and what brokers carry.

Five real brokers, one pipeline on Spark, 400 real subscribers in the city of `nearcast.lab.workloads.emergencies`, with
everything as in the paper but time, which goes four times as fast: 10,000 reports and every user's place come over
HTTP, seven channels run every 2.5, 5 and 7.5 s. A tenth of the subscribers is offline for a while. Everybody comes to
the broker that is nearest in the city, and `bad-ldm` evens out what follows, every 5 s. With `--faults` the pipeline is
killed (-9) in the middle of three executions, and a broker, an agent and both coordinators once each.

BAD-1 is judged by an oracle in plain Python (`nearcast.lab.emergency_oracle`): every notification of every subscriber,
row by row. BAD-2 compares equation 5 with the servers' own counters: the bytes of every result, once into a broker for
all who follow it there and once out for each, and once in and out for whoever was offline when it was made, beside what
the server counted in and out meanwhile, less what it counts while there are no results. That is what subscribers say
every few seconds to keep their leases, nearly all of it, so it counts by how many of them were at the broker.
"""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nearcast.lab.claim import Expectation
from nearcast.lab.emergency import channel_name
from nearcast.lab.emergency_oracle import Followed, Heard, Oracle, Verdict
from nearcast.lab.experiment import Experiment, Metric, Outcome, Progress, RunSettings, Table
from nearcast.lab.live.committed import VERSION
from nearcast.lab.live.emergency import EmergencySpec, Lived, live_through
from nearcast.lab.live.residents import Away, Got, Lost, Stay, Subscribed
from nearcast.lab.workloads.emergencies import PAPER, Size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "bad.emergency"
_COMPRESS = 4.0
_QUICK = Size(subscribers=40, reports=800, last_login_s=10.0, last_subscription_s=20.0, end_s=110.0)
_QUICK_COMPRESS = 2.0
_IDLE_S, _QUICK_IDLE_S = 30.0, 10.0
_SPANS = (50, 95, 99)

MISSED = Expectation("BAD-1", "notifications that a subscriber should have had and had not", "== 0")
REPEATED = Expectation("BAD-1", "notifications that a subscriber had twice", "== 0")
WRONG = Expectation("BAD-1", "notifications with other rows than they should have, or for nobody", "== 0")
REPORTED = Expectation("BAD-1", "notifications that subscribers were told they cannot have", "== 0")
CAUGHT_UP = Expectation("BAD-1", "notifications made while their subscriber was offline, and delivered later", "> 0")
ONCE = Expectation("BAD-1", "reports that are in the dataset not at all, or more often than once", "== 0")
SHARED = Expectation("BAD-1", "distinct subscriptions over all (paper: some 600 of some 2,200)", "<= 0.33")
LOAD = Expectation(
    "BAD-2", "how far F_j is from the bytes that the server counted (the largest, as a share)", "<= 0.05"
)


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    size, compress = (_QUICK, _QUICK_COMPRESS) if settings.quick else (PAPER, _COMPRESS)
    spec = EmergencySpec(
        Stay(settings.seed, size, compress),
        settings.brokers or "nats",
        settings.faults,
        idle_s=_QUICK_IDLE_S if settings.quick else _IDLE_S,
    )
    lived = live_through(spec, progress)
    verdict = _judged(lived)
    loads = _loads(lived)
    got = [each for each in lived.events if isinstance(each, Got)]
    late_s = np.array([each.at_s - each.executed_s for each in got])
    claims = [
        MISSED.judge(verdict.missed),
        REPEATED.judge(verdict.repeated),
        WRONG.judge(verdict.wrong),
        REPORTED.judge(sum(isinstance(each, Lost) for each in lived.events)),
        CAUGHT_UP.judge(_caught_up(lived)),
        ONCE.judge(_not_once(lived)),
    ]
    if not settings.quick:  # of few people fewer ask the same
        claims.append(SHARED.judge(round(_distinct(lived) / max(1, verdict.subscriptions), 3)))
    if not settings.faults:  # a server that was killed counts from 0 again
        claims.append(LOAD.judge(round(max(abs(load / counted - 1) for load, counted in loads.values()), 4)))
    return Outcome(
        claims=tuple(claims),
        metrics={
            "compress": compress,
            "subscribers": size.subscribers,
            "subscriptions": verdict.subscriptions,
            "distinct": _distinct(lived),
            "notifications_due": verdict.due,
            "notifications": verdict.heard,
            "executions": {channel_name(number): len(each) for number, each in lived.executions.items()},
            "execution_s": _execution_times(lived),
            "from_execution_to_subscriber_s": {f"p{each}": _share(late_s, each) for each in _SPANS},
            "cov": {"first": _cov(lived, first=True), "last": _cov(lived, first=False)},
            "killed": lived.killed,
            "requests_repeated": lived.repeated_requests,
            "not_as_it_should_be": verdict.examples,
        },
        tables={
            "loads": Table(
                ("broker", "f_bytes", "counted_bytes", "idle_bytes_per_s"),
                tuple(
                    (broker, round(load), round(counted), round(_idle(lived, broker), 1))
                    for broker, (load, counted) in sorted(loads.items())
                ),
            ),
            "executions": Table(
                ("channel", "execution", "at_s", "rows", "keys", "took_s", "late_s"),
                tuple(
                    (
                        channel_name(number),
                        each.number,
                        round(each.at_s - lived.begin_s, 3),
                        each.rows,
                        each.keys,
                        each.took_s,
                        each.late_s,
                    )
                    for number, executions in lived.executions.items()
                    for each in executions
                ),
            ),
        },
        figures={
            "balance": partial(_draw_balance, lived),
            "loads": partial(_draw_loads, lived),
            "delays": partial(_draw_delays, got),
        },
    )


def _judged(lived: Lived) -> Verdict:
    city = lived.city
    reports = {number: city.report(number) for number in range(len(city.emergencies.sent_s))}
    users: dict[str, list[tuple[int, tuple[float, float]]]] = defaultdict(list)
    for row in lived.users:
        users[str(row["id"])].append((row[VERSION], (row["lat"], row["lon"])))
    oracle = Oracle(
        reports,
        city.shelters(),
        [(asked, city.values(asked)) for asked in city.emergencies.asked],
        committed={row["id"]: row[VERSION] for row in lived.reports},
        users=users,
    )
    followed = [Followed(each.user, each.asked, each.begun) for each in lived.events if isinstance(each, Subscribed)]
    heard = [
        Heard(each.user, each.asked, each.execution, frozenset(each.told))
        for each in lived.events
        if isinstance(each, Got)
    ]
    return oracle.judge(followed, heard, lived.executions)


def _not_once(lived: Lived) -> int:
    ids = [row["id"] for row in lived.reports]
    whole = range(len(lived.city.emergencies.sent_s))
    return len(ids) - len({*ids}) + len({*whole} ^ {*ids})


def _caught_up(lived: Lived) -> int:
    return len(_sent_alone(lived))


def _sent_alone(lived: Lived) -> set[int]:
    """Places in `events` of what was made while its subscriber was offline: it was sent to that one alone, later."""
    away = {each.user: each for each in lived.events if isinstance(each, Away)}
    got = [(place, each) for place, each in enumerate(lived.events) if isinstance(each, Got) and each.user in away]
    return {place for place, each in got if away[each.user].begin_s < each.executed_s < away[each.user].end_s}


def _distinct(lived: Lived) -> int:
    return len({each.asked for each in lived.events if isinstance(each, Subscribed)})


def _loads(lived: Lived) -> dict[str, tuple[float, float]]:
    """By broker: equation 5 over the time with results, in bytes, and what the server counted."""
    carried, alone = lived.carried, _sent_alone(lived)
    into: dict[tuple[str, int, int], int] = {}
    load: dict[str, float] = dict.fromkeys(carried.size_bytes, 0.0)
    for place, each in enumerate(lived.events):
        if isinstance(each, Got) and carried.begin_s <= each.at_s < carried.end_s:
            load[each.home] += each.size
            if place in alone:
                load[each.home] += each.size  # it came in once more
            else:
                into[each.home, each.asked, each.execution] = each.size
    for (home, _, _), size in into.items():
        load[home] += size
    return {broker: (load[broker], counted - _leases(lived, broker)) for broker, counted in carried.size_bytes.items()}


def _leases(lived: Lived, broker: str) -> float:
    """Bytes that are no results, in the time with results: subscribers are moved, and some are offline, meanwhile."""
    carried, idle = lived.carried, lived.idle
    then, after = (_present(lived, broker, each.begin_s, each.end_s) for each in (carried, idle))
    share = then / after if then and after else 1.0
    return _idle(lived, broker) * share * (carried.end_s - carried.begin_s)


def _present(lived: Lived, broker: str, begin_s: float, end_s: float) -> float | None:
    """Subscribers at the broker on average; None when nobody said."""
    found = [counts.get(broker, 0) for at_s, counts in lived.present if begin_s <= at_s < end_s]
    return float(np.mean(found)) if found else None


def _idle(lived: Lived, broker: str) -> float:
    return lived.idle.size_bytes[broker] / (lived.idle.end_s - lived.idle.begin_s)


def _cov(lived: Lived, *, first: bool) -> float | None:
    """Of the first loads that were told, or of the last."""
    found = [cov for _, cov, loads in lived.balance if sum(loads.values()) > 0]
    return round(found[0 if first else -1], 3) if found else None


def _execution_times(lived: Lived) -> Mapping[str, Metric]:
    found = {}
    for number, executions in lived.executions.items():
        took_s = np.array([each.took_s for each in executions])
        found[channel_name(number)] = {f"p{each}": _share(took_s, each) for each in _SPANS}
    return found


def _share(values: "np.ndarray[tuple[int], np.dtype[np.float64]]", percent: int) -> float | None:
    return round(float(np.percentile(values, percent)), 3) if len(values) else None


def _draw_balance(lived: Lived, figure: "Figure") -> None:
    above, below = figure.subplots(2, sharex=True)
    at_s = [at for at, _, _ in lived.balance]
    for broker in sorted(lived.carried.size_bytes):
        above.plot(at_s, [loads.get(broker, 0.0) / 1e3 for _, _, loads in lived.balance], label=broker)
    above.set_ylabel("load F_j (kB/s)")
    above.legend(loc="upper left", fontsize="small")
    below.plot(at_s, [cov for _, cov, _ in lived.balance], color="black")
    below.axhline(0.15, color="grey", linestyle=":", label="alpha")
    below.set_ylabel("cov")
    below.set_xlabel("seconds")
    below.legend(loc="upper right", fontsize="small")
    figure.suptitle("loads of brokers, as the leader sees them")


def _draw_loads(lived: Lived, figure: "Figure") -> None:
    axes = figure.subplots()
    loads = sorted(_loads(lived).items())
    at = np.arange(len(loads))
    axes.bar(at - 0.2, [load / 1e6 for _, (load, _) in loads], 0.4, label="F_j, equation 5")
    axes.bar(at + 0.2, [counted / 1e6 for _, (_, counted) in loads], 0.4, label="the server's own counters")
    axes.set_xticks(at, [broker for broker, _ in loads])
    axes.set_ylabel("MB")
    axes.set_title("what brokers carried")
    axes.legend(loc="lower right", fontsize="small")


def _draw_delays(got: list[Got], figure: "Figure") -> None:
    axes = figure.subplots()
    late_s = np.sort([each.at_s - each.executed_s for each in got])
    axes.step(late_s, np.arange(1, len(late_s) + 1) / max(1, len(late_s)), where="post")
    axes.set_xscale("log")
    axes.set_xlabel("from the execution's time to the subscriber (s)")
    axes.set_ylabel("share of notifications")
    axes.set_title("how late notifications are (those of who was offline are in it)")


EXPERIMENT = Experiment(
    name=NAME,
    paper="BAD, section 6.1",
    summary="emergencies in a city, live: every subscriber is told what it should be, and brokers carry F_j",
    expectations=(MISSED, REPEATED, WRONG, REPORTED, CAUGHT_UP, ONCE, SHARED, LOAD),
    modes=("live",),
    measure=measure,
    options=("brokers", "faults"),
)
