"""The emergency application, live and small, with everything killed once: the oracle finds nothing amiss."""

import pytest

from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments.bad_emergency import EXPERIMENT


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("faults", [False, True])
def test_every_subscriber_is_told_what_it_should_be(faults: bool) -> None:
    outcome = EXPERIMENT.run(RunSettings("live", seed=11, quick=True, faults=faults))
    assert [claim for claim in outcome.claims if not claim.holds] == [], outcome.metrics["not_as_it_should_be"]
    assert len(outcome.metrics["killed"]) == (7 if faults else 0)  # type: ignore[arg-type]  # a list


def test_what_must_hold_is_undertaken() -> None:
    assert {each.id for each in EXPERIMENT.expectations} == {"BAD-1", "BAD-2"}
