"""The first home of a subscriber."""

import numpy as np
import pytest

from nearcast.domain.errors import ConfigError
from nearcast.policies.placements import PLACEMENTS, Arrival, placement_named

LOADS = np.array([5.0, 1.0, 3.0])


def test_the_nearest_is_taken_of_those_whose_distance_is_known() -> None:
    place = placement_named("nearest")
    assert place(Arrival(LOADS, np.array([9.0, 8.0, 7.0]))) == 2
    assert place(Arrival(LOADS, np.array([9.0, np.nan, np.nan]))) == 0
    assert place(Arrival(LOADS, np.full(3, np.nan), number=4)) == 1
    assert place(Arrival(LOADS, number=5)) == 2


def test_by_turns_everyone_gets_as_many() -> None:
    place = placement_named("round-robin")
    assert [place(Arrival(LOADS, number=number)) for number in range(6)] == [0, 1, 2, 0, 1, 2]


def test_by_chance_all_are_as_likely() -> None:
    place = placement_named("random")
    assert [place(Arrival(LOADS, chance=chance)) for chance in (0.0, 0.33, 0.34, 0.67, 0.999, 1.0)] == [
        0,
        0,
        1,
        2,
        2,
        2,
    ]


def test_those_who_come_before_anybody_has_subscribed_all_go_to_one_broker() -> None:
    assert placement_named("least-loaded")(Arrival(LOADS)) == 1
    assert {PLACEMENTS["least-loaded"](Arrival(np.zeros(3), number=number)) for number in range(9)} == {0}


def test_a_placement_that_is_not_known_and_a_fleet_without_a_broker_are_refused() -> None:
    with pytest.raises(ConfigError, match="placement 'best' is not known; there are least-loaded, nearest"):
        placement_named("best")
    with pytest.raises(ConfigError, match="no broker is there"):
        Arrival(np.zeros(0))
