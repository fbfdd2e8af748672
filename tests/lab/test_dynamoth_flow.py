"""dynamoth.scalability and dynamoth.elasticity at their full size, one seed: what they say, not only that they run."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from nearcast.cli.main import command_line
from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments import dynamoth_elasticity, dynamoth_scalability
from nearcast.lab.experiments.dynamoth_game import play, setting_of
from nearcast.lab.experiments.dynamoth_reconfiguration import NAME as RECONFIGURATION
from nearcast.lab.result import write_result
from nearcast.lab.workloads.schedule import Schedule

ONE = RunSettings(mode="flow", seed=5, seeds=1, quick=True)


def test_dynamoth_carries_more_players_than_hashing(tmp_path: Path) -> None:
    outcome = dynamoth_scalability.EXPERIMENT.run(ONE)
    measured = {claim.statement: claim.measured for claim in outcome.claims}
    ratio, published = (
        measured[each.statement] for each in (dynamoth_scalability.RATIO, dynamoth_scalability.RATIO_PUBLISHED)
    )
    assert ratio is not None
    assert published is not None
    assert 1.05 < ratio < published
    assert ratio < outcome.metrics["most_ratio_of_any_placement"]  # type: ignore[operator]  # a number
    written = write_result(tmp_path, dynamoth_scalability.NAME, ONE, outcome)
    assert {"figure5.png", "figure6.png", "ratios.png", "seeds.csv", "seconds.csv"} == set(written.artifacts)


def test_servers_come_and_go_with_the_players(tmp_path: Path) -> None:
    outcome = dynamoth_elasticity.EXPERIMENT.run(ONE)
    assert [claim.statement for claim in outcome.claims if not claim.holds] == []
    assert write_result(tmp_path, dynamoth_elasticity.NAME, ONE, outcome).artifacts[-1] == "figure7.png"


def test_real_round_trips_are_taken_when_they_are_given(tmp_path: Path) -> None:
    matrix = np.full((4, 4), 120.0)
    np.save(tmp_path / "rtt.npy", matrix)
    settings = RunSettings(mode="flow", latency_matrix=tmp_path / "rtt.npy")
    run = play(setting_of("dynamoth", Schedule(((0.0, 50), (5.0, 50))), settings), 1)
    assert run.response_ms.tolist() == pytest.approx([120.0] * 6, abs=5.0)


def test_the_popularity_of_real_topics_is_taken_when_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "topics.csv").write_text(
        "topic,subscribers\n" + "".join(f"t{rank},{1000 // rank}\n" for rank in range(1, 65))
    )
    even, uneven = (
        play(setting_of("dynamoth", Schedule(((0.0, 100), (5.0, 100))), RunSettings("flow", popularity=file)), 1)
        for file in (None, tmp_path / "topics.csv")
    )
    assert uneven.offered_hz[0] > 2 * even.offered_hz[0]


def test_a_file_that_is_no_matrix_is_a_failure_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "rtt.npy").write_text("no")
    arguments = [
        "lab",
        "run",
        "dynamoth.elasticity",
        "--latency-matrix",
        str(tmp_path / "rtt.npy"),
        "--out",
        str(tmp_path),
    ]
    result = CliRunner().invoke(command_line(), arguments)
    assert result.exit_code == 1
    assert "rtt.npy" in str(result.exception)


@pytest.mark.parametrize("option", ["--latency-matrix", "--popularity"])
def test_what_an_experiment_has_no_use_for_is_refused(option: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(command_line(), ["lab", "run", RECONFIGURATION, option, str(tmp_path / "file")])
    assert result.exit_code == 2
    assert option in result.output
