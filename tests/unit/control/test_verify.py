"""A plan is looked at once more before anything moves."""

from dataclasses import replace

import numpy as np

from nearcast.control.verify import objections
from nearcast.domain.homes import Homes
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.placing import places_of
from nearcast.domain.plan import HomeStep, Plan, Step
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace
from nearcast.lab.workloads.field import Field, drawn_area, snapshot_of
from nearcast.policies.area_homes import nearest_policy
from nearcast.policies.settings import Settings

SINGLE = Strategy.SINGLE
STEP = Step("t", SINGLE, ("H1",), SINGLE, ("H0",), "too much at H0")
PLAN = Plan("dynamoth", 0.0, (STEP,), load_ratios=(("H0", 0.5), ("H1", 0.7)))


def seen(*, at: str = "H0", out: float = 900.0, draining: tuple[str, ...] = ()) -> Snapshot:
    load = TopicLoad("t", 1.0, 9.0, 100.0, out, 1, 9)
    reports = (BrokerReport("H0", 0.0, out, 1000.0, (load,)), BrokerReport("H1", 0.0, 0.0, 1000.0))
    routes = {"t": Route(2, SINGLE, (at,))}
    return Snapshot.of(reports, routes, Ring(("H0", "H1")), at_s=1.0, draining=draining)


def test_a_plan_of_what_is_seen_may_be_carried_out() -> None:
    assert objections(PLAN, seen()) == []


def test_a_topic_that_has_moved_meanwhile_is_an_objection() -> None:
    (why,) = objections(PLAN, seen(at="H1"))
    assert why == "topic 't' has moved since the plan was made: it is single on H1"


def test_a_broker_that_is_drained_or_unknown_is_an_objection() -> None:
    assert objections(PLAN, seen(draining=("H1",))) == [
        "topic 't' would go to 'H1', which is not there or is being drained"
    ]
    elsewhere = replace(PLAN, steps=(replace(STEP, brokers=("H9",)),))
    assert objections(elsewhere, seen()) == ["topic 't' would go to 'H9', which is not there or is being drained"]


def test_two_steps_of_one_topic_are_an_objection() -> None:
    twice = replace(PLAN, steps=(STEP, replace(STEP, reason="again")))
    assert objections(twice, seen()) == ["topic 't' has two steps; one change of a topic at a time"]


def test_a_broker_filled_beyond_its_capacity_is_an_objection_unless_it_was_worse_before() -> None:
    worse = replace(PLAN, load_ratios=(("H0", 1.2), ("H1", 0.7)))
    assert objections(worse, seen()) == ["broker 'H0' would be filled to 120% of its capacity; now it is at 90%"]
    assert objections(worse, seen(out=1500.0)) == []


def test_the_last_broker_is_not_released() -> None:
    assert objections(replace(PLAN, release=("H0", "H1")), seen()) == ["no broker would be left"]


def on_a_line(*, clients_ms: float, bound_ms: float) -> Snapshot:
    """H0 is at 0 ms, H1 at 50, and the topic's clients are somewhere."""
    now = seen()
    spot = Spot((2e-3 * clients_ms,), 0.0)
    told = [BrokerPlace("H0", Spot((0.0,), 0.0), (TopicPlace("t", spot, spot),)), BrokerPlace("H1", Spot((0.1,), 0.0))]
    return replace(now, places=places_of(now, told, {"t": Slo(95, bound_ms)}))


def test_a_promise_that_would_be_broken_by_more_than_now_is_an_objection() -> None:
    assert objections(PLAN, on_a_line(clients_ms=10.0, bound_ms=40.0)) == [
        "topic 't' would be at 80.0 ms on 'H1', where 40.0 ms are promised; now it is at 20.0 ms"
    ]
    assert objections(PLAN, on_a_line(clients_ms=10.0, bound_ms=100.0)) == []
    assert objections(PLAN, on_a_line(clients_ms=30.0, bound_ms=10.0)) == [], "it is broken, but less than before"


def test_more_moves_than_may_be_are_an_objection() -> None:
    assert objections(PLAN, seen(), most=1) == []
    assert objections(PLAN, seen(), most=0) == ["1 topics would move; at most 0 may"]


def test_subscribers_have_one_home_each_where_they_may_and_leave_the_one_they_have() -> None:
    now = replace(seen(draining=("H1",)), homes=Homes.of(("H0", "H1"), {"s": ("H0", ())}, {}))
    step = HomeStep("s", "H1", "H0", "too much at H0")
    homes = Plan("bad-ldm", 0.0, homes=(step,))
    assert objections(homes, replace(seen(), homes=now.homes)) == []
    assert objections(homes, seen()) == [], "it has left meanwhile"
    assert objections(homes, now) == ["subscriber 's' would go to 'H1', which is not there or is being drained"]
    twice = replace(homes, homes=(step, step))
    assert objections(twice, replace(seen(), homes=now.homes)) == ["subscriber 's' has two steps; it has one home"]
    moved = Homes.of(("H0", "H1"), {"s": ("H1", ())}, {})
    assert objections(homes, replace(seen(), homes=moved)) == [
        "subscriber 's' has moved since the plan was made: its home is H1"
    ]


def test_a_client_whose_home_is_another_by_now_is_an_objection_and_one_without_a_home_is_not() -> None:
    before = snapshot_of(drawn_area(Field(topics=2, servers=2), 1))
    assert before.area is not None
    plan = nearest_policy(before, Settings(), 0.0)
    assert objections(plan, before) == []
    home = np.where(np.arange(len(before.area.clients)) == 0, 1, before.area.home)
    now = replace(before, area=replace(before.area, home=home))
    (why,) = objections(plan, now)
    assert why == f"subscriber {before.area.clients[0]!r} has moved since the plan was made: its home is s1"
