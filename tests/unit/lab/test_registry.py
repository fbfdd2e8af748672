from dataclasses import replace

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.experiment import Experiment, Outcome
from nearcast.lab.registry import EXPERIMENTS, find

UAV = Experiment("epulsar.uav", "ePulsar", "swarms", (), ("flow",), lambda _settings, _progress: Outcome(claims=()))
REGISTRY = {"epulsar.uav": UAV, "epulsar.mmog": replace(UAV, name="epulsar.mmog")}


def test_an_experiment_is_found_by_its_name() -> None:
    assert find("epulsar.uav", REGISTRY) is UAV


def test_a_mistyped_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"no experiment 'epulsar\.mmorg': did you mean 'epulsar\.mmog'\?"):
        find("epulsar.mmorg", REGISTRY)


def test_a_name_like_no_other_is_answered_with_where_to_look() -> None:
    with pytest.raises(ConfigError, match="nearcast lab list"):
        find("zzz", REGISTRY)


def test_every_registered_experiment_can_be_found_run_and_scored() -> None:
    for name, experiment in EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.modes, f"{name} has no mode"
        assert experiment.expectations, f"{name} undertakes nothing"
        keys = [(one.id, one.statement) for one in experiment.expectations]
        assert len(set(keys)) == len(keys), f"{name} undertakes the same twice"
