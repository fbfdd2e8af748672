"""`nearcast bench plan`."""

import gc
import math
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import typer

from nearcast.cli.model.files import read_model
from nearcast.cli.output import HOLDS, print_json, print_table
from nearcast.coords.coordinate import DIMENSIONS
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.places import Clients, Places, Spots, gathered
from nearcast.domain.plan import Plan
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.registry import PROCESSING_POLICIES, Policy, policy_named
from nearcast.policies.settings import Settings

MOST_GROWTH = 12.0  # for ten times the topics
MOST_PROCESSED_GROWTH = 100.0  # first fit is quadratic

_INTERVALS_MS = (10.0, 20.0, 30.0, 40.0)
_BUSIEST = 0.8  # of a core, what the busiest topic alone would take
_CAPACITY_BYTES_PER_S = 100e6
_MEAN_RATIOS = {"high": 0.55, "low": 0.15}
"""Of what all brokers together can send: overloaded ones among others that have room; more brokers than needed."""
_SPREAD = 1.5  # of the logarithm of topics' loads: the busiest of 100,000 has some 200 times the mean
_SHRINK = 10


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class Case:
    """One load and one number of topics. Memory is what the snapshot and the plan took at most, beside the reports."""

    load: str
    topics: int
    brokers: int
    plan_s: Spread
    snapshot_s: Spread
    peak_mb: float
    steps: int
    rent: int
    release: int
    busiest_before: float
    busiest_after: float


def bench_plan(
    *,
    policy: Annotated[str, typer.Option(help="Which policy.")] = "dynamoth",
    model: Annotated[
        Path | None,
        typer.Option(help="The latency model of ktcp policies; by default what a queue tells.", dir_okay=False),
    ] = None,
    topics: Annotated[
        int, typer.Option(min=_SHRINK, help="How many topics; a tenth of them is measured too.")
    ] = 100_000,
    brokers: Annotated[int, typer.Option(min=1, help="How many brokers.")] = 1000,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the topics' loads.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how long a policy takes for a plan, and how that grows with the number of topics.

    Topics are where the ring has them, with loads of very different size (log-normal), at high load and at low load.
    Brokers are anywhere within 100 ms, each topic's four clients within 10 ms of each other, and 60 ms are promised: by
    the ring nearly every promise is broken. For ktcp policies topics are processed, for 10 to 40 ms a message, and have
    a bound of one second; load is then what their processing takes.

    Every round times the snapshot (from reports) and the plan (from the snapshot) apart; memory is taken in a round of
    its own, because taking it costs time.
    """
    ring = Ring(tuple(f"broker-{number:04}" for number in range(brokers)))
    sizes = (topics // _SHRINK, topics)
    settings = Settings()
    if model is not None:
        settings = replace(settings, colocation=replace(settings.colocation, model=read_model(model)))
    processed = policy in PROCESSING_POLICIES
    most_growth = MOST_PROCESSED_GROWTH if processed else MOST_GROWTH
    run = partial(_measured, policy_named(policy), settings, ring, sizes, rounds=rounds, seed=seed)
    cases = {load: run(load=load, processed=processed) for load in _MEAN_RATIOS}
    growth = {load: large.plan_s.median / small.plan_s.median for load, (small, large) in cases.items()}
    flat = [case for pair in cases.values() for case in pair]
    if as_json:
        facts = {"policy": policy, "rounds": rounds, "seed": seed, "most_growth": most_growth}
        shown = {load: round(value, 2) for load, value in growth.items()}
        met = {load: value <= most_growth for load, value in growth.items()}
        print_json({**facts, "cases": [asdict(case) for case in flat], "growth": shown, "growth_met": met})
        return
    print(f"policy {policy}, {brokers:,} brokers; seconds are medians of {rounds} rounds (least, most)")
    print_table(
        ("load", "topics", "plan", "snapshot", "MB", "steps", "rent", "release", "busiest"),
        [_row(case) for case in flat],
    )
    for load, value in growth.items():
        print(
            f"{load} load: {value:.1f} times the time for {_SHRINK} times the topics; "
            f"at most {most_growth:g}: {HOLDS[value <= most_growth]}"
        )


def _measured(
    policy: Policy,
    settings: Settings,
    ring: Ring,
    sizes: tuple[int, int],
    *,
    load: str,
    processed: bool,
    rounds: int,
    seed: int,
) -> list[Case]:
    """Both sizes by turns, so that what else the machine does falls on both alike."""
    make = _processed_snapshots if processed else _plain_snapshots
    seen = {count: make(ring, count, _MEAN_RATIOS[load], seed) for count in sizes}
    snapshot_s: dict[int, list[float]] = {count: [] for count in sizes}
    plan_s: dict[int, list[float]] = {count: [] for count in sizes}
    for number in range(rounds + 1):
        for count in sizes:
            gc.collect()
            started_s = time.perf_counter()
            snapshot = seen[count]()
            seen_s = time.perf_counter()
            policy(snapshot, settings, 0.0)
            if number:  # the first one warms up: rings are built once and kept
                plan_s[count].append(time.perf_counter() - seen_s)
                snapshot_s[count].append(seen_s - started_s)
    return [
        _case(
            lambda snapshot: policy(snapshot, settings, 0.0),
            load,
            seen[count],
            plan_s=_spread(plan_s[count]),
            snapshot_s=_spread(snapshot_s[count]),
        )
        for count in sizes
    ]


def _plain_snapshots(ring: Ring, topics: int, mean_ratio: float, seed: int) -> Callable[[], Snapshot]:
    reports = synthetic_reports(ring, topics, mean_ratio, seed)
    return partial(Snapshot.of, reports, {}, ring, at_s=0.0, places=synthetic_places(ring, topics, seed))


def _processed_snapshots(ring: Ring, topics: int, mean_ratio: float, seed: int) -> Callable[[], Snapshot]:
    """Rates are whole, and such that a broker could serve the busiest topic alone; at low load they are a third."""
    chance = np.random.default_rng(seed)
    names = sorted(_names(topics))
    interval_ms = chance.choice(_INTERVALS_MS, topics)
    most_hz = _BUSIEST * 1e3 / interval_ms * mean_ratio / max(_MEAN_RATIOS.values())
    rate_hz = np.ceil(chance.uniform(0.0, most_hz))
    loads: dict[str, list[TopicLoad]] = {name: [] for name in ring.brokers}
    for name, owner, rate in zip(names, ring.owners(names), rate_hz.tolist(), strict=True):
        loads[owner].append(TopicLoad(name, rate, rate, 4096 * rate, 4096 * rate, max(1, round(rate)), 1))
    reports = [
        BrokerReport(name, 0.0, sum(load.bytes_out for load in each), _CAPACITY_BYTES_PER_S, tuple(each))
        for name, each in loads.items()
    ]
    processing = Processing(interval_ms, np.full(topics, 1e3), np.full(topics, np.nan))
    return lambda: replace(Snapshot.of(reports, {}, ring, at_s=0.0), processing=processing)


def _case(
    policy: Callable[[Snapshot], Plan], load: str, seen: Callable[[], Snapshot], *, plan_s: Spread, snapshot_s: Spread
) -> Case:
    gc.collect()
    tracemalloc.start()
    try:
        snapshot = seen()
        plan = policy(snapshot)
        peak_mb = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    return Case(
        load=load,
        topics=len(snapshot.topics),
        brokers=len(snapshot.brokers),
        plan_s=plan_s,
        snapshot_s=snapshot_s,
        peak_mb=round(peak_mb, 1),
        steps=len(plan.steps),
        rent=plan.rent,
        release=len(plan.release),
        busiest_before=round(float(snapshot.load_ratios.max()), 3),
        busiest_after=round(max((ratio for _, ratio in plan.load_ratios), default=0.0), 3),
    )


def synthetic_places(ring: Ring, topics: int, seed: int) -> Places:
    """Topics in the order of their names, where the ring has them; two clients of each publish, and two subscribe."""
    chance = np.random.default_rng(seed)
    names = sorted(_names(topics))
    brokers = sorted(ring.brokers)
    index = {name: at for at, name in enumerate(brokers)}
    topic = np.repeat(np.arange(topics), 4)
    vec = chance.uniform(0.0, 0.1, (topics, DIMENSIONS))[topic] / math.sqrt(DIMENSIONS)
    vec = vec + chance.uniform(-0.005, 0.005, vec.shape) / math.sqrt(DIMENSIONS)
    side = np.arange(len(topic)) % 4 < 2
    clients = Clients(topic, Spots(vec, np.full(len(topic), 0.001)), side, ~side)
    at = Spots(
        chance.uniform(0.0, 0.1, (len(brokers), DIMENSIONS)) / math.sqrt(DIMENSIONS), np.full(len(brokers), 1e-3)
    )
    owner = np.array([index[name] for name in ring.owners(names)])
    return gathered(clients, at, owner, np.full(topics, 0.060))


def _names(topics: int) -> list[str]:
    return [f"world/{number % 97}/tile.{number}" for number in range(topics)]


def synthetic_reports(ring: Ring, topics: int, mean_ratio: float, seed: int) -> list[BrokerReport]:
    """Topics at their owners by the ring, with log-normal loads: together `mean_ratio` of what all brokers can send."""
    names = _names(topics)
    chance = np.random.default_rng(seed)
    weights = chance.lognormal(0.0, _SPREAD, topics)
    out = weights / weights.sum() * mean_ratio * _CAPACITY_BYTES_PER_S * len(ring.brokers)
    subscribers = chance.integers(1, 50, topics)
    found: dict[str, list[TopicLoad]] = {name: [] for name in ring.brokers}
    for name, owner, bytes_out, listeners in zip(
        names, ring.owners(names), out.tolist(), subscribers.tolist(), strict=True
    ):
        deliveries = bytes_out / 500.0
        publications = deliveries / listeners
        load = TopicLoad(name, publications, deliveries, bytes_out / listeners, bytes_out, 3, listeners)
        found[owner].append(load)
    return [
        BrokerReport(name, 0.0, sum(load.bytes_out for load in loads), _CAPACITY_BYTES_PER_S, tuple(loads))
        for name, loads in found.items()
    ]


def _spread(values: list[float]) -> Spread:
    return Spread(round(median(values), 4), round(min(values), 4), round(max(values), 4))


def _row(case: Case) -> tuple[str, ...]:
    times = [f"{each.median:.2f} ({each.min:.2f}, {each.max:.2f})" for each in (case.plan_s, case.snapshot_s)]
    counts = (str(case.steps), str(case.rent), str(case.release))
    busiest = f"{case.busiest_before:.2f} to {case.busiest_after:.2f}"
    return (case.load, f"{case.topics:,}", *times, f"{case.peak_mb:.0f}", *counts, busiest)
