"""`nearcast bench plan`."""

import gc
import time
import tracemalloc
from dataclasses import asdict, dataclass
from statistics import median
from typing import Annotated

import numpy as np
import typer

from nearcast.cli.output import HOLDS, print_json, print_table
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.registry import Policy, policy_named
from nearcast.policies.settings import Settings

MOST_GROWTH = 12.0  # for ten times the topics

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
    Every round times the snapshot (from reports) and the plan (from the snapshot) apart; memory is taken in a round of
    its own, because taking it costs time.
    """
    ring = Ring(tuple(f"broker-{number:04}" for number in range(brokers)))
    sizes = (topics // _SHRINK, topics)
    cases = {
        load: _measured(policy_named(policy), load, ring, sizes, rounds=rounds, seed=seed) for load in _MEAN_RATIOS
    }
    growth = {load: large.plan_s.median / small.plan_s.median for load, (small, large) in cases.items()}
    flat = [case for pair in cases.values() for case in pair]
    if as_json:
        facts = {"policy": policy, "rounds": rounds, "seed": seed, "most_growth": MOST_GROWTH}
        shown = {load: round(value, 2) for load, value in growth.items()}
        met = {load: value <= MOST_GROWTH for load, value in growth.items()}
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
            f"at most {MOST_GROWTH:g}: {HOLDS[value <= MOST_GROWTH]}"
        )


def _measured(policy: Policy, load: str, ring: Ring, sizes: tuple[int, int], *, rounds: int, seed: int) -> list[Case]:
    """Both sizes by turns, so that what else the machine does falls on both alike."""
    settings = Settings()
    reports = {count: synthetic_reports(ring, count, _MEAN_RATIOS[load], seed) for count in sizes}
    snapshot_s: dict[int, list[float]] = {count: [] for count in sizes}
    plan_s: dict[int, list[float]] = {count: [] for count in sizes}
    for number in range(rounds + 1):
        for count in sizes:
            gc.collect()
            started_s = time.perf_counter()
            snapshot = Snapshot.of(reports[count], {}, ring, at_s=0.0)
            seen_s = time.perf_counter()
            policy(snapshot, settings, 0.0)
            if number:  # the first one warms up: rings are built once and kept
                plan_s[count].append(time.perf_counter() - seen_s)
                snapshot_s[count].append(seen_s - started_s)
    return [
        _case(policy, load, ring, reports[count], plan_s=_spread(plan_s[count]), snapshot_s=_spread(snapshot_s[count]))
        for count in sizes
    ]


def _case(
    policy: Policy, load: str, ring: Ring, reports: list[BrokerReport], *, plan_s: Spread, snapshot_s: Spread
) -> Case:
    gc.collect()
    tracemalloc.start()
    try:
        snapshot = Snapshot.of(reports, {}, ring, at_s=0.0)
        plan = policy(snapshot, Settings(), 0.0)
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


def synthetic_reports(ring: Ring, topics: int, mean_ratio: float, seed: int) -> list[BrokerReport]:
    """Topics at their owners by the ring, with log-normal loads: together `mean_ratio` of what all brokers can send."""
    names = [f"world/{number % 97}/tile.{number}" for number in range(topics)]
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
