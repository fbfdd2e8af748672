"""The fitted parameters against what they were fitted to, and the workload on real figures."""

import json
from pathlib import Path

import numpy as np
import pytest

from nearcast.lab.workloads.latency import SCALE_MS, SHAPE, FittedRtt, fit, read_matrix
from nearcast.lab.workloads.popularity import read_weights, weights_for


def test_the_fitted_round_trips_are_those_of_north_american_cities(data: Path) -> None:
    matrix = np.load(data / "latency" / "wondernetwork2020_avg_ms.npy").astype(np.float64)
    nodes = json.loads((data / "latency" / "wondernetwork2020_nodes.json").read_text())
    cities = [at for at, node in enumerate(nodes) if node[2] in ("United States", "Canada")]
    between = matrix[np.ix_(cities, cities)][~np.eye(len(cities), dtype=bool)]
    between = np.sort(between[np.isfinite(between) & (between > 0.0)])
    found = fit(between)
    assert found.shape == pytest.approx(SHAPE, rel=0.01)
    assert found.scale_ms == pytest.approx(SCALE_MS, rel=0.01)
    shares = np.arange(1, len(between) + 1) / len(between)
    assert np.abs(FittedRtt().share_below(between) - shares).max() < 0.035


@pytest.mark.parametrize("name", ["planetlab490_median_ms.npy", "wondernetwork2020_avg_ms.npy"])
def test_a_real_matrix_can_be_sampled(data: Path, name: str) -> None:
    rtt = read_matrix(data / "latency" / name)
    assert len(rtt.rtt_ms) > 200
    assert 10.0 < rtt.sample(np.random.default_rng(1), 1000).mean() < 200.0


@pytest.mark.parametrize("name", ["azure2019_500_functions_invocations.csv.gz", "reddit_2500_topics.csv"])
def test_real_popularity_is_uneven(data: Path, name: str) -> None:
    weights = read_weights(data / "rates" / name)
    assert len(weights) > 100
    shares = weights_for(weights, 64, np.random.default_rng(1))
    assert np.sort(shares)[::-1][:6].sum() > 0.2
