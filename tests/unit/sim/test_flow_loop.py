from collections.abc import Iterator

import numpy as np
import pytest

from nearcast.domain.plan import Plan, Step
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import Snapshot
from nearcast.sim.flow import FlowSettings
from nearcast.sim.flow_load import Crowd
from nearcast.sim.flow_loop import FlowLoop, Planner

SETTINGS = FlowSettings(message_bytes=100.0, capacity_bytes_per_s=40_000.0)
SERVERS = ("server-1", "server-2", "server-3")


def crowd(count: int, topics: int = 2) -> Crowd:
    return Crowd(
        np.arange(count) % topics,
        np.arange(count),
        np.full(count, 3.0),
        np.ones(count, dtype=np.bool_),
        np.full(count, 50.0),
    )


def seconds(count: int, upto: int) -> Iterator[tuple[float, Crowd]]:
    return ((float(now), crowd(count)) for now in range(upto))


def nothing(snapshot: Snapshot) -> Plan:
    return Plan("nothing", snapshot.at_s)


def watching(seen: list[Snapshot], planner: Planner = nothing) -> Planner:
    def plan(snapshot: Snapshot) -> Plan:
        seen.append(snapshot)
        return planner(snapshot)

    return plan


def loop_of(planner: Planner, first: int = 1) -> FlowLoop:
    return FlowLoop(("t0", "t1"), SERVERS, planner, SETTINGS, first=first)


def moves_t0_once(snapshot: Snapshot) -> Plan:
    """Rents a second server, then moves t0 to it."""
    if len(snapshot.brokers) == 1:
        return Plan("p", snapshot.at_s, rent=1 if not snapshot.renting else 0)
    if snapshot.planned_s is not None:
        return Plan("p", snapshot.at_s)
    step = Step("t0", Strategy.SINGLE, ("server-2",), Strategy.SINGLE, ("server-1",), "more room there")
    return Plan("p", snapshot.at_s, steps=(step,))


def test_the_policy_sees_the_load_ratio_that_follows_from_who_is_there() -> None:
    seen: list[Snapshot] = []
    loop_of(watching(seen)).run(seconds(10, 3))
    # Two topics of 5 players each: 2 * (5 * 3 * 5) * 100 bytes/s of 40,000.
    assert seen[-1].load_ratios.tolist() == pytest.approx([15_000 / 40_000])
    assert seen[-1].entries.publications.tolist() == [15.0, 15.0]
    assert seen[-1].entries.deliveries.tolist() == [75.0, 75.0]
    assert seen[-1].entries.subscribers.tolist() == [5, 5]


def test_reports_are_averages_over_ten_seconds() -> None:
    seen: list[Snapshot] = []
    loop_of(watching(seen)).run((float(now), crowd(0 if now < 10 else 10)) for now in range(20))
    assert seen[14].out.tolist() == pytest.approx([7_500.0])
    assert seen[19].out.tolist() == pytest.approx([15_000.0])


def test_a_plan_takes_effect_after_its_delay_and_a_rented_server_after_its_start() -> None:
    run = loop_of(moves_t0_once).run(seconds(10, 20))
    assert [second.servers for second in run] == [1] * 6 + [2] * 14
    planned = [second.at_s for second in run if second.rebalanced]
    assert planned == [6.0]
    carries = [len(second.load_ratios) == 2 and second.load_ratios[1] > 0.0 for second in run]
    assert carries.index(True) == 9


def test_without_the_policy_nothing_is_relieved() -> None:
    with_policy = loop_of(moves_t0_once).run(seconds(20, 40))
    without = loop_of(nothing).run(seconds(20, 40))
    assert with_policy[-1].response_ms < 150.0
    assert without[-1].response_ms > 1_000.0


def test_no_more_servers_are_rented_than_there_are() -> None:
    run = loop_of(lambda snapshot: Plan("p", snapshot.at_s, rent=2)).run(seconds(4, 30))
    assert max(second.servers for second in run) == 3


def test_a_released_server_leaves_once_it_is_empty() -> None:
    def empties_the_second(snapshot: Snapshot) -> Plan:
        steps = tuple(
            Step(topic, Strategy.SINGLE, ("server-1",), Strategy.SINGLE, ("server-2",), "to be released")
            for at, topic in enumerate(snapshot.topics)
            if snapshot.brokers_of(at) == ("server-2",)
        )
        if snapshot.planned_s is not None or snapshot.at_s < 5.0:
            return Plan("p", snapshot.at_s)
        return Plan("p", snapshot.at_s, steps=steps, ring=("server-1",), release=("server-2",))

    loop = loop_of(empties_the_second, first=2)
    run = loop.run(seconds(10, 20))
    assert run[0].servers == 2
    assert run[-1].servers == 1
    assert loop.ring.brokers == ("server-1",)
    last = run[-1]
    assert last.load_ratios == pytest.approx((15_000 / 40_000,))


def test_the_policy_is_not_asked_while_its_plan_is_under_way() -> None:
    seen: list[Snapshot] = []
    loop_of(watching(seen, moves_t0_once)).run(seconds(10, 12))
    asked = [snapshot.at_s for snapshot in seen]
    assert 8.0 not in asked
    assert 7.0 in asked
    assert 10.0 in asked


def test_equal_runs_are_equal() -> None:
    assert loop_of(moves_t0_once).run(seconds(20, 30)) == loop_of(moves_t0_once).run(seconds(20, 30))
