"""How a publisher has its messages confirmed, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

from nearcast.control import publisher
from nearcast.sim.deployment import Deployment
from nearcast.sim.loop import in_virtual_time

StartFleet = Callable[..., Awaitable[Deployment]]


@in_virtual_time
async def test_a_fast_publisher_does_not_wait_for_its_confirmations_to_be_put_together(start_fleet: StartFleet) -> None:
    fleet = await start_fleet("b0")
    client = fleet.start_client("sender").client
    await client.publish("t", b"")
    began_s = fleet.now
    for number in range(4 * publisher.MOST_UNCONFIRMED):
        await client.publish("t", b"")
        if number % 64 == 0:
            await asyncio.sleep(0)
    assert fleet.now - began_s < 0.1, "a few round trips of 10 ms"


@in_virtual_time
async def test_a_publisher_with_too_much_unconfirmed_goes_on_after_a_break(start_fleet: StartFleet) -> None:
    fleet = await start_fleet("b0")
    client = fleet.start_client("sender").client
    await client.publish("t", b"")
    await fleet.sleep(1.0)
    for _ in range(publisher.MOST_UNCONFIRMED):
        await client.publish("t", b"")
    fleet.network.refuse("sender", "b0")
    await fleet.sleep(2.0)
    fleet.network.heal()
    await client.publish("t", b"", timeout_s=5.0)
