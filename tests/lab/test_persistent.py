"""Servers of persistent topics are killed: what was acknowledged is there, once, live and in a replay."""

import pytest

from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments.epulsar_persistent import EXPERIMENT, KINDS


@pytest.mark.slow
def test_a_kill_of_each_kind_loses_and_repeats_nothing() -> None:
    outcome = EXPERIMENT.run(RunSettings("live", seed=11, seeds=1))
    assert [claim for claim in outcome.claims if not claim.holds] == []
    assert outcome.metrics["kills"] == dict.fromkeys(KINDS, 1)


def test_what_must_hold_is_undertaken() -> None:
    assert {(each.id, each.expected) for each in EXPERIMENT.expectations} == {("EP-11", "== 0")}
    assert len(EXPERIMENT.expectations) == 2 * len(KINDS) + 1
