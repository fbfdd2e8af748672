"""One node's coordinate, update by update."""

import math
import random
from dataclasses import replace

import pytest

from nearcast.coords.coordinate import ERROR_MAX, HEIGHT_MIN_S, Coordinate
from nearcast.coords.vivaldi import FILTER_SIZE, WINDOW, Vivaldi, forgotten, updated
from nearcast.domain.errors import BadSample

HERE = Coordinate((0.010, 0.0), height=0.001)
THERE = Coordinate((0.050, 0.0), height=0.002)


def chance() -> float:
    return 0.75


def test_the_distance_is_that_of_the_vectors_and_both_heights_and_adjustments() -> None:
    assert HERE.distance_s(THERE) == pytest.approx(0.043)
    assert replace(HERE, adjustment=-0.003).distance_s(THERE) == pytest.approx(0.040)
    assert HERE.distance_s(THERE) == THERE.distance_s(HERE)


def test_an_adjustment_that_would_make_the_distance_negative_does_not_count() -> None:
    assert replace(HERE, adjustment=-1.0).distance_s(THERE) == pytest.approx(0.043)


def test_a_longer_round_trip_pushes_away_and_a_shorter_one_pulls() -> None:
    away = updated(Vivaldi(HERE), "there", THERE, 0.100, chance).coordinate
    near = updated(Vivaldi(HERE), "there", THERE, 0.010, chance).coordinate
    assert away.vec[0] < HERE.vec[0] < near.vec[0]
    assert away.height > HERE.height > near.height >= HEIGHT_MIN_S


def test_who_is_surer_moves_less() -> None:
    sure = updated(Vivaldi(replace(HERE, error=0.1)), "there", THERE, 0.100, chance).coordinate
    unsure = updated(Vivaldi(HERE), "there", THERE, 0.100, chance).coordinate
    assert abs(sure.vec[0] - HERE.vec[0]) < abs(unsure.vec[0] - HERE.vec[0])


def test_nodes_at_one_place_part_in_a_direction_of_chance() -> None:
    one = updated(Vivaldi(), "twin", Coordinate(), 0.050, random.Random(1).random).coordinate
    other = updated(Vivaldi(), "twin", Coordinate(), 0.050, random.Random(2).random).coordinate
    assert any(one.vec)
    assert one.vec != other.vec
    assert one == updated(Vivaldi(), "twin", Coordinate(), 0.050, random.Random(1).random).coordinate


def test_the_median_of_the_last_three_counts_so_that_one_outlier_does_not() -> None:
    calm = outlier = Vivaldi(HERE)
    for rtt_s in (0.043, 0.043):
        calm, outlier = (updated(each, "there", THERE, rtt_s, chance) for each in (calm, outlier))
    calm, outlier = updated(calm, "there", THERE, 0.043, chance), updated(outlier, "there", THERE, 9.0, chance)
    assert outlier.coordinate == calm.coordinate
    assert len(outlier.recent["there"]) == FILTER_SIZE


def test_the_adjustment_is_half_of_what_measurements_exceed_the_raw_distance_by_on_average() -> None:
    state = updated(Vivaldi(HERE), "there", THERE, 0.100, chance)
    pulled = state.beyond[0]
    assert pulled > 0
    assert state.coordinate.adjustment == pytest.approx(pulled / (2 * WINDOW))
    assert state.at == 1


@pytest.mark.parametrize("rtt_s", [-1e-9, 10.000001, math.nan, math.inf])
def test_a_round_trip_time_that_cannot_be_is_refused(rtt_s: float) -> None:
    with pytest.raises(BadSample, match="there: a round-trip time of"):
        updated(Vivaldi(HERE), "there", THERE, rtt_s, chance)


@pytest.mark.parametrize(
    "other",
    [
        Coordinate((0.0, math.nan)),
        Coordinate((1e308, 1e308)),
        Coordinate((0.0, 0.0), height=math.inf),
        Coordinate((0.0, 0.0), error=math.nan),
    ],
)
def test_a_coordinate_that_no_node_can_have_is_refused(other: Coordinate) -> None:
    with pytest.raises(BadSample, match="there: a coordinate that no node can have"):
        updated(Vivaldi(HERE), "there", other, 0.010, chance)


def test_a_coordinate_of_other_dimensions_is_refused() -> None:
    with pytest.raises(BadSample, match="of 3 dimensions; ours have 2"):
        updated(Vivaldi(HERE), "there", Coordinate((0.0, 0.0, 0.0)), 0.010, chance)


def test_a_state_that_has_become_nonsense_begins_anew() -> None:
    far = Vivaldi(Coordinate((1e5, 0.0), error=ERROR_MAX))
    after = updated(far, "there", THERE, 0.010, chance)
    assert after.resets == 1
    assert after.coordinate == Coordinate((0.0, 0.0))


def test_a_peer_that_is_gone_is_forgotten() -> None:
    state = updated(Vivaldi(HERE), "there", THERE, 0.010, chance)
    assert forgotten(state, "there").recent == {}
    assert forgotten(state, "nobody").recent == {"there": (0.010,)}
