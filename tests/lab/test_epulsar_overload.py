"""Overload, at flow level and quickly: what must hold."""

from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments import epulsar_overload
from nearcast.lab.experiments.epulsar_overload import one_seed


def test_a_broker_with_too_much_is_relieved_in_one_round_by_the_fewest_moves() -> None:
    outcome = epulsar_overload.EXPERIMENT.run(RunSettings("flow", seed=0, seeds=40, quick=True))
    assert [claim for claim in outcome.claims if not claim.holds] == []
    assert outcome.metrics["moves"] != 0


def test_every_kind_of_overload_is_among_them() -> None:
    assert {one_seed(seed).kind for seed in range(8)} == {"bandwidth", "processors", "memory", "messages"}
