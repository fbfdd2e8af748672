"""Rank correlation and knees, beside what can be reckoned by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.lab.knee import best_tellers, knee, rank_correlation, ranks, rising


def test_equal_values_share_their_ranks() -> None:
    assert ranks([30.0, 10.0, 20.0, 20.0]).tolist() == [4.0, 1.0, 2.5, 2.5]


def test_what_rises_together_is_one_and_what_falls_is_minus_one() -> None:
    assert rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1, 1], [1, 2, 3]) == 0.0


def test_it_is_spearmans_by_its_formula_without_ties() -> None:
    one, other = [86, 97, 99, 100, 101, 103, 106, 110, 112, 113], [2, 20, 28, 27, 50, 29, 7, 17, 6, 12]
    squares = ((ranks(one) - ranks(other)) ** 2).sum()
    assert rank_correlation(one, other) == pytest.approx(1 - 6 * squares / (10 * 99))


def test_the_strongest_comes_first_whatever_its_sign() -> None:
    told = best_tellers({"weak": [1, 3, 2, 4], "against": [4, 3, 2, 1], "none": [1, 1, 1, 1]}, [1, 2, 3, 4])
    assert list(told) == ["against", "weak", "none"]


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30))
def test_a_curve_that_never_falls_keeps_the_mean(values: list[float]) -> None:
    found = rising(values)
    assert len(found) == len(values)
    assert (np.diff(found) >= -1e-9).all()
    assert found.mean() == pytest.approx(np.mean(values), abs=1e-6)


def test_a_ceiling_far_above_does_not_hide_the_knee() -> None:
    rate = np.geomspace(100, 10_000, 60)
    late = np.clip((rate / 1000.0) ** 6, 1.0, 800.0)  # runs that are ended: nothing is later than they took
    assert knee(rate, late) == pytest.approx(1000.0, rel=0.1)


@pytest.mark.parametrize("at", [2000.0, 5000.0, 8000.0])
def test_a_knee_is_found_where_latency_leaves_the_floor_also_with_noise(at: float) -> None:
    chance = np.random.default_rng(3)
    rate = np.linspace(100, 10_000, 100)
    late = np.where(rate < at, 1.0, 1.0 + (rate - at) / 10) * chance.lognormal(0.0, 0.1, 100)
    order = chance.permutation(100)
    assert knee(rate[order], late[order]) == pytest.approx(at, rel=0.15)


def test_a_straight_line_and_too_few_points_have_no_knee() -> None:
    rate = np.linspace(1, 10, 20)
    assert knee(rate, rate**3) is None
    assert knee(rate, np.ones(20)) is None
    assert knee([1, 2, 3], [1, 1, 100]) is None
