"""Homes, and the load that follows from them."""

import numpy as np
import pytest

from nearcast.domain.errors import SnapshotError
from nearcast.domain.homes import Homes, cov_of, loads_plain

RATES = {"k1": 10.0, "k2": 4.0, "k3": 0.5}


def test_the_load_of_a_broker_is_what_it_pulls_once_and_sends_to_each() -> None:
    homes = Homes.of(("a", "b"), {"s1": ("a", ("k1", "k2")), "s2": ("a", ("k1",)), "s3": ("b", ("k3",))}, RATES)
    assert homes.loads(2).tolist() == [(1 + 2) * 10.0 + (1 + 1) * 4.0, (1 + 1) * 0.5]
    assert homes.loads(2).tolist() == loads_plain(homes, 2)
    assert homes.weights().tolist() == [14.0, 10.0, 0.5]


def test_who_has_subscribed_to_nothing_costs_nothing() -> None:
    assert Homes.of(("a", "b"), {"s": ("b", ())}, RATES).loads(2).tolist() == [0.0, 0.0]
    assert Homes.of(("a", "b"), {}, {}).loads(2).tolist() == [0.0, 0.0]


def test_order_of_facts_does_not_matter() -> None:
    facts = {"s2": ("a", ("k3", "k1")), "s1": ("b", ("k2",))}
    one = Homes.of(("a", "b"), facts, RATES)
    other = Homes.of(("a", "b"), dict(reversed(facts.items())), dict(reversed(RATES.items())))
    assert (one.subscribers, one.keys) == (other.subscribers, other.keys) == (("s1", "s2"), ("k1", "k2", "k3"))
    assert (one.key.tolist(), one.home.tolist()) == (other.key.tolist(), other.home.tolist())


def test_rates_are_kept_to_more_digits_than_anybody_measures() -> None:
    rates = {f"k{number}": rate for number, rate in enumerate(np.random.default_rng(1).lognormal(5, 3, 200).tolist())}
    homes = Homes.of(("a",), {"s": ("a", tuple(rates))}, rates)
    assert homes.rate.tolist() == pytest.approx([rates[key] for key in homes.keys], abs=1e-9 * max(rates.values()))


@pytest.mark.parametrize(
    ("subscribers", "rates", "message"),
    [
        ({"s": ("z", ())}, RATES, "the home of subscriber 's' is 'z', which is not a broker"),
        ({"s": ("a", ("k9",))}, RATES, "subscriber 's' has the subscription 'k9' without a rate"),
        ({"s": ("a", ("k1", "k1"))}, RATES, "subscriber 's' has the subscription 'k1' twice"),
        ({}, {"k": -1.0}, "subscription 'k' has -1.0 bytes a second"),
        ({}, {"k": float("nan")}, "subscription 'k' has nan bytes a second"),
        ({}, {"k": 1e300}, "less than 1e"),
    ],
)
def test_facts_that_contradict_are_refused(
    subscribers: dict[str, tuple[str, tuple[str, ...]]], rates: dict[str, float], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        Homes.of(("a",), subscribers, rates)


def test_cov_is_the_deviation_over_the_mean() -> None:
    assert cov_of(np.array([1.0, 3.0])) == 0.5
    assert cov_of(np.array([2.0, 2.0])) == 0.0
    assert cov_of(np.array([0.0, 0.0])) == 0.0
    assert cov_of(np.zeros(0)) == 0.0
