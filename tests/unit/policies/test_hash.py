"""The hashing baseline: where the ring has it, and one server more whenever one is overloaded."""

import pytest

from nearcast.domain.ring import Ring
from nearcast.domain.route import Strategy, route
from nearcast.policies.hash import hashing
from nearcast.policies.settings import Settings
from tests.unit.policies.fleet import fleet, load

NOW_S = 100.0
TOPICS = [f"t{i}" for i in range(40)]
CALM = {
    name: [load(topic, 1.0) for topic in TOPICS if Ring(("a", "b"), vnodes=8).owner(topic) == name] for name in "ab"
}


def test_topics_at_their_owners_stay_there() -> None:
    plan = hashing(fleet(CALM, ring=("a", "b")), Settings(), NOW_S)
    assert not plan.changes
    assert dict(plan.load_ratios) == {name: pytest.approx(len(loads) / 100) for name, loads in CALM.items()}


def test_a_topic_that_is_elsewhere_is_brought_back_to_its_owner() -> None:
    owner = Ring(("a", "b"), vnodes=8).owner("t0")
    other = "b" if owner == "a" else "a"
    routes = {"t0": route(4, Strategy.ALL_PUBLISHERS, ("a", "b")), "t1": route(1, Strategy.SINGLE, (other,))}
    plan = hashing(fleet(CALM, routes, ring=("a", "b")), Settings(), NOW_S)
    assert ("t0", Strategy.SINGLE, (owner,)) in [(step.topic, step.strategy, step.brokers) for step in plan.steps]
    assert plan.ring is None


def test_an_overloaded_server_has_one_rented_and_nothing_moved() -> None:
    plan = hashing(fleet({"a": [load("t", 85.0)]}), Settings(), NOW_S)
    assert (plan.rent, plan.steps, plan.ring) == (1, (), None)
    assert plan.reasons == ("rent 1: a is at 0.85 of its capacity",)


def test_none_is_rented_while_one_is_on_its_way_or_when_there_are_enough() -> None:
    assert hashing(fleet({"a": [load("t", 85.0)]}, renting=1), Settings(), NOW_S).rent == 0
    plan = hashing(fleet({"a": [load("t", 85.0)]}), Settings(max_brokers=1), NOW_S)
    assert (plan.rent, plan.reasons) == (0, ("a is at 0.85 of its capacity; no more may be rented",))


def test_a_new_server_takes_its_share_of_every_other_whatever_their_load() -> None:
    ring = Ring(("a", "b"), vnodes=8)
    topics = [f"t{i}" for i in range(300)]
    heavy = {
        "a": [load(topic, 0.7) for topic in topics if ring.owner(topic) == "a"],
        "b": [load(topic, 0.01) for topic in topics if ring.owner(topic) == "b"],
        "c": [],
    }
    plan = hashing(fleet(heavy, ring=("a", "b")), Settings(), NOW_S)
    grown = Ring(("a", "b", "c"), vnodes=8)
    assert (plan.ring, plan.rent) == (("a", "b", "c"), 0)
    assert {step.topic: step.brokers for step in plan.steps} == {
        topic: ("c",) for topic in topics if grown.owner(topic) == "c"
    }
    assert {step.was_brokers for step in plan.steps} == {("a",), ("b",)}


def test_a_server_that_is_not_needed_does_not_join() -> None:
    assert not hashing(fleet({**CALM, "c": []}, ring=("a", "b")), Settings(), NOW_S).changes


def test_each_rebalancing_adds_one_server() -> None:
    plan = hashing(fleet({"a": [load(f"t{i}", 1.0) for i in range(90)], "b": [], "c": []}), Settings(), NOW_S)
    assert plan.ring == ("a", "b")


def test_what_is_drained_leaves_the_ring_and_loses_everything() -> None:
    plan = hashing(fleet(CALM, ring=("a", "b"), draining=("a",)), Settings(), NOW_S)
    assert plan.ring == ("b",)
    assert sorted(step.topic for step in plan.steps) == sorted(each.topic for each in CALM["a"])
    assert {step.brokers for step in plan.steps} == {("b",)}


def test_a_ring_with_a_silent_server_is_not_changed() -> None:
    plan = hashing(fleet(CALM, ring=("a", "b", "gone"), draining=("a",)), Settings(), NOW_S)
    assert plan.ring is None
    assert plan.reasons == ("the ring stays as it is while gone does not report",)


def test_there_is_a_wait_between_two_plans() -> None:
    seen = fleet({"a": [load("t", 85.0)]}, planned_s=81.0)
    assert not hashing(seen, Settings(), NOW_S).changes
    assert hashing(seen, Settings(), 101.0).rent == 1
