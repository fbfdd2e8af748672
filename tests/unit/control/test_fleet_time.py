"""The fleet's time as one process knows it."""

import pytest

from nearcast.control.fleet_time import DRIFT, FleetTime, Reading, compared


def test_a_symmetric_exchange_gives_the_round_trip_and_the_offset_exactly() -> None:
    # Sent at 10 on our clock; theirs is 500 ahead; 0.02 there, held for 0.1, 0.02 back.
    rtt_s, ahead_s = compared(10.0, 510.02, 510.12, 10.14)
    assert rtt_s == pytest.approx(0.04)
    assert ahead_s == pytest.approx(500.0)


@pytest.mark.parametrize("there_s", [0.0, 0.01, 0.04])
def test_an_asymmetric_one_is_wrong_by_half_the_round_trip_at_most(there_s: float) -> None:
    back_s = 0.04 - there_s
    rtt_s, ahead_s = compared(10.0, 510.0 + there_s, 510.0 + there_s, 10.0 + there_s + back_s)
    assert rtt_s == pytest.approx(0.04)
    assert abs(ahead_s - 500.0) <= rtt_s / 2 + 1e-9


def test_the_surest_of_late_counts_until_age_has_made_it_less_sure_than_a_newer_one() -> None:
    time = FleetTime()
    time.take(Reading(0.0, 100.001, 0.001))
    time.take(Reading(10.0, 100.02, 0.02))
    assert time.ahead_s == 100.001
    assert time.uncertainty_s(10.0) == pytest.approx(0.001 + 10 * DRIFT)
    time.take(Reading(99.0, 100.015, 0.015))
    assert time.ahead_s == 100.015, "99 seconds have made the first worse than that"


def test_what_is_older_than_two_minutes_is_forgotten() -> None:
    time = FleetTime()
    time.take(Reading(0.0, 100.0, 0.0))
    time.take(Reading(130.0, 101.0, 1.0))
    assert time.ahead_s == 101.0


def test_another_leaders_clock_replaces_all_and_an_earlier_ones_is_not_taken() -> None:
    time = FleetTime()
    time.take(Reading(0.0, 100.0, 0.001, term=1))
    time.take(Reading(1.0, 200.0, 0.5, term=2))
    assert (time.ahead_s, time.term) == (200.0, 2)
    time.take(Reading(2.0, 100.0, 0.0, term=1))
    assert time.ahead_s == 200.0


def test_the_wall_clock_serves_only_until_something_was_read() -> None:
    time = FleetTime()
    time.unknown(50.0)
    assert (time.ahead_s, time.mark, time.uncertainty_s(0.0)) == (50.0, 0, None)
    time.take(Reading(0.0, 100.0, 0.001))
    time.unknown(60.0)
    assert (time.ahead_s, time.mark) == (100.0, 1)


def test_a_better_reading_makes_time_wander_by_what_it_corrects_and_drift_does_not() -> None:
    time = FleetTime()
    time.take(Reading(0.0, 100.0, 0.010))
    time.take(Reading(100.0, 100.0 + 99 * DRIFT, 0.010))
    assert time.wander_s(100.0) == 0.0
    time.take(Reading(101.0, 100.008 + 100 * DRIFT, 0.001))
    assert time.wander_s(101.0) == pytest.approx(0.008)
    assert time.wander_s(300.0) == 0.0
