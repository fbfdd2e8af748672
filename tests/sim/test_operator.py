"""Orders over the control bus, in virtual time."""

from collections.abc import Awaitable, Callable

import pytest

from nearcast.coordinator import Operator
from nearcast.domain.errors import LeaseLost, LinkDown, MoveRefused
from nearcast.domain.route import Strategy
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time

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
