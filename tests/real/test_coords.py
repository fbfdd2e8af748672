"""Coordinates against HashiCorp's Serf, whose arithmetic they are to reproduce."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from nearcast.coords.coordinate import Coordinate, seconds
from nearcast.coords.vivaldi import Vivaldi, updated
from nearcast.domain.errors import BadSample


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
