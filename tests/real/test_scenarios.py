"""Drones over a real city's zones, along real drones' paths, and players between real cities."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments.epulsar_mmog import game_of
from nearcast.lab.experiments.epulsar_uav import flight_of
from nearcast.lab.workloads import swarms, zones


def test_swarms_cross_the_zones_of_a_real_city(data: Path) -> None:
    flight, facts = flight_of(RunSettings(mode="virtual", seed=1, data=data, duration_s=600.0))
    assert facts["cells"] == "real"
    assert len(flight.crossings) > flight.swarms + 4
    assert {each.zone for each in flight.crossings} == set(range(4))


def test_real_drones_paths_are_flown_over_the_city(data: Path) -> None:
    settings = RunSettings(mode="virtual", seed=1, data=data, duration_s=600.0, recorded=True)
    flight, facts = flight_of(settings)
    assert flight == flight_of(settings)[0]
    assert facts["paths"] == "recorded"
    assert len(flight.crossings) > flight.swarms


def test_the_busiest_real_drones_are_taken_whole(data: Path) -> None:
    rng = np.random.default_rng(1)
    city = zones.Zones.of(zones.measured_cells(data), 4, rng)
    tracks, factor = swarms.recorded(data, city, 8, 300.0)
    assert factor > 1.0
    for track in tracks:
        assert track.at_s[0] == 0.0
        assert 299.0 <= track.at_s[-1] <= 301.0
        assert (track.km >= city.low - 1e-6).all()
        assert (track.km <= city.high + 1e-6).all()
    widths_km = [float(np.ptp(track.km, axis=0).max()) for track in tracks]
    assert max(widths_km) <= float((city.high - city.low).min()) + 1e-6


def test_players_are_between_real_cities(data: Path) -> None:
    settings = RunSettings(mode="virtual", seed=1, data=data)
    game = game_of(settings)
    assert "New York" in game.cities
    far_s = [game.between_s(one, other) for one in range(5) for other in range(5) if one != other]
    assert 0.001 < min(far_s) < max(far_s) < 0.2
    matrix = data / "latency" / "wondernetwork2020_avg_ms.npy"
    other = game_of(replace(settings, data=None, latency_matrix=matrix))
    assert "New York" in other.cities
    assert len(other.cities) == 5
