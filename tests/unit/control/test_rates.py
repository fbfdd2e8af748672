"""Moving averages of many rates."""

import numpy as np

from nearcast.control.rates import KeyRates, MovingRates


def add(rates: MovingRates, at_s: float, **amounts: float) -> None:
    rates.add(at_s, np.array([int(name[1:]) for name in amounts]), np.array(list(amounts.values())))


def test_a_burst_counts_evenly_over_the_window() -> None:
    rates = MovingRates(window_s=60.0, slot_s=10.0)
    for at_s in range(0, 120, 30):
        add(rates, float(at_s), k0=300.0)
    seen = [rates.rates(now_s, 1)[0] for now_s in (95.0, 100.0, 110.0)]
    assert seen == [10.0, 10.0, 10.0]


def test_what_is_older_than_the_window_is_forgotten() -> None:
    rates = MovingRates(window_s=20.0, slot_s=10.0)
    add(rates, 5.0, k0=100.0, k1=40.0)
    add(rates, 12.0, k0=20.0)
    assert rates.rates(12.0, 2).tolist() == [6.0, 2.0]
    assert rates.rates(21.0, 2).tolist() == [1.0, 0.0]
    assert rates.rates(500.0, 2).tolist() == [0.0, 0.0]
    add(rates, 5.0, k0=7.0)
    assert rates.rates(500.0, 2).tolist() == [0.0, 0.0]


def test_until_the_window_has_passed_rates_are_over_the_time_so_far() -> None:
    rates = MovingRates(window_s=60.0, slot_s=10.0)
    assert rates.rates(100.0, 1).tolist() == [0.0]
    add(rates, 101.0, k0=50.0)
    assert rates.rates(105.0, 1).tolist() == [5.0]


def test_things_may_come_later_and_a_thing_named_twice_counts_twice() -> None:
    rates = MovingRates(window_s=10.0, slot_s=10.0)
    add(rates, 0.0, k0=10.0)
    rates.add(1.0, np.array([4, 4]), np.array([10.0, 20.0]))
    assert rates.rates(2.0, 6).tolist() == [1.0, 0.0, 0.0, 0.0, 3.0, 0.0]


def test_by_name_one_that_is_forgotten_leaves_nothing_to_the_next() -> None:
    rates = KeyRates(window_s=10.0, slot_s=10.0)
    assert rates.look(0.0) == {}
    rates.add("a", 60)
    rates.add("a", 40)
    rates.add("b", 10)
    assert rates.look(1.0) == {"a": 10.0, "b": 1.0}
    rates.forget("a")
    rates.forget("nobody")
    rates.add("c", 30)
    assert rates.look(2.0) == {"b": 1.0, "c": 3.0}
    rates.add("d", 50)
    rates.forget("d")
    assert rates.look(25.0) == {"b": 0.0, "c": 0.0}
