"""Drones and players in virtual time: promises are kept as they move, and nothing is lost."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.experiment import RunSettings, silent
from nearcast.lab.experiments import epulsar_mmog, epulsar_uav
from nearcast.lab.experiments.epulsar_mmog import companions, game_of
from nearcast.lab.experiments.epulsar_uav import flight_of, judged
from nearcast.lab.mmog import Game, causes_s
from nearcast.lab.uav import Flight
from nearcast.lab.virtual import uav
from nearcast.lab.workloads.groups import Joining
from nearcast.lab.workloads.swarms import Crossing

SETTINGS = RunSettings(mode="virtual", seed=5, quick=True, rate_hz=4.0)
# Two swarms of three drones: one flies from zone to zone, the other stays.
SMALL = Flight((Crossing(0.0, 0, 0), Crossing(0.0, 1, 2), Crossing(6.0, 0, 1)), 20.0, 4.0, 3, 2, 3)


def test_topics_follow_their_swarms_and_nothing_is_lost() -> None:
    found = epulsar_uav.EXPERIMENT.run(replace(SETTINGS, duration_s=25.0))
    assert [claim.statement for claim in found.claims if not claim.holds] == []
    assert found.metrics["episodes_over_the_bound"]  # there was something to mend


def test_updates_of_a_group_come_in_time_and_nothing_is_lost() -> None:
    found = epulsar_mmog.EXPERIMENT.run(replace(SETTINGS, duration_s=40.0, rate_hz=1.0))
    assert [claim.statement for claim in found.claims if not claim.holds] == []
    assert found.metrics["migrations"]
    assert found.metrics["regroupings"]


def test_a_flight_is_the_same_every_time_and_latency_is_that_of_the_ways() -> None:
    flown = [uav.fly(SMALL, 3, silent) for _ in range(2)]
    windows = [[each.heard.windows(topic).p95_ms.tolist() for topic in SMALL.topics] for each in flown]
    assert windows[0] == windows[1]
    stays = flown[0].heard.windows("swarm.1.follow_leader")
    assert stays.p95_ms.max() == pytest.approx(2e3 * SMALL.way_s(2, 2), abs=0.1)
    moves = flown[0].heard.windows("swarm.0.follow_leader")
    assert moves.p95_ms[moves.at_s < 5.9].max() == pytest.approx(14.0, abs=0.1)
    assert moves.p95_ms.max() >= 44.0 - 0.1
    assert moves.p95_ms[-1] == pytest.approx(14.0, abs=0.1)


def test_a_scaled_flight_is_the_same_farther_apart() -> None:
    five = replace(SMALL, scale=5.0)
    assert (str(five.promise), str(SMALL.promise)) == ("p95:200ms", "p95:40ms")
    found, plain = (uav.fly(flight, 3, silent) for flight in (five, SMALL))
    moves, shorter = (each.heard.windows("swarm.0.follow_leader") for each in (found, plain))
    assert moves.p95_ms.max() == pytest.approx(5 * shorter.p95_ms.max(), rel=0.01)
    assert moves.p95_ms[-1] == pytest.approx(70.0, abs=0.1)
    assert sum(each.outside for each in judged(five, found, found.heard)) == 0


def test_without_a_loop_a_promise_stays_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uav, "LOOP", {"policy": "epulsar", "every_s": 0.0})
    flown = uav.fly(SMALL, 3, silent)
    found = judged(SMALL, flown, flown.heard)
    after = [each for each in found if each.topic.startswith("swarm.0") and each.cause_s == 6.0]
    assert [each.migrations for each in after] == [(), ()]
    assert sum(each.outside for each in found) > 0


def test_a_quick_flight_differs_in_size_and_rate_only() -> None:
    quick, facts = flight_of(replace(SETTINGS, rate_hz=None))
    whole, _ = flight_of(RunSettings(mode="virtual", seed=5))
    assert (quick.zones, quick.swarms, quick.drones) == (whole.zones, whole.swarms, whole.drones) == (4, 8, 8)
    assert whole.rate_hz == 200.0
    assert facts["cells"] == "built-in"


def test_recorded_paths_need_data() -> None:
    with pytest.raises(ConfigError, match="leave out --recorded"):
        epulsar_uav.EXPERIMENT.run(replace(SETTINGS, recorded=True))


def test_new_york_is_always_there_and_players_are_spread_evenly() -> None:
    game = game_of(SETTINGS)
    assert "New York" in game.cities
    assert len(game.cities) == 5
    assert sorted(np.bincount(game.city_of).tolist()) == [12, 13, 13, 13, 13]


def test_a_matrix_of_ones_own_is_taken(tmp_path: Path) -> None:
    matrix = np.full((7, 7), 40.0)
    matrix[2] = matrix[:, 2] = 20.0
    matrix[4, 5] = np.nan  # known the other way round
    matrix[6] = matrix[:, 6] = np.nan
    np.save(tmp_path / "rtt.npy", matrix)
    game = game_of(replace(SETTINGS, latency_matrix=tmp_path / "rtt.npy"))
    capital = game.cities.index("New York")
    assert "place 6" not in game.cities
    assert {game.between_s(capital, other) for other in range(5)} == {0.0, 0.02}


GAME = Game(
    ("New York", "Boston", "Miami"),
    ((0.0, 10.0, 30.0), (10.0, 0.0, 40.0), (30.0, 40.0, 0.0)),
    (0, 1, 2),
    (Joining(0.0, 0, 0), Joining(0.0, 1, 0), Joining(0.0, 2, 1), Joining(31.0, 2, 0), Joining(40.0, 1, 1)),
    60.0,
    1.0,
)


def test_an_avatar_is_affected_when_other_cities_come_to_hear_it() -> None:
    assert causes_s(GAME) == [[0.0, 31.0, 40.0], [0.0, 31.0, 40.0], [0.0, 31.0, 40.0]]
    assert [each for _, each in list(GAME.wishes())] == [
        [{0, 1}, {0, 1}, {2}],
        [{0, 1, 2}, {0, 1, 2}, {0, 1, 2}],
        [{0, 2}, {1}, {0, 2}],
    ]


def test_companions_are_those_in_the_same_group_at_the_same_time() -> None:
    assert companions(GAME, 0) == [(1, 0.0, 40.0), (2, 31.0, 60.0)]
    assert companions(GAME, 1) == [(0, 0.0, 40.0), (2, 31.0, 40.0)]
