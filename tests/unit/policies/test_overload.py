"""Overload of every kind, and the topics that leave: the fewest, the heaviest first."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.domain.load import UNKNOWN, Resources, TopicLoad
from nearcast.domain.plan import Plan
from nearcast.domain.snapshot import Snapshot
from nearcast.policies.epulsar import epulsar
from nearcast.policies.overload import Burden
from nearcast.policies.rest import at_rest
from nearcast.policies.settings import Settings
from tests.unit.policies.fleet import fleet
from tests.unit.policies.test_epulsar import on_a_line

BROKERS = ("a", "b", "c")
MOST = Resources(cores=1.0, memory_bytes=1000.0, out_messages_per_s=100.0)


def topic(name: str, deliveries: float, *, publications: float = 0.0, out: float = 0.0) -> TopicLoad:
    return TopicLoad(name, publications, deliveries, out, out, 1, 1)


def seen(
    loads: Mapping[str, Sequence[TopicLoad]],
    used: Mapping[str, Resources] | None = None,
    *,
    most: Resources = MOST,
    capacity: float = 1e6,
    relieved: Collection[str] = (),
) -> Snapshot:
    """Nobody is promised anything: what moves, moves because of load."""
    whole = {name: loads.get(name, ()) for name in BROKERS}
    where = {each.topic: name for name, mine in whole.items() for each in mine}
    places = on_a_line({name: ([0.0], [0.0], np.inf) for name in where}, where)
    each = dict.fromkeys(BROKERS, capacity)
    return fleet(whole, capacity=each, places=places, used=used, most=most, relieved=relieved)


def moves(plan: Plan) -> dict[str, str]:
    return {step.topic: step.brokers[0] for step in plan.steps}


def after(snapshot: Snapshot, plan: Plan) -> Burden:
    burden = Burden(snapshot, at_rest(snapshot), Settings())
    for step in plan.steps:
        burden.moved(snapshot.topics.index(step.topic), snapshot.brokers.index(step.brokers[0]))
    return burden


def test_who_sends_more_messages_than_it_may_gives_up_the_heaviest_and_no_more_than_needed() -> None:
    loads = {"a": [topic("t1", 60.0), topic("t2", 50.0), topic("t3", 5.0)]}
    plan = epulsar(seen(loads), Settings(), 0.0)
    assert moves(plan) == {"t1": "b"}
    assert plan.steps[0].reason.startswith("a sends 115 messages/s, and 100 are its watermark; at b it is ")


def test_the_threshold_of_messages_is_not_cut_by_the_watermark() -> None:
    assert not epulsar(seen({"a": [topic("t", 50.0), topic("u", 49.0)]}), Settings(), 0.0).steps


def test_a_server_without_processor_gives_up_messages_until_its_rate_is_that_of_the_watermark() -> None:
    """At 0.95 of its processor with 95 messages in and out, so at most 85: nothing less than the heaviest will do."""
    loads = {"a": [topic("t1", 20.0, publications=20.0), topic("t2", 30.0, publications=1.0), topic("t3", 24.0)]}
    plan = epulsar(seen(loads, {"a": Resources(cores=0.95)}), Settings(), 0.0)
    assert moves(plan) == {"t1": "b"}
    assert plan.steps[0].reason.startswith("a uses 0.95 of its processors; at b it is ")


def test_a_server_without_memory_is_overloaded_too() -> None:
    loads = {"a": [topic("t1", 10.0), topic("t2", 5.0), topic("t3", 5.0)]}
    plan = epulsar(seen(loads, {"a": Resources(memory_bytes=990.0)}), Settings(), 0.0)
    assert moves(plan) == {"t1": "b"}
    assert plan.steps[0].reason.startswith("a uses 0.99 of its memory; at b it is ")


def test_a_server_at_the_end_of_its_processor_is_asked_for_more_than_it_delivers() -> None:
    """It delivers 50 of 100 messages a second: what leaves is counted by what is published, not by what arrives."""
    slow = [TopicLoad(f"t{number}", 10.0, 5.0, 0.0, 0.0, 1, 1) for number in range(10)]
    plan = epulsar(seen({"a": slow}, {"a": Resources(cores=1.0)}), Settings(), 0.0)
    measured, asked = 10 * 15.0, 10 * 20.0
    assert len(plan.steps) == np.ceil((asked - 0.85 * measured) / 20.0)


def test_limits_that_nobody_set_are_not_exceeded() -> None:
    loads = {"a": [topic("t1", 1e9)]}
    used = {"a": Resources(cores=64.0, memory_bytes=1e12, out_messages_per_s=1e9)}
    assert not epulsar(seen(loads, used, most=UNKNOWN), Settings(), 0.0).steps


@pytest.mark.parametrize("kind", ["cores", "memory_bytes", "out_messages_per_s"])
def test_a_receiver_is_not_pushed_over_any_limit(kind: str) -> None:
    loads = {"a": [topic("t1", 60.0), topic("t2", 50.0)], "b": [topic("u", 10.0)]}
    busy = {"cores": 0.80, "memory_bytes": 800.0, "out_messages_per_s": 95.0}[kind]
    used = {"a": Resources(cores=0.5, memory_bytes=500.0), "b": Resources(**{kind: busy})}
    plan = epulsar(seen(loads, used), Settings(), 0.0)
    assert moves(plan) == {"t1": "c"}


def test_where_the_heaviest_finds_no_place_lighter_ones_go_instead() -> None:
    loads = {
        "a": [topic("t1", 60.0), topic("t2", 30.0), topic("t3", 25.0)],
        "b": [topic("u", 60.0)],
        "c": [topic("v", 60.0)],
    }
    plan = epulsar(seen(loads), Settings(), 0.0)
    assert moves(plan) == {"t2": "b"}
    assert not after(seen(loads), plan).overloaded().any()


def test_what_still_is_elsewhere_counts_where_it_is_going_to_be() -> None:
    """A topic that was moved away is still measured at its old broker: nothing else needs to leave."""
    loads = {"a": [topic("t1", 60.0), topic("t2", 50.0)]}
    snapshot = seen(loads, {"a": Resources(cores=0.9, out_messages_per_s=110.0)})
    assert epulsar(snapshot, Settings(), 0.0).steps
    at = snapshot.topics.index("t1")
    members = snapshot.members.copy()
    members[snapshot.first[at]] = snapshot.brokers.index("b")
    assert not epulsar(replace(snapshot, members=members), Settings(), 0.0).steps


@pytest.mark.parametrize("kind", ["cores", "memory_bytes"])
def test_who_was_relieved_too_lately_for_it_to_show_keeps_its_topics_and_others_are_relieved(kind: str) -> None:
    loads = {name: [topic(f"{name}{number}", 10.0) for number in range(4)] for name in ("a", "b")}
    much = Resources(**{kind: {"cores": 0.95, "memory_bytes": 950.0}[kind]})
    used = {"a": much, "b": much}
    both = epulsar(seen(loads, used), Settings(), 0.0)
    assert (moves(both), both.relieved) == ({"a0": "c", "b0": "c"}, ("a", "b"))
    plan = epulsar(seen(loads, used, relieved=["a"]), Settings(), 0.0)
    assert (moves(plan), plan.relieved) == ({"b0": "c"}, ("b",))
    assert plan.reasons == (
        "1 brokers keep their topics although they use too much: it may not show yet that others have left them",
    )


def test_who_was_relieved_is_given_nothing_that_it_has_no_room_for() -> None:
    loads = {"a": [topic("t1", 60.0), topic("t2", 50.0)], "b": [topic("u", 10.0)], "c": [topic("v", 90.0)]}
    used = {"b": Resources(cores=0.84)}
    assert not epulsar(seen(loads, used, relieved=["b"]), Settings(), 0.0).steps


def test_messages_are_counted_by_topic_and_a_relief_shows_at_once() -> None:
    loads = {"a": [topic("t1", 60.0), topic("t2", 50.0)]}
    plan = epulsar(seen(loads, {"a": Resources(cores=0.95)}, relieved=["a"]), Settings(), 0.0)
    assert moves(plan) == {"t1": "b"}
    assert plan.steps[0].reason.startswith("a sends 110 messages/s")


_rates = st.lists(st.integers(1, 40).map(float), min_size=1, max_size=9)


@given(_rates, st.sampled_from(["cores", "out_messages_per_s", "bandwidth"]), st.floats(1.02, 1.6))
def test_nobody_could_do_with_fewer_moves(rates: list[float], kind: str, over: float) -> None:
    """With room elsewhere: as many as the smallest set that is enough, by trying all sets."""
    total = sum(rates)
    limit = total / over
    loads = {"a": [topic(f"t{number}", rate, out=rate) for number, rate in enumerate(rates)]}
    most = {
        "cores": Resources(cores=limit / 0.85),
        "out_messages_per_s": Resources(out_messages_per_s=limit),
        "bandwidth": UNKNOWN,
    }[kind]
    used = {"a": Resources(cores=total)} if kind == "cores" else None
    capacity = limit / 0.85 if kind == "bandwidth" else 1e6
    snapshot = seen(loads, used, most=most, capacity=capacity)
    burden = Burden(snapshot, at_rest(snapshot), Settings())
    chosen = burden.heaviest(0, np.ones(len(rates), dtype=np.bool_), np.zeros(0, dtype=np.int64))
    smallest = next(
        size
        for size in range(len(rates) + 1)
        for gone in combinations(rates, size)
        if total - sum(gone) <= limit * (1 + 1e-9)
    )
    assert len(chosen) == smallest


@given(_rates, st.floats(1.01, 1.5), st.floats(1.01, 1.5))
def test_two_limits_at_once_are_both_kept(rates: list[float], over: float, messages_over: float) -> None:
    total = sum(rates)
    loads = {"a": [topic(f"t{number}", rate, publications=40.0 - rate) for number, rate in enumerate(rates)]}
    most = Resources(cores=1.0 / over / 0.85, out_messages_per_s=total / messages_over)
    snapshot = seen(loads, {"a": Resources(cores=1.0)}, most=most)
    burden = Burden(snapshot, at_rest(snapshot), Settings())
    every = np.ones(len(rates), dtype=np.bool_)
    nobody = np.zeros(0, dtype=np.int64)
    chosen = burden.heaviest(0, every, nobody)
    left = burden.load[0] - burden.share[chosen].sum(axis=0)
    assert (left <= burden.limit[0] + 1e-9).all()
    for one in chosen:
        with_it = left + burden.share[one]
        assert (with_it > burden.limit[0] - 1e-9).any(), "it need not have left"
