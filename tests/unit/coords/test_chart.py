"""The map of all brokers, from what each of them measured of some."""

from itertools import combinations

import numpy as np
import pytest

from nearcast.coords.chart import charted
from nearcast.coords.coordinate import DIMENSIONS, Coordinate
from nearcast.domain.whereabouts import Spot


def world(count: int, seed: int) -> tuple[dict[str, Spot], dict[tuple[str, str], float]]:
    """Brokers on a plane, up to 100 ms apart, each with an access of up to 5 ms; agents are wrong by some 10 ms."""
    rng = np.random.default_rng(seed)
    at, access_s = rng.uniform(0.0, 0.07, (count, 2)), rng.uniform(0.0, 0.005, count)
    names = [f"b{number:02}" for number in range(count)]
    told = np.zeros((count, DIMENSIONS))
    told[:, :2] = at
    told += rng.normal(0.0, 0.01, told.shape)
    rtts_s = {
        (names[one], names[other]): float(np.linalg.norm(at[one] - at[other]) + access_s[one] + access_s[other])
        for one, other in combinations(range(count), 2)
    }
    return {name: Spot(tuple(told[number].tolist()), 0.001) for number, name in enumerate(names)}, rtts_s


def spots(found: dict[str, Coordinate]) -> dict[str, Spot]:
    return {name: Spot(each.vec, each.height) for name, each in found.items()}


def errors(found: dict[str, Spot], pairs: dict[tuple[str, str], float]) -> np.ndarray:
    at = {name: Coordinate(each.vec, each.height) for name, each in found.items()}
    return np.array([abs(at[one].distance_s(at[other]) / rtt_s - 1.0) for (one, other), rtt_s in pairs.items()])


def test_brokers_stand_better_to_those_that_they_have_not_measured_than_they_knew() -> None:
    told, rtts_s = world(30, seed=1)
    rng = np.random.default_rng(2)
    measured = {pair: rtt_s for pair, rtt_s in rtts_s.items() if rng.random() < 0.7}
    others = {pair: rtt_s for pair, rtt_s in rtts_s.items() if pair not in measured}
    found = told
    for _ in range(10):
        found = spots(charted(found, measured))
    assert len(found) == 30
    assert np.median(errors(found, others)) < 0.5 * np.median(errors(told, others))


def test_a_map_that_is_drawn_again_stays_where_it_is() -> None:
    told, rtts_s = world(12, seed=3)
    for _ in range(20):
        told = spots(charted(told, rtts_s))
    again = charted(told, rtts_s)
    moved_s = [np.linalg.norm(np.subtract(again[name].vec, told[name].vec)) for name in told]
    assert max(moved_s) < 0.005
    assert np.median(errors(spots(again), rtts_s)) < 0.02
    assert max(each.error for each in again.values()) < 0.1


@pytest.mark.parametrize("rtt_s", [0.01, 0.2])
def test_sites_on_a_star_are_found_however_near_they_are(rtt_s: float) -> None:
    """By steps of a fixed length those that are near would never come to rest."""
    rng = np.random.default_rng(8)
    names = [f"b{number:02}" for number in range(16)]
    told = {name: Spot(tuple(rng.normal(0.0, 0.2 * rtt_s, DIMENSIONS).tolist()), 0.001) for name in names}
    rtts_s = {pair: rtt_s + float(rng.exponential(0.005 * rtt_s)) for pair in combinations(names, 2)}
    for _ in range(24):
        told = spots(charted(told, rtts_s))
    assert np.percentile(errors(told, dict.fromkeys(rtts_s, rtt_s)), 95) < 0.03


def test_who_has_measured_few_of_many_is_not_on_the_map() -> None:
    told, rtts_s = world(30, seed=4)
    shy = {pair: rtt_s for pair, rtt_s in rtts_s.items() if "b07" not in pair or pair[0] in {"b01", "b02"}}
    assert set(told) - set(charted(told, shy)) == {"b07"}


def test_who_has_no_place_yet_or_one_in_another_space_is_not_on_the_map() -> None:
    told, rtts_s = world(6, seed=5)
    told |= {"b01": Spot((0.0,) * DIMENSIONS, 0.001), "b02": Spot((0.1, 0.2), 0.001)}
    assert set(charted(told, rtts_s)) == {"b00", "b03", "b04", "b05"}


@pytest.mark.parametrize("count", [0, 1])
def test_there_is_no_map_of_one(count: int) -> None:
    assert charted(*world(count, seed=6)) == {}


def test_there_is_no_map_where_nothing_was_measured() -> None:
    told, _ = world(5, seed=7)
    assert charted(told, {}) == {}
