"""When the machine stood still, and what was under way then."""

import pytest

from nearcast.lab.live.stalls import Stalls


def test_a_stall_counts_twice_its_length() -> None:
    stalls = Stalls([(10.0, 10.5)])
    assert not stalls.during(9.0, 9.9)
    assert stalls.during(9.9, 10.1)
    assert stalls.during(10.9, 12.0)
    assert not stalls.during(11.1, 12.0)


def test_what_spans_a_stall_was_under_way_in_it() -> None:
    assert Stalls([(10.0, 10.1)]).during(9.0, 12.0)


def test_stalls_of_two_processors_are_told_once() -> None:
    stalls = Stalls([(10.2, 10.6), (10.0, 10.5), (20.0, 20.25)])
    assert stalls.total_s(0.0, 100.0) == pytest.approx(1.5)
    assert stalls.total_s(10.5, 20.25) == pytest.approx(0.75)
    assert stalls.during(10.95, 10.97)
    assert not stalls.during(11.5, 12.0)


def test_a_longer_stall_hides_no_end_behind_a_shorter_one() -> None:
    stalls = Stalls([(10.0, 11.0), (10.1, 10.2)])
    assert stalls.during(11.9, 11.95)


def test_without_any_nothing_was_held_up() -> None:
    assert not Stalls().during(0.0, 1e12)
