"""Plans that an operator asks for, and those that the leader makes by itself, in virtual time."""

from collections import deque
from collections.abc import Awaitable, Callable

import pytest

from nearcast.control.loop import LoopSettings
from nearcast.coordinator import Operator
from nearcast.domain.load import BrokerReport, Resources, TopicLoad
from nearcast.domain.plan import Plan, Step
from nearcast.domain.route import Strategy
from nearcast.domain.whereabouts import BrokerPlace, Spot
from nearcast.policies.settings import Settings
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.loads import Load
from nearcast.wire.places import Placed
from nearcast.wire.rebalancing import Rebalancing

StartFleet = Callable[..., Awaitable[Deployment]]
CAPACITY = 1000.0
TOPICS = ("x", "y", "z")
_LAG = 9  # reports, one a second


def operator_of(fleet: Deployment) -> Operator:
    return Operator("op", fleet.network.connector("op"), bus=BUS, dialect=DIALECT)


def report(fleet: Deployment, each: float, **rates: float) -> None:
    """What the agents would say: every topic's subscribers get so many bytes a second, from where the topic is."""
    assert fleet.leader is not None
    routes = {topic: move.record.newest for topic, move in fleet.leader.moves.items()}
    for broker in fleet.leader.brokers.present:
        here = {topic: rates.get(topic, each) for topic, route in routes.items() if broker in route.brokers}
        loads = tuple(TopicLoad(topic, 1.0, 10.0, 10.0, rate, 1, 10) for topic, rate in here.items())
        found = BrokerReport(broker, fleet.now, sum(here.values()), CAPACITY, loads)
        fleet.leader.reports.heard(Load(found), fleet.now)


async def loaded(start_fleet: StartFleet, **options: object) -> Deployment:
    fleet = await start_fleet(coordinators=("c0", "c1"), **options)
    assert fleet.leader is not None
    for topic in TOPICS:
        await fleet.leader.move(topic, Strategy.SINGLE, ("b0",))
    await fleet.sleep(1.0)
    report(fleet, 300.0)
    return fleet


def where(fleet: Deployment) -> list[tuple[str, ...]]:
    assert fleet.leader is not None
    return [fleet.leader.moves[topic].record.newest.brokers for topic in TOPICS]


@in_virtual_time
async def test_a_plan_is_shown_and_moves_nothing_and_applied_it_moves_exactly_that(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet)
    async with operator_of(fleet) as operator:
        shown = await operator.rebalance("plan")
        assert (shown.state, shown.objections, shown.refused) == ("proposed", (), "")
        assert shown.steps
        assert all(step.was_brokers == ("b0",) and step.reason for step in shown.steps)
        await fleet.sleep(2.0)
        assert where(fleet) == [("b0",)] * 3
        report(fleet, 300.0)
        assert (await operator.rebalance("apply", plan=shown.plan)).state == "running"
        await fleet.sleep(5.0)
        done = await operator.rebalance("status")
    assert (done.plan, done.state, done.counts.done) == (shown.plan, "done", len(shown.steps))
    planned = {step.topic: step.brokers for step in shown.steps}
    assert where(fleet) == [planned.get(topic, ("b0",)) for topic in TOPICS]


@in_virtual_time
async def test_a_plan_that_is_stopped_begins_nothing_more(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet, loop=LoopSettings(at_once=1))
    async with operator_of(fleet) as operator:
        shown = await operator.rebalance("plan")
        assert len(shown.steps) > 1
        await operator.rebalance("apply", plan=shown.plan)
        stopping = await operator.rebalance("stop")
        assert (stopping.state, stopping.counts.moving) == ("stopping", 1)
        await fleet.sleep(10.0)
        stopped = await operator.rebalance("status")
        assert (stopped.state, stopped.counts.done, stopped.counts.dropped) == (
            "stopped",
            1,
            len(shown.steps) - 1,
        )
        assert (await operator.rebalance("stop")).refused == "no plan is being carried out"
    assert len([each for each in where(fleet) if each != ("b0",)]) == 1


@in_virtual_time
async def test_a_topic_whose_last_move_is_just_being_ended_is_waited_for(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet)
    leader = fleet.leader
    assert leader is not None
    while leader.movable("x"):  # its old broker is quiet after 2 L; then agents are told to release it
        await fleet.sleep(0.001)
    report(fleet, 300.0)
    single = Strategy.SINGLE
    step = Step("x", single, ("b1",), single, ("b0",), "to see whether it goes")
    execution = leader.rebalancer.carry_out(Plan("test", fleet.now, (step,)), at_once=1)
    await fleet.sleep(5.0)
    assert [(each.state.value, each.why) for each in execution.progress()] == [("done", "")]
    assert leader.moves["x"].record.newest.brokers == ("b1",)


async def refused(operator: Operator, plan: int) -> str:
    found: Rebalancing = await operator.rebalance("apply", plan=plan)
    return found.refused


@in_virtual_time
async def test_a_plan_of_what_is_no_more_is_refused(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet)
    async with operator_of(fleet) as operator:
        shown = await operator.rebalance("plan")
        moved = shown.steps[0].topic
        await operator.move(moved, Strategy.SINGLE, ("b2",))
        assert f"topic {moved!r} has moved since the plan was made" in await refused(operator, shown.plan)
        assert "plan 99 is not known to this leader (known: 1)" in await refused(operator, 99)
        assert (
            "'magic' is not known; there are all-pairs, bad-groups"
            in (await operator.rebalance("plan", policy="magic")).refused
        )


@in_virtual_time
async def test_the_next_leader_makes_its_own_plans(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet)
    async with operator_of(fleet) as operator:
        shown = await operator.rebalance("plan")
        await fleet.crash_coordinator("c0")
        await fleet.sleep(20.0)
        assert (await operator.rebalance("status")).plan == 0
        assert "is not known to this leader" in await refused(operator, shown.plan)


@in_virtual_time
async def test_by_itself_it_relieves_a_broker_that_carries_too_much(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet, loop=LoopSettings(every_s=1.0))
    for _ in range(6):
        report(fleet, 300.0)
        await fleet.sleep(1.0)
    assert where(fleet) != [("b0",)] * 3


@in_virtual_time
async def test_who_uses_too_much_processor_is_relieved_once_although_its_use_falls_later_than_its_messages(
    start_fleet: StartFleet,
) -> None:
    """As servers were seen to: clients count a topic elsewhere at once, its server is busy for seconds yet."""
    fleet = await start_fleet(loop=LoopSettings(policy="epulsar", every_s=5.0, rest_s=0.0))
    leader = fleet.leader
    assert leader is not None
    topics = [f"t{number}" for number in range(8)]
    for topic in topics:
        await leader.move(topic, Strategy.SINGLE, ("b0",))
    lately = {broker: deque([0.0], maxlen=_LAG) for broker in ("b0", "b1", "b2")}
    for second in range(60):
        for broker, used in lately.items():
            here = [topic for topic in topics if broker in leader.moves[topic].record.newest.brokers]
            loads = tuple(TopicLoad(topic, 10.0, 100.0, 10.0, 100.0, 1, 10) for topic in here)
            used.append(len(here) / len(topics))
            report = BrokerReport(
                broker, fleet.now, 100.0 * len(here), 1e6, loads, Resources(used[0]), Resources(cores=1.05)
            )
            leader.reports.heard(Load(report), fleet.now)
            leader.placed(Placed(BrokerPlace(broker, Spot((0.0, 0.0), 0.0), ()), second + 1))
        await fleet.sleep(1.0)
    assert sum(leader.moves[topic].record.newest.brokers != ("b0",) for topic in topics) == 1


@in_virtual_time
async def test_by_itself_it_plans_nothing_before_it_has_heard_every_broker(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(loop=LoopSettings(every_s=0.5))
    async with operator_of(fleet) as operator:
        assert (await operator.rebalance("status")).plan == 0
        report(fleet, 30.0)
        await fleet.sleep(1.0)
        assert (await operator.rebalance("plan")).plan > 1, "now it plans"


@in_virtual_time
async def test_by_itself_it_rents_a_server_when_no_plan_helps_and_releases_it_when_load_is_gone(
    start_fleet: StartFleet,
) -> None:
    settings = Settings(wait_s=5.0, min_brokers=3, low_ratio=0.3)
    fleet = await loaded(start_fleet, loop=LoopSettings(every_s=1.0, settings=settings))
    assert fleet.leader is not None
    for topic, broker in (("p", "b1"), ("q", "b1"), ("r", "b2"), ("s", "b2")):
        await fleet.leader.move(topic, Strategy.SINGLE, (broker,))
    for _ in range(16):
        report(fleet, 300.0, p=450.0, q=450.0, r=450.0, s=450.0)
        await fleet.sleep(1.0)
    rented = set(fleet.leader.brokers.present) - {"b0", "b1", "b2"}
    assert rented == {"r1", "r2", "r3"}, "four topics of 450 and three of 300 need six servers, at 600 each"
    assert rented & {broker for move in fleet.leader.moves.values() for broker in move.record.newest.brokers}
    for _ in range(120):
        report(fleet, 30.0)
        await fleet.sleep(1.0)
    assert len(fleet.leader.brokers.present) == 3


@in_virtual_time
async def test_without_reports_nothing_is_planned(start_fleet: StartFleet) -> None:
    fleet = await loaded(start_fleet)
    await fleet.sleep(30.0)  # what was reported is too old by now
    async with operator_of(fleet) as operator:
        shown = await operator.rebalance("plan")
    assert shown.steps == ()


def test_a_loop_that_cannot_be_is_refused() -> None:
    with pytest.raises(Exception, match="at_once is 0"):
        LoopSettings(at_once=0)
