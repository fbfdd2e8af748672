"""Experiments on processed topics that share brokers, in quick mode: the claims that must hold."""

import pytest

from nearcast.lab.experiment import RunSettings
from nearcast.lab.registry import find


@pytest.mark.parametrize("name", ["khare.feedback", "khare.taxis", pytest.param("khare.exact", marks=pytest.mark.slow)])
def test_what_is_said_of_topics_that_share_brokers_holds(name: str) -> None:
    outcome = find(name).run(RunSettings(mode="flow", seed=31, quick=True))
    assert outcome.claims
    assert [claim.statement for claim in outcome.claims if not claim.holds] == []


@pytest.mark.slow
def test_a_model_is_learned_from_a_real_broker_and_judged_by_runs_that_it_has_not_seen() -> None:
    outcome = find("khare.model").run(RunSettings(mode="live", seed=31, quick=True))
    assert outcome.metrics["validation_runs"] == {"1": 3, "2": 3}
    measured = {claim.statement: claim.measured for claim in outcome.claims}
    assert all(value is not None for value in measured.values()), measured
