"""Policy `dynamoth`, case by case."""

import pytest

from nearcast.domain.plan import Plan
from nearcast.domain.route import Strategy, route
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.dynamoth import dynamoth
from nearcast.policies.settings import Replication, Settings
from tests.unit.policies.fleet import fleet, load

NOW_S = 100.0


def planned(seen: Snapshot, **settings: object) -> Plan:
    return dynamoth(seen, Settings(**settings), NOW_S)  # type: ignore[arg-type]  # each test names what it sets


def moves(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {step.topic: step.brokers for step in plan.steps}


# Algorithm 2


def test_the_busiest_topic_of_the_busiest_server_goes_to_the_least_loaded() -> None:
    plan = planned(
        fleet({"a": [load("x", 45.0), load("y", 40.0)], "b": [load("v", 20.0)], "c": [load("w", 10.0)]}), min_brokers=3
    )
    assert moves(plan) == {"x": ("c",)}
    assert dict(plan.load_ratios) == {"a": 0.40, "b": 0.20, "c": pytest.approx(0.55)}
    assert plan.steps[0].reason == (
        "a is at 0.85 of its capacity, 0.45 of it this topic; c is the least loaded, at 0.10"
    )


def test_it_goes_on_until_the_source_is_below_the_safe_ratio() -> None:
    plan = planned(fleet({"a": [load(f"t{i}", 15.0) for i in range(6)], "b": [], "c": []}))
    assert moves(plan) == {"t0": ("b",), "t1": ("c",), "t2": ("b",)}
    assert dict(plan.load_ratios)["a"] == pytest.approx(0.45)


def test_a_receiver_is_not_pushed_over_and_the_next_smaller_topic_goes() -> None:
    plan = planned(fleet({"a": [load("x", 60.0), load("y", 25.0)], "b": [load("w", 30.0)]}))
    assert moves(plan) == {"y": ("b",)}


def test_a_server_at_the_threshold_is_not_overloaded() -> None:
    assert not planned(fleet({"a": [load("x", 40.0), load("y", 40.0)], "b": []}), min_brokers=2).changes


def test_servers_that_are_there_are_used_before_one_is_rented() -> None:
    full = {"a": [load(f"a{i}", 10.0) for i in range(9)]}
    assert planned(fleet({**full, "b": []})).rent == 0
    alone = planned(fleet(full))
    assert (alone.rent, alone.steps) == (1, ())
    assert alone.reasons == ("rent 1: no plan brings a below 0.60 of the capacity",)


def test_as_many_are_rented_as_the_load_asks_for() -> None:
    seen = {name: [load(f"{name}{i}", 10.0) for i in range(12)] for name in "abc"}
    assert planned(fleet(seen)).rent == 3  # 360 at 0.60 is six servers
    assert planned(fleet(seen, renting=2)).rent == 1
    waiting = planned(fleet(seen, renting=3))
    assert waiting.rent == 0
    assert waiting.reasons == ("no plan brings a, b, c below 0.60 of the capacity; 3 servers are on their way",)
    assert planned(fleet(seen), max_brokers=5).rent == 2
    assert planned(fleet(seen, renting=2), max_brokers=5).rent == 0
    assert "no more may be rented (max_brokers is 3)" in planned(fleet(seen), max_brokers=3).reasons[-1]


def test_until_a_rented_server_is_there_others_are_filled_up_to_the_high_ratio() -> None:
    plan = planned(fleet({"a": [load(f"a{i}", 5.0) for i in range(17)], "b": [load("b", 65.0)]}))
    assert plan.rent == 1
    assert dict(plan.load_ratios) == {"a": pytest.approx(0.75), "b": pytest.approx(0.75)}


def test_when_all_is_full_load_is_evened_out_and_no_receiver_comes_above_its_source() -> None:
    full = {"a": [load(f"a{i}", 5.0) for i in range(22)], "b": [load("b", 82.0)]}
    plan = planned(fleet(full), max_brokers=2)
    assert plan.rent == 0
    assert dict(plan.load_ratios) == {"a": pytest.approx(1.0), "b": pytest.approx(0.92)}
    assert dict(planned(fleet(full)).load_ratios) == {"a": pytest.approx(1.1), "b": pytest.approx(0.82)}


def test_whoever_comes_over_the_high_ratio_by_evening_out_gives_something_smaller_away() -> None:
    seen = fleet(
        {
            "full": [load("x", 2.0, 0.0)],
            "half": [load("x", 2.0, 0.0), load("v", 45.0, 0.0)],
            "small": [load("y", 4.0, 0.0), load("z", 34.5, 0.0)],
        },
        {"x": route(1, Strategy.ALL_SUBSCRIBERS, ("full", "half"))},
        capacity={"small": 50.0},
        other={"full": 95.0},
    )
    plan = planned(seen, max_brokers=3)
    assert moves(plan) == {"x": ("half", "small"), "y": ("half",)}
    assert dict(plan.load_ratios)["small"] < 0.8


def test_in_a_busy_fleet_that_cannot_grow_a_busy_topic_is_shared_out() -> None:
    small = [load(f"c{i}", 10.0) for i in range(7)]
    full = {"a": [load("x", 60.0, 9.0, 9), load("y", 12.0)], "b": [load("z", 40.0)], "c": small}
    plan = planned(fleet(full), max_brokers=3, part_ratio=0.2)
    step = plan.steps[0]
    assert (step.topic, step.strategy, step.brokers) == ("x", Strategy.ALL_SUBSCRIBERS, ("a", "b"))
    assert step.reason == (
        "9 publications/s for 9 subscribers, more than one server has room for: "
        "all_subscribers on 2 servers of 3 asked for"
    )
    assert not planned(fleet(full), max_brokers=4).steps
    calm = {"a": [load("x", 60.0, 9.0, 9)], "b": [load("z", 29.0)], "c": []}
    assert not planned(fleet(calm), max_brokers=3, min_brokers=3).steps


def test_what_no_topic_accounts_for_is_not_a_reason_to_rent() -> None:
    plan = planned(fleet({"a": [load("x", 1.0)], "b": []}, other={"a": 90.0}))
    assert plan.rent == 0
    assert len(plan.reasons) == 1
    assert plan.reasons[0].startswith("a stays at 0.90 of its capacity: what is left on it fits on no server")


def test_a_large_server_takes_what_a_small_idle_one_cannot() -> None:
    seen = fleet(
        {"a": [load("x", 50.0), load("y", 35.0)], "big": [load("z", 100.0)], "small": []},
        capacity={"big": 400.0, "small": 20.0},
    )
    assert moves(planned(seen))["x"] == ("big",)


def test_a_replica_moves_to_a_server_that_has_none_of_that_topic() -> None:
    seen = fleet(
        {
            "a": [load("r", 50.0, 4000.0), load("x", 40.0)],
            "b": [load("r", 5.0, 4000.0)],
            "c": [load("w", 9.0)],
        },
        {"r": route(3, Strategy.ALL_SUBSCRIBERS, ("a", "b"))},
    )
    plan = planned(seen, replication=Replication(all_subscribers_ratio=4000.0))
    assert [(step.topic, step.strategy, step.brokers) for step in plan.steps] == [
        ("r", Strategy.ALL_SUBSCRIBERS, ("b", "c"))
    ]


def test_no_more_topics_move_at_once_than_agents_can_forward_and_the_rest_with_the_next_plan() -> None:
    plan = planned(fleet({"a": [load(f"t{i:02}", 4.0) for i in range(25)], "b": []}), forward_messages_per_s=3.0)
    assert (len(plan.steps), plan.rent) == (3, 0)
    assert plan.reasons == (
        "a stays at 0.88 of its capacity: more of its topics move with the next plan, agents can forward no more now",
    )


def test_large_messages_are_limited_by_their_bytes() -> None:
    seen = {"a": [load(f"t{i:02}", 4.0, bytes_in=10.0) for i in range(25)], "b": []}
    assert len(planned(fleet(seen), forward_bytes_per_s=29.0).steps) == 2


def test_no_agent_is_sent_more_at_once_than_it_can_forward() -> None:
    crowded = {name: [load(f"{name}{i}", 9.0) for i in range(10)] for name in "ab"}
    plan = planned(fleet({**crowded, "c": []}), forward_messages_per_s=3.0)
    assert moves(plan) == {"a0": ("c",), "a1": ("c",), "a2": ("c",)}
    assert plan.rent == 0


def test_a_topic_that_no_agent_can_forward_by_itself_moves_alone() -> None:
    seen = {"a": [load("x", 40.0, 90.0), load("y", 30.0, 90.0), load("z", 20.0, 0.0)], "b": []}
    assert moves(planned(fleet(seen), forward_messages_per_s=50.0)) == {"x": ("b",)}
    busy = {"a": [load("x", 10.0, 90.0), *(load(f"y{i}", 10.0, 90.0) for i in range(8))], "b": []}
    assert len(planned(fleet(busy), forward_messages_per_s=50.0).steps) == 1


def test_topics_that_nobody_publishes_on_cost_no_agent_anything() -> None:
    silent = [load(f"t{i:02}", 1.0, 0.0, bytes_in=0.0) for i in range(90)]
    plan = planned(fleet({"a": silent, "b": []}), forward_messages_per_s=3.0)
    assert len(plan.steps) == 31


def test_what_was_ordered_before_is_not_ordered_again() -> None:
    """Right after a move the old server still serves those who have not left."""
    seen = fleet({"a": [load("x", 45.0), load("y", 40.0)], "b": []}, {"x": route(2, Strategy.SINGLE, ("b",))})
    assert not planned(seen, min_brokers=2).changes


def test_a_topic_on_a_silent_server_waits_for_it() -> None:
    seen = fleet(
        {"a": [load("r", 50.0, 4000.0), load("y", 40.0)], "b": []},
        {"r": route(3, Strategy.ALL_SUBSCRIBERS, ("a", "gone"))},
    )
    assert moves(planned(seen)) == {"y": ("b",)}


# The time between plans


def test_there_is_a_wait_between_two_plans() -> None:
    seen = fleet({"a": [load("x", 45.0), load("y", 40.0)], "b": [load("z", 1.0)]}, planned_s=90.0)
    waiting = dynamoth(seen, Settings(), 109.9)
    assert not waiting.changes
    assert waiting.reasons == ("the last plan is 19.9 s old: no other before 20 s, so that its moves can settle",)
    assert dynamoth(seen, Settings(), 110.0).steps


def test_while_a_server_can_send_no_more_half_the_wait_is_enough() -> None:
    seen = fleet({"a": [load("x", 55.0), load("y", 45.0)], "b": [load("z", 1.0)]}, planned_s=90.0)
    assert not dynamoth(seen, Settings(), 99.9).changes
    assert dynamoth(seen, Settings(), 100.0).steps


def test_a_server_that_has_come_is_used_without_a_wait_if_another_is_overloaded() -> None:
    assert dynamoth(fleet({"a": [load("x", 45.0), load("y", 40.0)], "b": []}, planned_s=99.0), Settings(), 100.0).steps
    calm = fleet({"a": [load("x", 40.0), load("y", 40.0)], "b": []}, planned_s=99.0)
    assert "the last plan is 1.0 s old" in dynamoth(calm, Settings(), 100.0).reasons[0]


# Low load


def test_at_low_load_the_least_loaded_server_is_emptied_and_released() -> None:
    plan = planned(
        fleet({"a": [load("x", 30.0)], "b": [load("y", 10.0), load("z", 4.0)], "c": [load("w", 20.0)]}, ring=("a", "b"))
    )
    assert (plan.release, plan.ring) == (("b",), ("a",))
    assert moves(plan) == {"y": ("c",), "z": ("a",)}
    assert max(dict(plan.load_ratios).values()) <= 0.60
    assert "b" not in dict(plan.load_ratios)


def test_no_server_is_released_when_the_rest_could_not_carry_it_all() -> None:
    assert not planned(fleet({"a": [load("x", 40.0)], "b": [load("y", 30.0)]})).changes


def test_no_topic_is_moved_when_one_of_them_finds_no_place() -> None:
    seen = {"a": [load("x", 55.0)], "b": [load("u", 42.0)], "c": [load("y", 2.0), load("z", 19.0)]}
    assert not planned(fleet(seen)).changes
    assert planned(fleet(seen), low_ratio=0.62).release == ("c",)


def test_a_server_that_cannot_be_emptied_does_not_keep_the_next_one() -> None:
    homed = {"h": route(1, Strategy.HOMED, ("a",))}
    plan = planned(fleet({"a": [load("h", 1.0)], "b": [load("y", 5.0)], "c": [load("x", 9.0)]}, homed))
    assert (plan.release, moves(plan)) == (("b",), {"y": ("a",)})


@pytest.mark.parametrize(("least", "released"), [(1, 1), (2, 1), (3, 0)])
def test_never_fewer_servers_than_the_minimum(least: int, released: int) -> None:
    plan = planned(fleet({"a": [], "b": [], "c": []}), min_brokers=least)
    assert len(plan.release) == released
    assert len(planned(fleet({"a": [], "b": [], "c": []}), min_brokers=least, max_release=9).release) == 3 - least


def test_below_the_minimum_servers_are_rented() -> None:
    plan = planned(fleet({"a": []}), min_brokers=3)
    assert (plan.rent, plan.reasons) == (2, ("rent 2: at least 3 are to be there",))


def test_none_is_released_while_one_is_on_its_way_or_another_is_overloaded() -> None:
    assert not planned(fleet({"a": [], "b": []}, renting=1)).changes
    crowded = {"a": [load("x", 45.0), load("y", 45.0)], "b": [load("z", 1.0)], "c": []}
    assert not planned(fleet(crowded)).release


def test_a_server_with_more_than_agents_can_forward_is_emptied_in_several_plans_and_released_with_the_last() -> None:
    hot = {"a": [load(f"a{i}", 3.0) for i in range(3)], "b": [load(f"b{i}", 5.0) for i in range(4)]}
    plan = planned(fleet(hot), forward_messages_per_s=2.0)
    assert (len(plan.steps), plan.release, plan.ring) == (2, (), None)
    assert plan.reasons == ("a is being emptied, as fast as agents can forward",)
    left = fleet({"a": hot["a"][2:], "b": [*hot["b"], *hot["a"][:2]]})
    last = planned(left, forward_messages_per_s=2.0)
    assert (moves(last), last.release, last.ring) == ({"a2": ("b",)}, ("a",), ("b",))


# Draining


def test_a_draining_server_loses_everything_and_gets_nothing() -> None:
    seen = fleet(
        {"a": [load("x", 30.0), load("y", 20.0)], "b": [load("v", 50.0), load("w", 35.0)], "c": []}, draining=("a",)
    )
    plan = planned(seen)
    assert {topic: to for topic, to in moves(plan).items() if topic in "xy"} == {"x": ("c",), "y": ("c",)}
    assert not any("a" in step.brokers for step in plan.steps)
    assert plan.ring == ("b", "c")
    assert "a is being drained" in plan.steps[0].reason


def test_a_topic_without_load_leaves_a_draining_server_too() -> None:
    seen = fleet({"a": [], "b": []}, {"quiet": route(1, Strategy.SINGLE, ("a",))}, draining=("a",))
    assert moves(planned(seen)) == {"quiet": ("b",)}


def test_draining_pushes_nobody_over_while_a_server_can_be_rented() -> None:
    seen = fleet({"a": [load("x", 50.0)], "b": [load("v", 70.0)]}, draining=("a",))
    plan = planned(seen)
    assert (plan.rent, plan.steps, plan.ring) == (1, (), None)
    assert "a cannot be drained yet: the others have no room" in plan.reasons
    forced = planned(seen, max_brokers=2)
    assert (forced.rent, moves(forced)["x"]) == (0, ("b",))


def test_every_draining_server_of_a_replicated_topic_is_replaced_at_once() -> None:
    seen = fleet(
        {name: [load("r", 9.0, 4000.0)] if name in "ab" else [] for name in "abcd"},
        {"r": route(1, Strategy.ALL_SUBSCRIBERS, ("a", "b"))},
        draining=("a", "b"),
    )
    plan = planned(seen)
    assert [(step.strategy, step.brokers) for step in plan.steps] == [(Strategy.ALL_SUBSCRIBERS, ("c", "d"))]
    assert plan.ring == ("c", "d")


def test_a_topic_that_still_waits_to_leave_a_draining_server_is_not_moved_for_another_reason() -> None:
    seen = fleet(
        {
            "a": [load("first", 30.0), load("r", 20.0, 4000.0)],
            "b": [load("r", 25.0, 4000.0), load("x", 62.0)],
            "c": [],
            "d": [],
        },
        {"r": route(1, Strategy.ALL_SUBSCRIBERS, ("a", "b"))},
        draining=("a",),
    )
    plan = planned(seen, forward_messages_per_s=1.0, replication=Replication(all_subscribers_ratio=5000.0))
    assert moves(plan) == {"first": ("c",), "x": ("d",)}
    assert plan.ring is None


def test_with_nowhere_to_go_a_server_is_rented() -> None:
    plan = planned(fleet({"a": [load("x", 5.0)]}, draining=("a",)))
    assert (plan.rent, plan.steps, plan.ring) == (1, (), None)


def test_a_ring_that_loses_its_last_broker_gets_the_others() -> None:
    plan = planned(fleet({"a": [load("x", 5.0)], "b": [load("y", 30.0)], "c": [load("z", 40.0)]}, draining=("a",)))
    assert plan.ring == ("b", "c")
