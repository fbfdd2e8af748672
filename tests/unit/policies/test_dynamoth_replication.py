"""Algorithm 1: which topics need more than one server."""

import pytest

from nearcast.domain.plan import Plan
from nearcast.domain.route import Strategy, route
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.dynamoth import dynamoth
from nearcast.policies.dynamoth_replication import Bounds, replicas_plain
from nearcast.policies.settings import Replication, Settings
from tests.unit.policies.fleet import fleet, load

THRESHOLDS = Replication(
    all_subscribers_ratio=100.0, publications=50.0, all_publishers_ratio=10.0, subscribers=20, most=6
)
ROOMY = Bounds(most=1e9, share=1e9)
SINGLE, ALL_SUBSCRIBERS, ALL_PUBLISHERS = Strategy.SINGLE, Strategy.ALL_SUBSCRIBERS, Strategy.ALL_PUBLISHERS


def planned(seen: Snapshot, **settings: object) -> Plan:
    return dynamoth(seen, Settings(replication=THRESHOLDS, **settings), 100.0)  # type: ignore[arg-type]  # as above


def outcome(plan: Plan) -> list[tuple[Strategy, tuple[str, ...]]]:
    return [(step.strategy, step.brokers) for step in plan.steps]


@pytest.mark.parametrize(
    ("publications", "subscribers", "expected"),
    [
        (300.0, 1, (ALL_SUBSCRIBERS, 3)),
        (301.0, 1, (ALL_SUBSCRIBERS, 4)),
        (100.0, 1, (SINGLE, 1)),  # the ratio must be above the threshold
        (50.0, 0, (SINGLE, 1)),  # and so must the publications
        (10.0, 400, (ALL_PUBLISHERS, 4)),
        (10.0, 100, (SINGLE, 1)),
        (1.0, 20, (SINGLE, 1)),
        (1.0, 21, (ALL_PUBLISHERS, 2)),
        (0.001, 21, (ALL_PUBLISHERS, 2)),  # by the ratio alone it would be 2,100 servers
        (51.0, 21, (ALL_SUBSCRIBERS, 2)),  # the corner case
        (51.0, 5000, (ALL_SUBSCRIBERS, 2)),  # also where subscribers per publication say otherwise
        (500.0, 5000, (ALL_SUBSCRIBERS, 10)),
        (300.0, 0, (ALL_SUBSCRIBERS, 3)),
    ],
)
def test_ratios_decide_on_the_strategy_and_the_number_of_servers(
    publications: float, subscribers: int, expected: tuple[Strategy, int]
) -> None:
    assert replicas_plain(publications, subscribers, 1.0, THRESHOLDS, ROOMY) == expected


def test_a_topic_that_no_single_server_could_carry_is_the_corner_case_too() -> None:
    bounds = Bounds(most=80.0, share=60.0)
    assert replicas_plain(40.0, 10, 80.0, THRESHOLDS, bounds) == (SINGLE, 1)
    assert replicas_plain(40.0, 10, 81.0, THRESHOLDS, bounds) == (ALL_SUBSCRIBERS, 2)
    assert replicas_plain(10.0, 400, 600.0, THRESHOLDS, bounds) == (ALL_PUBLISHERS, 10)


def test_the_paper_s_experiment_of_800_subscribers_gets_its_three_servers() -> None:
    assert replicas_plain(10.0, 800, 1.0, Replication(), ROOMY) == (ALL_PUBLISHERS, 3)
    assert replicas_plain(10.0, 100, 1.0, Replication(), ROOMY) == (SINGLE, 1)


def test_the_paper_s_experiment_of_800_publishers_is_replicated_for_its_subscriber() -> None:
    assert replicas_plain(8000.0, 1, 1.0, Replication(), ROOMY) == (ALL_SUBSCRIBERS, 6)
    assert replicas_plain(1000.0, 1, 1.0, Replication(), ROOMY) == (SINGLE, 1)


def test_more_servers_are_taken_least_loaded_first() -> None:
    seen = fleet({"a": [load("t", 9.0, 300.0)], "b": [load("x", 30.0)], "c": [load("y", 10.0)], "d": [load("z", 20.0)]})
    plan = planned(seen, min_brokers=4)
    assert outcome(plan) == [(ALL_SUBSCRIBERS, ("a", "c", "d"))]
    assert plan.steps[0].reason == (
        "300 publications/s for 1 subscribers, many publications per subscriber: all_subscribers on 3 servers"
    )
    assert dict(plan.load_ratios) == {"a": 0.03, "b": 0.30, "c": pytest.approx(0.13), "d": pytest.approx(0.23)}


def test_servers_are_freed_busiest_first() -> None:
    loads = {name: [load("t", 3.0, 40.0)] for name in "abcd"}
    loads["b"].append(load("x", 50.0))
    loads["c"].append(load("y", 40.0))
    seen = fleet(loads, {"t": route(1, ALL_SUBSCRIBERS, "abcd")})
    assert outcome(planned(seen, min_brokers=4)) == [(ALL_SUBSCRIBERS, ("a", "d"))]


def test_replication_that_is_no_longer_needed_is_cancelled_on_the_least_loaded_server() -> None:
    loads = {"a": [load("t", 3.0, 5.0), load("x", 30.0)], "b": [load("t", 3.0, 5.0), load("y", 25.0)]}
    plan = planned(fleet(loads, {"t": route(1, ALL_SUBSCRIBERS, "ab")}))
    assert outcome(plan) == [(SINGLE, ("b",))]
    assert plan.steps[0].reason == "10 publications/s for 1 subscribers: one server is enough"


def test_replicas_are_kept_where_one_server_would_be_pushed_over() -> None:
    loads = {"a": [load("t", 30.0, 5.0), load("x", 28.0)], "b": [load("t", 30.0, 5.0), load("y", 25.0)]}
    assert not planned(fleet(loads, {"t": route(1, ALL_SUBSCRIBERS, "ab")})).changes


def test_a_topic_just_below_its_threshold_keeps_its_replicas() -> None:
    def seen(publications: float) -> Snapshot:
        loads = {name: [load("t", 3.0, publications / 2)] for name in "ab"}
        return fleet(loads, {"t": route(1, ALL_SUBSCRIBERS, "ab")})

    assert not planned(seen(95.0)).changes
    assert outcome(planned(seen(79.0))) == [(SINGLE, ("a",))]


def test_a_replicated_topic_that_falls_silent_stays_as_it_is() -> None:
    loads = {name: [load("t", 0.0, 0.0, 400)] for name in "ab"}
    assert not planned(fleet(loads, {"t": route(1, ALL_PUBLISHERS, "ab")}), min_brokers=2).changes


def test_a_topic_changes_from_one_strategy_to_the_other_on_the_servers_it_has() -> None:
    loads = {name: [load("t", 3.0, 10.0, 800)] for name in "abc"}
    assert outcome(planned(fleet(loads, {"t": route(1, ALL_SUBSCRIBERS, "abc")}))) == [(ALL_PUBLISHERS, tuple("abc"))]


def test_a_server_without_room_gets_no_replica() -> None:
    seen = fleet({"a": [load("t", 30.0, 300.0)], "b": [load("x", 75.0)], "c": [load("y", 40.0)]})
    plan = planned(seen)
    assert outcome(plan) == [(ALL_SUBSCRIBERS, ("a", "c"))]
    assert plan.steps[0].reason.endswith("all_subscribers on 2 servers of 3 asked for")


def test_a_topic_too_large_for_any_server_has_one_rented() -> None:
    assert planned(fleet({"a": [load("t", 250.0)]})).rent == 4  # five shares of 50
    plan = planned(fleet({"a": [load("t", 95.0)]}))
    assert (plan.rent, plan.steps) == (1, ())
    assert outcome(planned(fleet({"a": [load("t", 95.0)], "b": []}))) == [(ALL_SUBSCRIBERS, ("a", "b"))]


def test_two_large_topics_do_not_both_stay_on_the_server_they_met_on() -> None:
    seen = fleet({"a": [load("s", 90.0), load("t", 100.0)], **{name: [] for name in "bcde"}})
    plan = planned(seen)
    assert outcome(plan) == [(ALL_SUBSCRIBERS, ("b", "c")), (ALL_SUBSCRIBERS, ("a", "d"))]
    assert max(ratio for _, ratio in plan.load_ratios) <= 0.60


def test_no_more_servers_than_the_setting_allows() -> None:
    brokers = {"a": [load("t", 9.0, 5000.0)], **{name: [] for name in "bcdefgh"}}
    assert len(planned(fleet(brokers)).steps[0].brokers) == 6


def test_homed_topics_are_not_replicated() -> None:
    seen = fleet({"a": [load("t", 9.0, 5000.0)], "b": []}, {"t": route(1, Strategy.HOMED, "a")})
    assert not planned(seen, min_brokers=2).changes


def test_a_server_that_has_just_got_a_replica_is_not_released() -> None:
    seen = fleet({"a": [load("t", 9.0, 300.0)], "b": [], "c": [], "d": []})
    plan = planned(seen)
    assert (outcome(plan), plan.release) == ([(ALL_SUBSCRIBERS, ("a", "b", "c"))], ("d",))
