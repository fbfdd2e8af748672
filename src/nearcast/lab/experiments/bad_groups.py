"""What it gains to move subscribers in groups of alike ones: the future work of BAD, section 7 (ours).

2,000 subscribers in 50 communities of interest, at the nearest of 10 brokers; interests have nothing to do with places.
One plan of each policy (alpha .05) from the same homes, for communities that share nothing, half, or 90 % of what they
subscribe to. What brokers pull is what groups can save: what they send is the same wherever subscribers are.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nearcast.domain.homes import cov_of
from nearcast.domain.load import BrokerReport
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import Snapshot
from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.lab.fanout import map_seeds
from nearcast.lab.workloads.communities import BROKERS, communities
from nearcast.policies.registry import policy_named
from nearcast.policies.settings import Balancing, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME = "bad.groups"
_SEEDS = 10
_QUICK_SEEDS = 2
_SHARES = (0.0, 0.5, 0.9)
_POLICIES = ("bad-ldm", "bad-sdm", "bad-groups", "bad-shuffle")
_SETTINGS = Settings(balancing=Balancing(alpha=0.05, beta_bytes_per_s=0.0))

PULLED = Expectation(
    "BAD-ours",
    "bytes pulled with bad-groups over those with bad-ldm, communities that share 90 % (mean of seeds)",
    "< 1",
)
LARGEST = Expectation(
    "BAD-ours",
    "largest load with bad-groups over that with bad-ldm, communities that share 90 % (mean of seeds)",
    "< 1",
)


class PlanRow(NamedTuple):
    seed: int
    share: float
    policy: str
    largest_load: float
    pulled: float
    sent: float
    cov: float
    moves: int


def planned(seed: int, shares: Sequence[float] = _SHARES) -> list[PlanRow]:
    rows = []
    for share in shares:
        homes = communities(share, seed)
        sent = float(homes.weights().sum())
        seen = Snapshot.of([BrokerReport(name, 0.0, 0.0, 1e12) for name in BROKERS], {}, Ring(BROKERS), at_s=0.0)
        for name in (None, *_POLICIES):
            steps = () if name is None else policy_named(name)(replace(seen, homes=homes), _SETTINGS, 0.0).homes
            home = homes.home.copy()
            for step in steps:
                home[int(step.subscriber[1:])] = seen.brokers.index(step.broker)
            load = replace(homes, home=home).loads(len(BROKERS))
            pulled = float(load.sum()) - sent
            rows.append(
                PlanRow(
                    seed, share, name or "none", float(load.max()), pulled, sent, round(cov_of(load), 4), len(steps)
                )
            )
    return rows


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    count = settings.seeds or (_QUICK_SEEDS if settings.quick else _SEEDS)
    seeds = range(settings.seed, settings.seed + count)
    rows = [row for each in map_seeds(planned, seeds, settings.jobs, progress) for row in each]
    over = {
        f"{share:g}": {
            policy: {
                name: round(_mean(rows, name, share, policy) / _mean(rows, name, share, "bad-ldm"), 4)
                for name in ("pulled", "largest_load", "moves")
            }
            for policy in _POLICIES
        }
        for share in _SHARES
    }
    most = over[f"{_SHARES[-1]:g}"]["bad-groups"]
    return Outcome(
        claims=(PULLED.judge(most["pulled"]), LARGEST.judge(most["largest_load"])),
        metrics={"seeds": count, "over_ldm_by_share": over},
        tables={"plans": Table(PlanRow._fields, tuple(tuple(row) for row in rows))},
        figures={"groups": partial(_draw, rows)},
    )


def _mean(rows: Sequence[PlanRow], name: str, share: float, policy: str) -> float:
    return float(np.mean([getattr(row, name) for row in rows if (row.share, row.policy) == (share, policy)]))


def _draw(rows: Sequence[PlanRow], figure: "Figure") -> None:
    figure.set_size_inches(12.0, 3.8)
    shown = (("largest_load", 1e6, "largest load (MB/s)"), ("pulled", 1e6, "pulled (MB/s)"), ("moves", 1.0, "moves"))
    at, width = np.arange(len(_SHARES)), 0.8 / (len(_POLICIES) + 1)
    for axes, (name, unit, label) in zip(figure.subplots(1, 3), shown, strict=True):
        for number, policy in enumerate(("none", *_POLICIES)):
            heights = [_mean(rows, name, share, policy) / unit for share in _SHARES]
            axes.bar(at + number * width, heights, width, label=policy)
        axes.set_xticks(at + 2 * width, [f"{share:.0%}" for share in _SHARES])
        axes.set_xlabel("of subscriptions are of the own community")
        axes.set_ylabel(label)
    figure.axes[0].legend(fontsize="x-small")


EXPERIMENT = Experiment(
    name=NAME,
    paper="BAD, section 7",
    summary="communities of interest: what it gains to move subscribers that are alike together",
    expectations=(PULLED, LARGEST),
    modes=("flow",),
    measure=measure,
    options=("seeds",),
)
