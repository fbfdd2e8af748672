"""When the machine stood still, and what was under way then."""

import pytest

from nearcast.lab.live.stalls import Stalls


def test_a_stall_counts_twice_its_length() -> None:
    stalls = Stalls([(10.0, 10.5)])
    assert not stalls.held_up(9.0, 9.9)
    assert stalls.held_up(9.9, 10.1)
    assert stalls.held_up(10.9, 12.0)
    assert not stalls.held_up(11.1, 12.0)


def test_what_spans_a_stall_was_under_way_in_it() -> None:
    assert Stalls([(10.0, 10.1)]).held_up(9.0, 12.0)


def test_what_met_several_short_ones_was_held_up_by_all_of_them() -> None:
    stalls = Stalls([(10.000, 10.002), (10.010, 10.012), (10.020, 10.022)])
    assert stalls.held_up(9.99, 10.03)
    assert stalls.held_up(10.003, 10.03), "what piled up in the first is worked off"
    assert not stalls.held_up(10.005, 10.03)
    assert not stalls.held_up(9.99, 10.019)


def test_stalls_of_two_processors_are_told_once() -> None:
    stalls = Stalls([(10.2, 10.6), (10.0, 10.5), (20.0, 20.25)])
    assert stalls.total_s(0.0, 100.0) == pytest.approx(0.85)
    assert stalls.total_s(10.5, 20.1) == pytest.approx(0.2)
    assert stalls.held_up(11.15, 11.17)
    assert not stalls.held_up(11.5, 12.0)
    assert not Stalls([(10.0, 10.003), (10.001, 10.004)]).held_up(9.0, 11.0)


def test_a_longer_stall_hides_no_end_behind_a_shorter_one() -> None:
    stalls = Stalls([(10.0, 11.0), (10.1, 10.2)])
    assert stalls.held_up(11.9, 11.95)


def test_a_shorter_stall_hides_no_longer_one_before_it() -> None:
    assert Stalls([(10.0, 11.0), (11.5, 11.501)]).held_up(11.6, 11.7)


def test_without_any_nothing_was_held_up() -> None:
    assert not Stalls().held_up(0.0, 1e12)
