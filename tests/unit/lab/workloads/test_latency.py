from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.workloads.latency import SCALE_MS, SHAPE, FittedRtt, fit, read_matrix


def test_samples_follow_the_distribution_that_was_fitted() -> None:
    samples = FittedRtt().sample(np.random.default_rng(1), 200_000)
    assert samples.mean() == pytest.approx(46.2, rel=0.02)
    for share in (0.05, 0.5, 0.95):
        assert FittedRtt().share_below(np.quantile(samples, [share]))[0] == pytest.approx(share, abs=0.01)


def test_a_fit_finds_the_parameters_of_what_was_sampled() -> None:
    found = fit(FittedRtt().sample(np.random.default_rng(2), 100_000))
    assert found.shape == pytest.approx(SHAPE, rel=0.02)
    assert found.scale_ms == pytest.approx(SCALE_MS, rel=0.02)


def test_a_matrix_gives_the_round_trips_of_its_best_placed_site(tmp_path: Path) -> None:
    matrix = np.array(
        [[0.0, 10.0, 90.0, np.nan], [10.0, 0.0, 20.0, 30.0], [90.0, 20.0, 0.0, 80.0], [1.0, 1.0, 1.0, 0.0]]
    )
    matrix[3] = np.nan
    np.save(tmp_path / "rtt.npy", matrix)
    rtt = read_matrix(tmp_path / "rtt.npy")
    assert rtt.rtt_ms == (10.0, 20.0, 30.0)
    assert set(rtt.sample(np.random.default_rng(1), 100).tolist()) == {10.0, 20.0, 30.0}


@pytest.mark.parametrize("matrix", [np.zeros((3, 2)), np.zeros((3, 3)), np.zeros(4)])
def test_what_is_no_latency_matrix_is_refused(
    tmp_path: Path, matrix: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"
) -> None:
    np.save(tmp_path / "rtt.npy", matrix)
    with pytest.raises(ConfigError, match=r"rtt\.npy"):
        read_matrix(tmp_path / "rtt.npy")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.npy"):
        read_matrix(tmp_path / "nowhere.npy")
