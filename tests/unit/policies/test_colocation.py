from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from nearcast.domain.snapshot import Bools, Floats, Ints
from nearcast.policies.colocation import Placed, Topics, exact, feasible_sets, first_fit, hybrid, largest_set


class Whimsical:
    """A latency model that is not monotone: the sum of loads, and a whim that is the same for the same topics."""

    most = 6

    def __init__(self, whim: float) -> None:
        self.whim = whim

    def p90_ms(self, interval_ms: Floats, rate_hz: Floats) -> Floats:
        load = (interval_ms * rate_hz).sum(axis=1, keepdims=True)
        whim = np.sin(97.0 * (interval_ms + 3.0 * rate_hz).sum(axis=1, keepdims=True))
        return np.broadcast_to(load * (1.0 + self.whim * whim), interval_ms.shape)


def topics(seed: int, count: int, whim: float = 0.3) -> Topics:
    rng = np.random.default_rng(seed)
    interval_ms = rng.choice([10.0, 20.0, 30.0, 40.0], count)
    rate_hz = np.ceil(rng.uniform(0.0, 900.0, count) / interval_ms)
    order = np.argsort(-interval_ms * rate_hz, kind="stable")
    bound_ms = rng.choice([900.0, 1000.0], count)
    return Topics(Whimsical(whim), interval_ms[order], rate_hz[order], 2.0 * bound_ms)


def star(feasible: Callable[[Ints], Bools], members: tuple[int, ...]) -> bool:
    parts = [part for size in range(2, len(members) + 1) for part in combinations(members, size)]
    return all(bool(feasible(np.array([part]))[0]) for part in parts)


def brute_force(of: Topics, searched: int, most: int) -> Placed:
    """Algorithms 1 to 3 as they are written, every set in its turn."""
    left = list(range(len(of)))
    placed: Placed = []
    for size in range(searched, 0, -1):
        if size == 2 and (most == 2 or searched > 2):
            break
        while found := next((each for each in combinations(left, size) if star(of.feasible, each)), None):
            content = list(found)
            left = [each for each in left if each not in content]
            for each in left[:] if size == searched else []:
                if len(content) < most and star(of.feasible, tuple(sorted([*content, each]))):
                    content.append(each)
                    left.remove(each)
            placed.append(content)
    return placed


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("searched", "most"), [(6, 6), (3, 6), (4, 4), (1, 6), (2, 6)])
def test_the_pruned_search_finds_what_trying_all_sets_finds(seed: int, searched: int, most: int) -> None:
    of = topics(seed, 12)
    found = hybrid(of, searched, most)
    expected = brute_force(of, searched, most)
    assert found[: len(expected)] == expected
    assert all(len(each) <= 2 for each in found[len(expected) :])
    assert sorted(at for each in found for at in each) == list(range(12))


@pytest.mark.parametrize("seed", range(6))
def test_first_fit_puts_each_topic_on_the_first_broker_that_it_fits(seed: int) -> None:
    of = topics(seed, 40)
    brokers: Placed = []
    for each in range(len(of)):
        fitting = (b for b in brokers if len(b) < 6 and star(of.feasible, tuple(sorted([*b, each]))))
        if (broker := next(fitting, None)) is None:
            brokers.append([each])
        else:
            broker.append(each)
    assert first_fit(of, 6) == brokers


@pytest.mark.parametrize("seed", range(20))
def test_two_topics_at_a_broker_are_a_matching_and_nothing_is_better(seed: int) -> None:
    of = topics(seed, 14)
    assert len(largest_set(of, 2)) == len(exact(of, 2))


@pytest.mark.parametrize("seed", range(5))
def test_no_heuristic_has_fewer_brokers_than_the_exact_one(seed: int) -> None:
    of = topics(seed, 12)
    least = exact(of, 6)
    assert sorted(at for each in least for at in each) == list(range(12))
    assert all(star(of.feasible, tuple(sorted(each))) for each in least)
    for found in (first_fit(of, 6), largest_set(of, 6), hybrid(of, 3, 6)):
        assert len(found) >= len(least)


def test_a_set_that_a_model_takes_although_it_refuses_a_part_of_it_is_not_feasible() -> None:
    def whimsical(sets: Ints) -> Bools:
        return np.array([set(each) != {0, 2} for each in sets.tolist()])

    left = np.ones(4, dtype=np.bool_)
    assert list(feasible_sets(whimsical, 3, left)) == [[0, 1, 3], [1, 2, 3]]
    assert not list(feasible_sets(whimsical, 4, left))


def test_topics_that_are_gone_meanwhile_come_in_no_set() -> None:
    left = np.ones(6, dtype=np.bool_)
    found = []
    for each in feasible_sets(lambda sets: np.ones(len(sets), dtype=np.bool_), 2, left):
        left[each] = False
        found.append(each)
    assert found == [[0, 1], [2, 3], [4, 5]]


def test_topics_of_one_kind_are_looked_at_once() -> None:
    of = Topics(Whimsical(0.0), np.full(5000, 10.0), np.full(5000, 30.0), np.full(5000, 1000.0))
    assert [len(each) for each in first_fit(of, 6)] == [3] * 1666 + [2]
    assert of.looked_at < 20
