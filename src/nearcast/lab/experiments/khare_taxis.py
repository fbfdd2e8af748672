"""City taxis (Khare, section III-A) placed by the production policy (FFD), and every broker of the plan simulated.

Taxis are where a generator has them, or where they were in the busiest minute of a file (`--trips`). All topics begin
where consistent hashing puts them. A region with more taxis than a broker can process for is shared by several brokers.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.workloads.colocated import NOMINAL
from nearcast.lab.workloads.taxis import TaxiTopic, generated, read_taxis, topics_of
from nearcast.pipeline.latency_fit import BOUND_MS
from nearcast.pipeline.simulated_broker import RANK, simulated_latencies
from nearcast.policies.ktcp import FFD
from nearcast.policies.registry import policy_named
from nearcast.policies.settings import Colocation, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TAXIS, _QUICK_TAXIS = 2000, 300
_HASHED = "hash"
_MESSAGE_BYTES = 4096
_CAPACITY_BYTES_PER_S = 1e9

MISSED = Expectation("KH-7", "City taxis: topics that miss their bound", "<= 0.13")
MESSAGES = Expectation("KH-7", "City taxis: messages later than the bound", "<= 0.10")
FEWER = Expectation("KH-7", "City taxis: brokers of FFD over those of consistent hashing", "< 1")


class Row(NamedTuple):
    policy: str
    topics: int
    shared: int
    brokers: int
    seconds: float
    mean_p90_ms: float
    topics_missed: int
    messages: int
    messages_missed: int


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    rng = np.random.default_rng(settings.seed)
    taxis = read_taxis(settings.trips) if settings.trips else generated(_QUICK_TAXIS if settings.quick else _TAXIS, rng)
    topics = topics_of(taxis, rng)
    snapshot = _seen(topics)
    rows = []
    for number, policy in enumerate((_HASHED, FFD)):
        progress(number, 2, policy)
        rows.append(_row(policy, topics, snapshot, settings.seed))
    hashed, placed = rows
    return Outcome(
        claims=(
            MISSED.judge(round(placed.topics_missed / placed.topics, 4)),
            MESSAGES.judge(round(placed.messages_missed / placed.messages, 4)),
            FEWER.judge(round(placed.brokers / hashed.brokers, 4)),
        ),
        metrics={
            "taxis": len(taxis),
            "regions": len(topics) // 2,
            "busiest_region_taxis": int(max(each.rate_hz for each in topics)),
            "load_cores": round(sum(each.interval_ms * each.rate_hz for each in topics) / 1e3, 2),
            "shared_topics": placed.shared,
        },
        tables={"policies": Table(Row._fields, tuple(tuple(row) for row in rows))},
        figures={"taxis": partial(_draw, rows, [each.rate_hz for each in topics if each.name.endswith(".gps")])},
    )


def _seen(topics: Sequence[TaxiTopic]) -> Snapshot:
    """With as many brokers as there are regions: more than anybody needs."""
    ring = Ring(tuple(f"broker-{number:04}" for number in range(max(2, len(topics) // 2))))
    loads: dict[str, list[TopicLoad]] = {name: [] for name in ring.brokers}
    for each, owner in zip(topics, ring.owners([each.name for each in topics]), strict=True):
        received = each.rate_hz * each.subscribers
        sizes = (each.rate_hz * _MESSAGE_BYTES, received * _MESSAGE_BYTES)
        loads[owner].append(TopicLoad(each.name, each.rate_hz, received, *sizes, each.publishers, each.subscribers))
    reports = [
        BrokerReport(name, 0.0, sum(load.bytes_out for load in each), _CAPACITY_BYTES_PER_S, tuple(each))
        for name, each in loads.items()
    ]
    snapshot = Snapshot.of(reports, {}, ring, at_s=0.0)
    at = {each.name: each for each in topics}
    interval_ms = np.array([at[name].interval_ms for name in snapshot.topics])
    count = len(interval_ms)
    processing = Processing(interval_ms, np.full(count, BOUND_MS), np.full(count, np.nan))
    return replace(snapshot, processing=processing)


def _row(policy: str, topics: Sequence[TaxiTopic], snapshot: Snapshot, seed: int) -> Row:
    places = {name: snapshot.brokers_of(at) for at, name in enumerate(snapshot.topics)}
    begun_s = time.process_time()
    if policy != _HASHED:
        settings = Settings(colocation=Colocation(processors=NOMINAL))
        places |= {step.topic: step.brokers for step in policy_named(policy)(snapshot, settings, 0.0).steps}
    seconds = time.process_time() - begun_s
    sets: dict[str, list[tuple[float, float]]] = {}
    for each in topics:
        for broker in places[each.name]:
            sets.setdefault(broker, []).append((each.interval_ms, each.rate_hz / len(places[each.name])))
    columns = [tuple(np.array(column) for column in zip(*sets[broker], strict=True)) for broker in sorted(sets)]
    found = simulated_latencies(((p, r) for p, r in columns), NOMINAL, seed)
    late = [each for broker in found for each in broker if len(each)]
    p90_ms = np.array([np.percentile(each, RANK) for each in late])
    return Row(
        policy,
        len(topics),
        sum(len(brokers) > 1 for brokers in places.values()),
        len(sets),
        round(seconds, 3),
        round(float(p90_ms.mean()), 2),
        int(np.sum(p90_ms > BOUND_MS)),
        sum(len(each) for each in late),
        sum(int(np.sum(each > BOUND_MS)) for each in late),
    )


def _draw(rows: Sequence[Row], taxis: Sequence[float], figure: "Figure") -> None:
    sizes, brokers, missed = figure.subplots(1, 3)
    sizes.hist(taxis, bins=30)
    sizes.set_yscale("log")
    sizes.set_xlabel("taxis in a region")
    sizes.set_ylabel("regions")
    names = [row.policy for row in rows]
    brokers.bar(names, [row.brokers for row in rows])
    brokers.set_ylabel("brokers")
    missed.bar(names, [100.0 * row.messages_missed / row.messages for row in rows])
    missed.set_ylabel("messages later than the bound (%)")
    for axes in (brokers, missed):
        axes.tick_params(axis="x", rotation=30)


EXPERIMENT = Experiment(
    name="khare.taxis",
    paper="Khare, section III-A",
    summary="Taxis of a city, two processed topics for each region, placed by ktcp-ffd; generated or real",
    expectations=(MISSED, MESSAGES, FEWER),
    modes=("flow",),
    measure=measure,
    options=("trips",),
)
