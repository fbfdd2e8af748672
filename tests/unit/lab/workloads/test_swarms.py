"""Swarms over the zones of a city."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.lab.workloads.swarms import Crossing, Track, crossings, random_waypoint, recorded
from nearcast.lab.workloads.zones import Zones

TWO = Zones(np.array([[0.0, 5.0], [10.0, 5.0]]), np.array([0.0, 0.0]), np.array([10.0, 10.0]))


def track(*points: tuple[float, float, float]) -> Track:
    whole = np.array(points)
    return Track(whole[:, 0], whole[:, 1:])


def test_a_swarm_comes_to_a_zone_when_it_is_nearer_to_its_site() -> None:
    found = crossings([track((0.0, 0.0, 5.0), (10.0, 10.0, 5.0)), track((0.0, 9.0, 5.0), (10.0, 9.0, 5.0))], TWO, 10.0)
    assert [(each.swarm, each.zone) for each in found] == [(0, 0), (1, 1), (0, 1)]
    assert found[-1].at_s == pytest.approx(5.0, abs=0.11)


def test_a_swarm_that_turns_back_is_back_where_it_was() -> None:
    there_and_back = track((0.0, 4.0, 5.0), (2.0, 6.0, 5.0), (4.0, 4.0, 5.0))
    found = crossings([there_and_back], TWO, 4.0)
    assert [each.zone for each in found] == [0, 1, 0]


def test_drones_go_at_their_speed_and_stay_in_the_city() -> None:
    way = random_waypoint(TWO, 600.0, np.random.default_rng(3))
    at = way.positions(np.arange(0.0, 600.0, 0.1))
    speeds_m_s = np.linalg.norm(np.diff(at, axis=0), axis=1) * 1e3 / 0.1
    assert np.median(speeds_m_s) == pytest.approx(50.0)
    assert speeds_m_s.max() < 50.001  # a turn within a step makes it shorter
    assert (at >= TWO.low).all()
    assert (at <= TWO.high).all()


def test_the_same_seed_gives_the_same_flight() -> None:
    def flown(seed: int) -> tuple[Crossing, ...]:
        rng = np.random.default_rng(seed)
        return crossings([random_waypoint(TWO, 600.0, rng) for _ in range(4)], TWO, 600.0)

    assert flown(1) == flown(1) != flown(2)
    assert len(flown(1)) > 8


def test_recorded_paths_are_stretched_over_the_city_all_alike(tmp_path: Path) -> None:
    folder = tmp_path / "drones"
    folder.mkdir()
    lines = ["drone_id,x,y,t_s"]
    lines += [f"0,{0.001 * second},0.0,{second}.0" for second in range(11)]
    lines += [f"1,0.0,{0.0005 * min(second, 10)},{100 + second}.0" for second in range(21)]
    lines += ["2,0.0,0.0,0.0"]
    with gzip.open(folder / "drone_locations.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    tracks, factor = recorded(tmp_path, TWO, 2, 10.0)
    assert factor == pytest.approx(1000.0)
    (far, near) = (np.ptp(each.km, axis=0) for each in tracks)
    assert far.tolist() == pytest.approx([10.0, 0.0])
    assert near.tolist() == pytest.approx([0.0, 5.0])  # of its 20 s those in which it moved
    assert all(each.at_s[0] == 0.0 for each in tracks)
    with pytest.raises(ConfigError, match="2 drones flew for 10 s, not 3"):
        recorded(tmp_path, TWO, 3, 10.0)
