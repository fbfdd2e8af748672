"""Drones and game servers as real clients on real servers: topics follow, and nothing is lost.

How late messages are depends on what else the machine does: that is for the experiments to judge, not for a test.
"""

import numpy as np
import pytest

from nearcast.lab.experiment import silent
from nearcast.lab.live import mmog, stage, uav
from nearcast.lab.mmog import Game
from nearcast.lab.promised import Observed
from nearcast.lab.uav import Flight
from nearcast.lab.workloads.groups import Joining
from nearcast.lab.workloads.swarms import Crossing
from tests.live.conftest import on_redis

# Two swarms of three drones: one flies to the zone of the other.
FLIGHT = Flight((Crossing(0.0, 0, 0), Crossing(0.0, 1, 1), Crossing(1.0, 0, 1)), 14.0, 5.0, 2, 2, 3)
GAME = Game(
    ("New York", "Los Angeles"),
    ((0.0, 70.0), (70.0, 0.0)),
    (0, 1, 1),
    (Joining(0.0, 0, 0), Joining(0.0, 1, 1), Joining(0.0, 2, 1), Joining(3.0, 1, 0)),
    8.0,
    5.0,
)


@pytest.fixture(autouse=True)
def _in_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "WARM_UP_S", 2.0)
    monkeypatch.setattr(stage, "RUN_IN_S", 6.0)


def all_came(seen: Observed) -> bool:
    return seen.missing == 0 and seen.reports == 0 and seen.counts["published"] > 0


@on_redis
def test_topics_follow_a_swarm_to_its_zone(kind: str) -> None:
    flown = uav.fly(FLIGHT, kind, 3, silent)
    assert all_came(flown)
    after = [each for each in flown.migrations if each.topic.startswith("swarm.0") and each.begun_s > 1.0]
    assert {each.topic for each in after} == {"swarm.0.follow_leader", "swarm.0.sensor_data"}
    windows = flown.heard.windows("swarm.0.follow_leader")
    crossed = windows.p95_ms[windows.at_s >= 1.0][:3].max()  # the ways may be changed late in the first second
    assert crossed > 40.0  # 22 ms to a broker of another zone, and back
    assert np.median(windows.p95_ms[-3:]) < crossed


def test_game_servers_hear_the_groups_of_their_players() -> None:
    played = mmog.play(GAME, "nats", 3, silent)
    assert all_came(played)
    heard = {line: played.heard.windows(line) for line in GAME.lines}
    assert len(heard["avatar.0 in 0"].at_s) >= 7
    assert heard["avatar.0 in 1"].at_s.min() >= 2.0  # nobody there was in its group before
    assert len(heard["avatar.1 in 0"].at_s) >= 3
    assert len(heard["avatar.2 in 0"].at_s) == 0
    assert heard["avatar.1 in 0"].p95_ms.min() >= 70.0
