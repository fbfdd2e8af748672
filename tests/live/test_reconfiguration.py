"""Moves and kills on real servers, judged by the history checker; the full sizes are the lab's."""

import json
import subprocess
import sys

import pytest

from nearcast.lab.experiment import silent
from nearcast.lab.live.run import LiveScale, play
from tests.live.conftest import on_redis


def test_topics_move_under_traffic_and_nothing_is_lost(kind: str) -> None:
    found = play(kind, LiveScale(fanout=20, moves=12), seed=1, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert found.checked.delivered > 1000
    assert (found.moves, found.unfinished, found.disputed) == (12, [], 0)


def test_whatever_is_killed_what_is_missing_is_reported(kind: str) -> None:
    found = play(kind, LiveScale(fanout=10, moves=8, kills=1), seed=2, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert set(found.killed.values()) == {1}
    assert (found.unfinished, found.disputed) == ([], 0)


def test_a_fleet_goes_to_a_new_protocol_process_by_process_and_nothing_is_missing() -> None:
    found = play("nats", LiveScale(fanout=10, moves=0, renewed=True, lease_s=8.0), seed=3, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert found.checked.delivered > 1000
    assert (len(found.checked.covered), found.checked.gaps, found.checked.discontinuities) == (0, 0, 0)


@pytest.mark.slow
def test_a_fleet_goes_to_a_new_protocol_while_topics_move_and_what_is_missing_is_reported() -> None:
    found = play("redis", LiveScale(fanout=10, moves=12, renewed=True), seed=4, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert found.moves >= 12
    assert (found.unfinished, found.disputed) == ([], 0)


@on_redis
def test_the_demo_ends_by_itself_with_nothing_lost(kind: str) -> None:
    argv = [sys.executable, "-m", "nearcast", "demo", "--seconds", "12", "--brokers", kind, "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["lost"], summary["duplicated"], summary["reordered"]) == (0, 0, 0)
    assert summary["moves"] >= 1
    assert summary["delivered"] > 100


def test_servers_come_and_go_under_traffic_and_nothing_is_missing(kind: str) -> None:
    found = play(kind, LiveScale(fanout=10, moves=12, rounds=2), seed=5, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert found.checked.delivered > 1000
    assert (len(found.checked.covered), found.checked.gaps, found.checked.discontinuities) == (0, 0, 0)
    assert (found.removed, found.unfinished, found.disputed) == (2, [], 0)
