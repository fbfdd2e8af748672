"""How fine a grid is."""

import math

import pytest

from nearcast.pipeline.grid import EARTH_KM, scale


@pytest.mark.parametrize("km", [0.0, 0.001, 1.0, 37.0, 5_000.0, 20_015.0, 1e9])
def test_a_box_around_a_usual_distance_has_two_cubes_a_side_at_most(km: float) -> None:
    chord = 2 * math.sin(min(km / EARTH_KM, math.pi) / 2)
    assert 2 * chord * scale(km, km) <= 1 or scale(km, km) == 1


@pytest.mark.parametrize("largest_km", [1.0, 500.0, 20_015.0])
def test_the_largest_distance_does_not_make_thousands_of_cubes(largest_km: float) -> None:
    chord = 2 * math.sin(min(largest_km / EARTH_KM, math.pi) / 2)
    cubes_a_side = 2 * min(chord, 1) * scale(largest_km, 0.001) + 1
    assert cubes_a_side <= 18


def test_three_indices_fit_into_a_bigint() -> None:
    assert 2 * scale(0.0, 0.0) + 1 < 1 << 21
