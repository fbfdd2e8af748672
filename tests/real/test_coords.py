"""Coordinates against HashiCorp's Serf, whose arithmetic they are to reproduce."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearcast.coords.coordinate import Coordinate, seconds
from nearcast.coords.vivaldi import Vivaldi, updated
from nearcast.domain.errors import BadSample
from nearcast.lab.workloads.cities import BASE_MS, MS_PER_KM, distances_km


@pytest.fixture
def recorded(data: Path) -> dict[str, Any]:
    with gzip.open(data / "latency" / "serf_trace_fixture.json.gz") as file:
        found: dict[str, Any] = json.load(file)
    return found


def test_a_trace_ends_where_serf_ends_bit_for_bit(recorded: dict[str, Any]) -> None:
    nodes = [Vivaldi(Coordinate(tuple(vec))) for vec in recorded["init_vec"]]
    rejected = 0
    for observer, peer, rtt_ns in recorded["trace"]:
        before = nodes[observer]
        try:
            nodes[observer] = updated(before, str(peer), nodes[peer].coordinate, seconds(rtt_ns), lambda: 0.5)
        except BadSample:
            rejected += 1
            assert nodes[observer] is before
    assert rejected == recorded["rejected"] == 7
    for node, final in zip(nodes, recorded["final"], strict=True):
        at = node.coordinate
        assert list(at.vec) == final["vec"]
        assert (at.height, at.adjustment, at.error) == (final["height"], final["adjustment"], final["error"])
        assert node.resets == final["resets"]


def test_the_latency_model_of_cities_is_what_fits_the_real_ones_best(data: Path) -> None:
    """By least absolute deviations: reweighted least squares, until it stands still."""
    nodes = json.loads((data / "latency" / "wondernetwork2020_nodes.json").read_text())
    at = [row for row, node in enumerate(nodes) if node[2] == "United States"]
    real_ms = np.load(data / "latency" / "wondernetwork2020_avg_ms.npy")[np.ix_(at, at)]
    apart_km = distances_km(np.array([nodes[row][3:5] for row in at]))
    pairs = np.triu_indices(len(at), 1)
    far, rtt = apart_km[pairs], real_ms[pairs]
    known = np.isfinite(rtt) & (rtt > 0)
    columns, rtt = np.stack((np.ones(known.sum()), far[known]), axis=1), rtt[known]
    weights, found = np.ones(len(rtt)), np.zeros(2)
    for _ in range(60):
        root = np.sqrt(weights)
        found = np.linalg.lstsq(columns * root[:, None], rtt * root, rcond=None)[0]
        weights = 1.0 / np.maximum(np.abs(columns @ found - rtt), 0.5)
    assert found.tolist() == pytest.approx([BASE_MS, MS_PER_KM], rel=0.01)
    assert np.median(np.abs(columns @ found - rtt)) == pytest.approx(6.7, abs=0.1)
    assert len(rtt) == 2210
