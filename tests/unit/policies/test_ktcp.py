import re
from dataclasses import replace

import numpy as np
import pytest

from nearcast.control.verify import objections
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.processing import Processing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.snapshot_json import read_snapshot, write_snapshot
from nearcast.policies.ktcp import ktcp_exact, ktcp_ffd, ktcp_hybrid, ktcp_lfs
from nearcast.policies.ktcp_parts import rounded_up
from nearcast.policies.registry import Policy
from nearcast.policies.settings import Settings

BROKERS = ("a", "b", "c", "d")
POLICIES = (ktcp_ffd, ktcp_lfs, ktcp_hybrid, ktcp_exact)


def seen(
    rates: dict[str, tuple[str, float]],
    *,
    interval_ms: float = 20.0,
    bound_ms: float = 1000.0,
    late: dict[str, float] | None = None,
    size: float = 100.0,
) -> Snapshot:
    """Topics at brokers, with their rates; each takes `interval_ms`."""
    reports = []
    for broker in BROKERS:
        loads = [
            TopicLoad(topic, rate, rate, rate * size, rate * size, 1, 1)
            for topic, (at, rate) in rates.items()
            if at == broker
        ]
        reports.append(BrokerReport(broker, 0.0, sum(each.bytes_out for each in loads), 1e6, tuple(loads)))
    routes = {topic: Route(1, Strategy.SINGLE, (at,)) for topic, (at, _) in rates.items()}
    found = Snapshot.of(reports, routes, Ring(BROKERS), at_s=0.0)
    count = len(found.topics)
    p90_ms = np.array([(late or {}).get(topic, np.nan) for topic in found.topics])
    return replace(found, processing=Processing(np.full(count, interval_ms), np.full(count, bound_ms), p90_ms))


@pytest.mark.parametrize("policy", POLICIES)
def test_topics_that_can_share_a_broker_do(policy: Policy) -> None:
    snapshot = seen({"t1": ("a", 10.0), "t2": ("b", 10.0), "t3": ("c", 10.0), "t4": ("d", 10.0)})
    plan = policy(snapshot, Settings(), 5.0)
    assert len(plan.steps) == 3
    assert len({step.brokers for step in plan.steps}) == 1
    assert objections(plan, snapshot) == []
    assert plan == policy(read_snapshot(write_snapshot(snapshot)), Settings(), 5.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_topics_that_are_too_much_together_part_and_the_plan_says_what_is_expected(policy: Policy) -> None:
    snapshot = seen({"t1": ("a", 40.0), "t2": ("a", 40.0)})
    (step,) = policy(snapshot, Settings(), 5.0).steps
    assert step.was_brokers == ("a",)
    assert step.brokers != ("a",)
    assert "90 of 100 messages are expected within" in step.reason
    assert step.forecast is not None
    assert step.forecast.predicted_ms is not None
    assert step.forecast.predicted_ms < 900.0


def test_what_keeps_its_promises_on_the_fewest_brokers_stays() -> None:
    plan = ktcp_lfs(seen({"t1": ("a", 40.0), "t2": ("b", 40.0)}), Settings(), 5.0)
    assert plan.steps == ()
    assert "2 brokers keep every promise" in plan.reasons[-1]


def test_a_promise_that_is_measured_to_be_broken_counts_although_the_model_thinks_otherwise() -> None:
    together = {"t1": ("a", 15.0), "t2": ("a", 15.0)}
    assert ktcp_ffd(seen(together), Settings(), 5.0).steps == ()
    (step,) = ktcp_ffd(seen(together, late={"t1": 1500.0}), Settings(), 5.0).steps
    assert step.brokers != ("a",)


def test_a_topic_that_moves_because_it_was_late_says_so() -> None:
    (step,) = ktcp_ffd(seen({"t1": ("a", 10.0), "t2": ("a", 15.0)}, late={"t1": 1500.0}), Settings(), 5.0).steps
    assert step.topic == "t1"
    assert "took 1500 ms, and 1000 ms are promised" in step.reason


def test_a_topic_that_leaves_what_another_makes_too_much_says_which() -> None:
    beside = {"t1": ("a", 10.0), "t2": ("a", 15.0), "t3": ("a", 2.0)}
    (step,) = ktcp_ffd(seen(beside, late={"t1": 1500.0}), Settings(), 5.0).steps
    assert step.topic == "t2"
    assert "at a 90 of 100 messages of t1 took 1500 ms, and 1000 ms are promised" in step.reason
    (step,) = ktcp_ffd(seen({"t1": ("a", 40.0), "t2": ("a", 40.0)}), Settings(), 5.0).steps
    assert re.search(r"at a 90 of 100 messages of t\d are expected to take \d+ ms, and 1000 ms", step.reason)


def test_topics_that_are_too_many_for_a_broker_say_so() -> None:
    plan = ktcp_ffd(seen({f"t{number}": ("a", 1.0) for number in range(7)}), Settings(), 5.0)
    assert all("7 topics are at a, and at most 6 may share a broker" in step.reason for step in plan.steps)
    assert plan.steps


def test_a_topic_that_is_more_than_a_broker_can_serve_stays_alone_and_is_named() -> None:
    plan = ktcp_ffd(seen({"much": ("a", 90.0), "t2": ("a", 10.0), "t3": ("b", 10.0)}), Settings(), 5.0)
    assert "much" in plan.reasons[0]
    assert {(step.topic, step.brokers) for step in plan.steps} == {("t2", ("b",))}


def test_sets_for_which_there_is_no_broker_are_counted_and_servers_rented() -> None:
    rates = {f"t{number}": ("a", 40.0) for number in range(6)}
    plan = ktcp_lfs(seen(rates), Settings(), 5.0)
    assert plan.rent == 2
    assert len(plan.steps) == 3
    assert "2 sets of topics stay" in " ".join(plan.reasons)


def test_held_topics_stay_and_their_broker_takes_no_other() -> None:
    snapshot = seen({"t1": ("a", 10.0), "t2": ("b", 10.0), "t3": ("c", 10.0)})
    snapshot = replace(snapshot, held=np.array([True, False, False]))
    plan = ktcp_ffd(snapshot, Settings(), 5.0)
    assert [step.topic for step in plan.steps] in (["t2"], ["t3"])
    assert all(step.brokers != ("a",) for step in plan.steps)


def test_no_broker_is_given_more_than_its_line_can_send() -> None:
    snapshot = seen({"t1": ("a", 10.0), "t2": ("b", 10.0)}, size=80_000.0)
    plan = ktcp_ffd(snapshot, Settings(), 5.0)
    assert plan.steps == ()
    assert any("do not fit the line" in each for each in plan.reasons)


def test_without_processed_topics_there_is_nothing_to_do() -> None:
    assert ktcp_ffd(replace(seen({"t1": ("a", 1.0)}), processing=None), Settings(), 5.0).reasons == (
        "no topic is processed",
    )


def test_rounding_is_upwards_and_leaves_what_is_round() -> None:
    assert rounded_up(np.array([10.0, 10.1, 99.0, 0.123, 1234.0])).tolist() == pytest.approx(
        [10.0, 11.0, 99.0, 0.13, 1300.0]
    )


def shared(rate: float, publishers: int, *, at: tuple[str, ...] = ("a",), others: float = 0.0) -> Snapshot:
    """A topic `much` on these brokers, and one beside it at the first of them."""
    reports = []
    for broker in BROKERS:
        loads = []
        if broker in at:
            part, few = rate / len(at), publishers // len(at)
            loads.append(TopicLoad("much", part, part, part * 100.0, part * 100.0, few, 1))
        if broker == at[0] and others:
            loads.append(TopicLoad("other", others, others, others * 100.0, others * 100.0, 1, 1))
        reports.append(BrokerReport(broker, 0.0, 0.0, 1e6, tuple(loads)))
    strategy = Strategy.SINGLE if len(at) == 1 else Strategy.ALL_SUBSCRIBERS
    routes = {"much": Route(1, strategy, at)} | ({"other": Route(1, Strategy.SINGLE, at[:1])} if others else {})
    found = Snapshot.of(reports, routes, Ring(BROKERS), at_s=0.0)
    count = len(found.topics)
    return replace(found, processing=Processing(np.full(count, 20.0), np.full(count, 1000.0), np.full(count, np.nan)))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_topic_that_is_too_much_for_one_broker_is_shared_by_as_few_as_will_do(policy: Policy) -> None:
    snapshot = shared(90.0, 90)  # 1.8 cores
    plan = policy(snapshot, Settings(), 5.0)
    (step,) = plan.steps
    assert (step.strategy, len(step.brokers)) == (Strategy.ALL_SUBSCRIBERS, 2)
    assert "one broker could not serve it in time" in step.reason
    assert "much is more than one broker can serve" in plan.reasons[0]
    assert objections(plan, snapshot) == []


def test_what_has_too_few_publishers_to_part_stays_and_is_named() -> None:
    plan = ktcp_ffd(shared(90.0, 1), Settings(), 5.0)
    assert plan.steps == ()
    assert "cannot be shared by more: much" in plan.reasons[0]


def test_a_topic_that_is_shared_as_it_should_be_stays_so_and_others_may_be_beside_its_parts() -> None:
    plan = ktcp_ffd(shared(70.0, 70, at=("a", "b"), others=2.0), Settings(), 5.0)
    assert plan.steps == ()
    assert "2 brokers keep every promise" in plan.reasons[-1]


def test_a_shared_topic_that_has_become_quiet_goes_back_to_one_broker_but_not_at_the_threshold() -> None:
    (step,) = ktcp_ffd(shared(20.0, 20, at=("a", "b")), Settings(), 5.0).steps
    assert (step.strategy, len(step.brokers)) == (Strategy.SINGLE, 1)
    assert ktcp_ffd(shared(45.0, 44, at=("a", "b")), Settings(), 5.0).steps == ()


def test_topics_beside_one_that_nobody_can_serve_leave_it() -> None:
    (step,) = ktcp_ffd(shared(90.0, 1, others=5.0), Settings(), 5.0).steps
    assert step.topic == "other"
