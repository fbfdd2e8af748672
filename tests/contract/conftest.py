"""What the contract suites run over: a stage per adapter, each run on the event loop that the adapter needs.

A new adapter joins by a class with the methods that `test_link.LinkStage` or `test_store.StoreStage` asks for, and by a
line in LINK_STAGES or STORE_STAGES.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from nearcast.brokers.link import Connect
from nearcast.brokers.memory import ServerCosts, Wire
from nearcast.sim.loop import run_virtual
from nearcast.sim.network import STORE, Network
from nearcast.store.store import Store
from tests.contract.link_stages import nats, redis
from tests.contract.store_stages import nats_kv

Scenario = Callable[["MemoryStage"], Awaitable[None]]
Run = Callable[[Scenario], None]


class MemoryStage:
    """A simulated network, as a stage for both suites."""

    broker = "b1"

    def __init__(self, wire: Wire, costs: ServerCosts, store_delay_s: float) -> None:
        self._network = Network(random.Random(1), wire=wire, costs=costs, store_delay_s=store_delay_s)
        self._network.add_broker(self.broker)

    def connector(self, process: str) -> Connect:
        return self._network.connector(process)

    async def cut(self, process: str) -> None:
        self._network.cut(process, self.broker)

    async def stop_broker(self) -> None:
        self._network.crash_broker(self.broker)

    async def start_broker(self) -> None:
        self._network.restart_broker(self.broker)

    async def freeze_broker(self) -> None:
        self._network.pause_broker(self.broker)

    async def thaw_broker(self) -> None:
        self._network.resume_broker(self.broker)

    async def store(self, process: str) -> Store:
        known = self._network.processes.get(process)
        return (known or self._network.start_process(process)).store

    async def stop_store(self) -> None:
        self._network.partition([[STORE], list(self._network.processes)])

    async def start_store(self) -> None:
        self._network.heal()

    async def freeze_store(self) -> None:
        await self.stop_store()

    async def thaw_store(self) -> None:
        await self.start_store()

    async def cut_off(self, process: str) -> None:
        self._network.refuse(process, STORE)

    async def reconnect(self, process: str) -> None:
        assert process in self._network.processes
        self._network.heal()


async def on_memory(scenario: Scenario, wire: Wire, costs: ServerCosts, store_delay_s: float) -> None:
    async with asyncio.timeout(60):
        await scenario(MemoryStage(wire, costs, store_delay_s))


def memory(scenario: Scenario) -> None:
    run_virtual(on_memory(scenario, Wire(), ServerCosts(), 0.0), seed=1)


def memory_with_costs(scenario: Scenario) -> None:
    wire = Wire(delay_s=0.01, jitter_s=0.01, bytes_per_s=1e7)
    run_virtual(on_memory(scenario, wire, ServerCosts(1e-5, 1e-5, 1.0, 1e6), 0.01), seed=1)


def memory_in_real_time(scenario: Scenario) -> None:
    asyncio.run(on_memory(scenario, Wire(delay_s=0.001), ServerCosts(), 0.001))


LINK_STAGES: dict[str, Callable[..., None]] = {
    "memory": memory,
    "memory-with-costs": memory_with_costs,
    "memory-in-real-time": memory_in_real_time,
    "nats": nats,
    "redis": redis,
}

STORE_STAGES: dict[str, Callable[..., None]] = {
    "memory": memory,
    "memory-with-costs": memory_with_costs,
    "memory-in-real-time": memory_in_real_time,
    "nats_kv": nats_kv,
}


@pytest.fixture(params=LINK_STAGES)
def on_links(request: pytest.FixtureRequest) -> Callable[..., None]:
    return LINK_STAGES[request.param]


@pytest.fixture(params=STORE_STAGES)
def on_stores(request: pytest.FixtureRequest) -> Callable[..., None]:
    return STORE_STAGES[request.param]
