"""A small fleet in virtual time, and the verdict at its end."""

import random
from collections.abc import Awaitable, Callable

import pytest

from nearcast.brokers.memory_pipe import Wire
from nearcast.control.loop import LoopSettings
from nearcast.control.timing import Timing
from nearcast.sim.check import CheckResult, check
from nearcast.sim.deployment import Deployment
from nearcast.sim.network import Network

TIMING = Timing(lease_s=6.0, linger_s=0.5, patience_s=2.0, retry_s=0.5, beat_s=0.5)

StartFleet = Callable[..., Awaitable[Deployment]]
Finish = Callable[[Deployment], Awaitable[CheckResult]]


@pytest.fixture
def start_fleet() -> StartFleet:
    async def start(
        *brokers: str,
        coordinators: tuple[str, ...] = ("c0",),
        agents: tuple[str, ...] | None = None,
        loop: LoopSettings | None = None,
    ) -> Deployment:
        """Brokers with their agents (or some of them) and coordinators, up and with their leases."""
        names = brokers or ("b0", "b1", "b2")
        network = Network(random.Random(1), wire=Wire(delay_s=0.005), store_delay_s=0.002)
        fleet = Deployment(network, names, timing=TIMING, rng=random.Random(2))
        for broker in names if agents is None else agents:
            fleet.start_agent(broker)
        for name in coordinators:
            fleet.start_coordinator(name, loop)
            await fleet.sleep(0.1)  # the first one leads
        await fleet.sleep(3.0)
        return fleet

    return start


@pytest.fixture
def finish() -> Finish:
    async def finish(fleet: Deployment) -> CheckResult:
        """Waits until every timer of the protocol has run out, and judges what happened."""
        await fleet.sleep(4 * TIMING.lease_s)
        fleet.history.finished(fleet.now)
        return check(fleet.history, grace_s=2.0)

    return finish
