"""Orders over the control bus, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from nearcast.coordinator import Operator
from nearcast.coordinator.journal import Journal
from nearcast.domain.broker import Presence
from nearcast.domain.decision import Decision
from nearcast.domain.errors import LeaseLost, LinkDown, MoveRefused
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot_json import read_snapshot
from nearcast.domain.task import Task
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.brokers import BrokerOrder
from nearcast.wire.control import MoveOrder
from nearcast.wire.promises import PromiseOrder
from nearcast.wire.rebalancing import RebalanceOrder

StartFleet = Callable[..., Awaitable[Deployment]]


def operator_of(fleet: Deployment) -> Operator:
    return Operator("op", fleet.network.connector("op"), bus=BUS, dialect=DIALECT)


@in_virtual_time
async def test_an_order_moves_a_topic_and_comes_back_with_its_epoch(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    async with operator_of(fleet) as operator:
        assert await operator.move("t", Strategy.SINGLE, ("b1",)) == 1
        assert await operator.move("t", Strategy.ALL_SUBSCRIBERS, ("b0", "b1")) == 2
        status = await operator.status()
    assert (status.leader, status.topics, status.moving) == ("c0", 1, ("t",))
    assert [(each.broker, each.present) for each in status.agents] == [("b0", True), ("b1", True), ("b2", True)]
    assert status.ring == ("b0", "b1", "b2")


@in_virtual_time
async def test_what_cannot_be_is_refused_with_the_reason(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with operator_of(fleet) as operator:
        with pytest.raises(MoveRefused, match="'nowhere' has no agent that answers; known are b0, b1, b2"):
            await operator.move("t", Strategy.SINGLE, ("nowhere",))
        with pytest.raises(MoveRefused, match="wildcards"):
            await operator.move("t.*", Strategy.SINGLE, ("b0",))


@in_virtual_time
async def test_when_nobody_leads_it_says_so(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=())
    async with operator_of(fleet) as operator:
        with pytest.raises(LeaseLost, match="no coordinator answered within"):
            await operator.status()


@in_virtual_time
async def test_a_question_asked_while_another_takes_over_is_asked_again(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    await fleet.coordinators["c0"].close()
    async with operator_of(fleet) as operator:
        assert (await operator.status()).leader == "c1"


@in_virtual_time
async def test_without_a_bus_it_says_that_traffic_goes_on_and_nothing_moves(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with operator_of(fleet) as operator:
        fleet.network.crash_broker(BUS)
        await fleet.sleep(1.0)
        with pytest.raises(LinkDown, match="nothing moves"):
            await operator.status()


@in_virtual_time
async def test_a_dry_run_tells_what_an_order_would_do_and_does_nothing(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with operator_of(fleet) as operator:
        await operator.move("t", Strategy.SINGLE, ("b1",))
        before = await operator.snapshot()
        moved = await operator.foresee(MoveOrder("t", "op", 0, Strategy.SINGLE, ("b2",), reason="closer"))
        drained = await operator.foresee(BrokerOrder("op", 0, "drain", "b1", reason="repair"))
        added = await operator.foresee(BrokerOrder("op", 0, "add", "b9", "nats://127.0.0.1:4222"))
        promised = await operator.foresee(PromiseOrder("op", 0, "t", "p95:40ms"))
        after = await operator.snapshot()
        standings = await operator.standings()
        status = await operator.status()
    assert [(step.was_brokers, step.brokers, step.reason) for step in moved.steps] == [(("b1",), ("b2",), "closer")]
    assert [(step.topic, step.was_brokers) for step in drained.steps] == [("t", ("b1",))]
    assert drained.steps[0].brokers[0] in {"b0", "b2"}
    assert "leaves the ring first" in " ".join(drained.notes)
    assert "topics go there when they are moved" in added.notes[0]
    assert promised.notes[:2] == ("promised now: nothing", "promised then: p95:40ms")
    assert routes_in(before) == routes_in(after)
    assert standings.topics == ()
    assert [each.name for each in status.brokers if each.state is not Presence.PRESENT] == []


@in_virtual_time
async def test_a_dry_run_of_what_would_be_refused_says_why(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with operator_of(fleet) as operator:
        nowhere = await operator.foresee(MoveOrder("t", "op", 0, Strategy.SINGLE, ("nowhere",)))
        unknown = await operator.foresee(BrokerOrder("op", 0, "remove", "b7"))
        no_promise = await operator.foresee(PromiseOrder("op", 0, "t", "soon"))
        no_plan = await operator.foresee(RebalanceOrder("op", 0, "apply", plan=7))
        idle = await operator.foresee(RebalanceOrder("op", 0, "stop"))
    assert "'nowhere' has no agent that answers" in nowhere.refused
    assert "there is no broker 'b7'" in unknown.refused
    assert "'soon' is no promise" in no_promise.refused
    assert "plan 7 is not known to this leader" in no_plan.refused
    assert idle.refused == "no plan is being carried out"


@in_virtual_time
async def test_what_was_ordered_and_why_is_written_down_with_what_became_of_it(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with operator_of(fleet) as operator:
        await operator.move("t", Strategy.SINGLE, ("b1",), reason="closer to players")
        with pytest.raises(MoveRefused):
            await operator.move("t", Strategy.SINGLE, ("nowhere",), reason="a slip")
        await operator.promise("t", Slo.parse("p95:40ms"), reason="players complain")
        await operator.broker("drain", "b1", reason="disk is failing")
        await asyncio.sleep(30)
    tasks: list[Task] = []
    decisions: list[Decision] = []
    reader = fleet.network.start_process("reader")
    async with aclosing(Journal(fleet.network.store.handle(reader.clock)).watch()) as found:
        async for values in found:
            for each in values:
                if isinstance(each, Task):
                    tasks.append(each)
                else:
                    decisions.append(each)
            if tasks and decisions:
                break
    assert [(task.what, task.subject, task.reason, task.state) for task in tasks] == [
        ("move to single on b1", "topic t", "closer to players", "done"),
        ("move to single on nowhere", "topic t", "a slip", "refused"),
        ("promise p95:40ms", "topic t", "players complain", "done"),
        ("drain broker", "broker b1", "disk is failing", "done"),
    ]
    assert "'nowhere' has no agent" in tasks[1].outcome
    reasons = [decision.reason for decision in decisions if not decision.refused]
    assert reasons == ["asked for by operator op: closer to players", "broker 'b1' is being drained: disk is failing"]


def routes_in(snapshot: bytes) -> dict[str, Route]:
    return read_snapshot(snapshot).routes()
