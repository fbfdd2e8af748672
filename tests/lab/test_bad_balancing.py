"""Balancing subscribers at flow level: the claims of the paper's prototype and simulation, on a few seeds."""

import numpy as np
import pytest

from nearcast.lab.balancing import Case, Run, play
from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments import bad_groups, bad_prototype
from nearcast.lab.workloads.emergencies import PAPER, TICK_S, Emergencies
from nearcast.lab.workloads.fluctuating import Fluctuating
from nearcast.policies.settings import Balancing

FINE = Balancing(alpha=0.05, beta_bytes_per_s=20e3)


def test_subscribers_who_come_with_nothing_all_go_to_the_least_loaded_broker_which_is_one() -> None:
    by_load, by_turns = play(Emergencies, (Case("least-loaded"), Case("round-robin")), TICK_S, PAPER.end_s, 61)
    assert sorted(by_load.placed.tolist()) == [0, 0, 0, 0, 400]
    assert by_turns.placed.tolist() == [80] * 5
    assert by_load.cov[-1] == pytest.approx(2.0)
    assert by_turns.cov[-1] < 0.2


def test_a_run_is_the_same_every_time_and_subscribers_are_neither_made_nor_lost() -> None:
    cases = (Case("nearest", "bad-ldm", FINE),)
    (one,), (other,) = (play(Emergencies, cases, TICK_S, PAPER.end_s, 62) for _ in range(2))
    assert (one.load == other.load).all()
    assert (one.moved == other.moved).all()
    assert one.homes.sum() == one.placed.sum() == 400
    assert one.moved.sum() > 0


def test_the_prototypes_claims_hold_on_a_few_seeds() -> None:
    found = bad_prototype.EXPERIMENT.run(RunSettings(mode="flow", seed=63, seeds=2))
    assert [claim.statement for claim in found.claims if not claim.holds] == []


def test_moving_alike_subscribers_together_saves_what_brokers_pull() -> None:
    found = {row.policy: row for row in bad_groups.planned(65, shares=(0.9,))}
    assert found["bad-groups"].pulled < 0.9 * found["bad-ldm"].pulled
    assert found["bad-groups"].largest_load < found["bad-ldm"].largest_load < found["none"].largest_load
    assert found["bad-groups"].cov <= 0.05


def test_ten_thousand_subscribers_are_balanced_by_one_shuffle() -> None:
    settings = Balancing(alpha=0.15, beta_bytes_per_s=300e6, gamma=0.3, theta_bytes_per_s=300e6)
    bare, dealt = play(
        Fluctuating, (Case("nearest", "none", settings), Case("nearest", "bad-shuffle", settings)), 5.0, 600.0, 64
    )
    shuffled = int(np.flatnonzero(dealt.shuffled)[0])
    assert dealt.shuffled.sum() == 1
    assert dealt.moved[shuffled] > 5_000
    assert dealt.cov[shuffled] > 0.3
    assert dealt.cov[shuffled + 1 :].max() < 0.05
    assert _last_cov(bare) > 0.3


def _last_cov(run: Run) -> float:
    return float(run.cov[-1])
