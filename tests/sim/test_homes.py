"""Homes of subscribers in virtual time: they are placed and moved, and nothing is missed or comes twice."""

import asyncio
import random
from collections.abc import Callable
from functools import partial

import pytest

from nearcast.agent import channels as agent_channels
from nearcast.brokers.link import Link
from nearcast.brokers.memory_pipe import Wire
from nearcast.control.demand import Demand
from nearcast.control.loop import LoopSettings
from nearcast.control.rehoming import HomesSettings
from nearcast.coordinator import Operator
from nearcast.domain.channel import Notification, Parameter, ParameterType, Subscription
from nearcast.policies.settings import Balancing, Settings
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.network import Network
from nearcast.transport.endpoint import Tls
from nearcast.wire.channels import PIPELINE_SUBJECT, Describe, Described, Pull, Pulled, Result, Wanted
from nearcast.wire.control import agent_bus_subject, seal, unseal
from nearcast.wire.homes import HomesTold
from tests.sim.conftest import TIMING

BROKERS = ("b0", "b1", "b2")
CITIES = ("ulm", "bonn", "kiel", "trier")
LOOP = LoopSettings(settings=Settings(balancing=Balancing(beta_bytes_per_s=100.0)))
ROWS = b'[{"what":"' + b"x" * 500 + b'"}]'


class Pipeline:
    """Every execution has rows for every key; agents ask for them past the network."""

    def __init__(self, link: Link, now: Callable[[], float]) -> None:
        self.executions = 0
        self._link = link
        self._now = now
        self._demand = Demand((), 0.0, timing=TIMING, committed=lambda _: self.executions, refuse=lambda _: "")

    def execute(self) -> None:
        self.executions += 1
        for broker, message in self._demand.committed("fires", self.executions, list(self._demand.distinct), "url"):
            self._link.publish(agent_bus_subject(broker), seal(message, DIALECT))

    def receive(self, data: bytes) -> None:
        message = unseal(data, DIALECT)
        match message:
            case Wanted():
                self._demand.wanted(message, self._now())
                self._demand.told(self._demand.distinct, self.executions)
                self._demand.saved(dict(self._demand.unsaved))
                answer = self._demand.answer(message, "url")
                self._link.publish(agent_bus_subject(message.broker), seal(answer, DIALECT))
            case Describe():
                described = Described(message.client, message.channel, (Parameter("city", ParameterType.STRING),))
                self._link.publish(agent_bus_subject(message.broker), seal(described, DIALECT))

    async def ask(self, _url: str, _path: str, data: bytes, *, most_bytes: int, tls: Tls | None) -> bytes:
        await asyncio.sleep(0.01)
        pull = unseal(data, DIALECT)
        assert isinstance(pull, Pull)
        assert most_bytes
        assert tls is None
        found = tuple(
            (key, tuple(Result(each, each - 1, ROWS) for each in range(after + 1, self.executions + 1)))
            for key, after in pull.after
        )
        return seal(Pulled(self.executions, found), DIALECT)


class Person:
    """Each subscribes to two cities, and keeps what it is told."""

    def __init__(self, fleet: Deployment, name: str, home: str, *cities: str) -> None:
        self.client = fleet.start_client(name).client
        self.cities = cities
        self.got: dict[str, list[int]] = {city: [] for city in cities}
        self.first: dict[str, int] = {}
        self.missed: list[object] = []
        self._tasks: list[asyncio.Task[None]] = []
        if home:
            self.client.set_home(home)

    async def come(self) -> None:
        for city in self.cities:
            await self.subscribe(city)

    async def subscribe(self, city: str) -> None:
        subscription = await self.client.subscribe_channel("fires", {"city": city}, on_missed=self.missed.append)
        self.first[city] = subscription.position
        take = self.got.setdefault(city, []).append

        async def taking() -> None:
            async for each in subscription:
                assert isinstance(each, Notification)
                take(each.execution)

        self._tasks.append(asyncio.create_task(taking()))

    @property
    def homes(self) -> tuple[str, ...]:
        return self.client._channels.homes

    def must_have_all(self, until: int) -> None:
        for city, got in self.got.items():
            assert got == list(range(self.first[city] + 1, until + 1)), (self.client.name, city)
        assert not self.missed

    async def go(self) -> None:
        await self.client.close()
        await asyncio.gather(*self._tasks)


async def start(patch: pytest.MonkeyPatch, homes: HomesSettings) -> tuple[Deployment, Pipeline]:
    network = Network(random.Random(1), wire=Wire(delay_s=0.002), store_delay_s=0.002)
    fleet = Deployment(network, BROKERS, timing=TIMING, rng=random.Random(2), surveyed=True)
    link = await network.connector("pipeline")(BUS, lambda _up: None)
    pipeline = Pipeline(link, partial(getattr, fleet, "now"))
    await link.subscribe(PIPELINE_SUBJECT, pipeline.receive)
    patch.setattr(agent_channels, "ask", pipeline.ask)
    for broker in BROKERS:
        fleet.start_agent(broker)
    for name in ("c0", "c1"):
        fleet.start_coordinator(name, LOOP, homes)
        await fleet.sleep(0.1)
    await fleet.sleep(3.0)
    return fleet, pipeline


async def run(fleet: Deployment, pipeline: Pipeline, seconds: int) -> None:
    for _ in range(seconds):
        await fleet.sleep(1.0)
        pipeline.execute()


async def told(fleet: Deployment) -> HomesTold:
    async with Operator("op", fleet.network.connector("op"), bus=BUS, dialect=DIALECT) as operator:
        return await operator.homes()


def spread(found: HomesTold) -> list[int]:
    return [each.subscribers for each in found.brokers]


async def crowd(fleet: Deployment, count: int, home: str = "b0") -> list[Person]:
    people = [
        Person(fleet, f"person{number}", home, CITIES[number % 4], CITIES[(number + 1) % 4]) for number in range(count)
    ]
    for each in people:
        await each.come()
    return people


@pytest.mark.parametrize("policy", ["bad-ldm", "bad-shuffle"])
def test_a_crowd_that_came_to_one_broker_is_spread_and_misses_nothing(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fleet, pipeline = await start(monkeypatch, HomesSettings(policy=policy, every_s=20.0))
        people = await crowd(fleet, 18)
        await run(fleet, pipeline, 10)
        before = await told(fleet)
        assert spread(before) == [18, 0, 0]
        await run(fleet, pipeline, 40)
        after = await told(fleet)
        assert min(spread(after)) > 3, after
        assert (after.moving, after.policy) == (0, policy)
        assert after.cov < 0.2 < before.cov
        for each in people:
            assert len(each.homes) == 1, "all of its subscriptions went together"
            await each.subscribe("jena")
            assert len(each.homes) == 1, "and the next one goes where they are"
        await run(fleet, pipeline, 5)
        await fleet.sleep(2.0)
        for each in people:
            each.must_have_all(pipeline.executions)
            await each.go()

    scenario()


def test_the_next_leader_knows_everybody_again_before_it_moves_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fleet, pipeline = await start(monkeypatch, HomesSettings("round-robin", every_s=25.0))
        people = await crowd(fleet, 6)
        await run(fleet, pipeline, 10)
        assert spread(await told(fleet)) == [2, 2, 2], "by turns"
        for each in people:
            each.client.set_home("b1")
        await run(fleet, pipeline, 3)
        await fleet.crash_coordinator("c0")
        await run(fleet, pipeline, 12)
        assert spread(await told(fleet)) == [0, 6, 0], "who was there stays when another leads"
        await run(fleet, pipeline, 60)
        assert spread(await told(fleet)) == [2, 2, 2]
        await fleet.sleep(2.0)
        for each in people:
            each.must_have_all(pipeline.executions)
            await each.go()

    scenario()


def test_a_drained_broker_loses_its_subscribers_and_can_go_then(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fleet, pipeline = await start(monkeypatch, HomesSettings())
        people = await crowd(fleet, 6)
        await run(fleet, pipeline, 6)
        assert fleet.leader is not None
        await fleet.leader.brokers.drain("b0")
        await run(fleet, pipeline, 10)
        assert {home for each in people for home in each.homes} == {"b1", "b2"}
        assert fleet.leader.at_home("b0") == 0
        await fleet.sleep(2.0)
        for each in people:
            each.must_have_all(pipeline.executions)
            await each.go()

    scenario()


def test_who_comes_gets_the_broker_that_is_nearest_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fleet, pipeline = await start(monkeypatch, HomesSettings("nearest"))
        people = {near: Person(fleet, f"at-{near}", "b0", "ulm", "bonn") for near in reversed(BROKERS)}
        for near, person in people.items():
            for broker in BROKERS:
                fleet.network.set_wire(f"at-{near}", broker, Wire(delay_s=0.001 if broker == near else 0.02))
            await person.come()
        await run(fleet, pipeline, 15)
        assert {near: person.homes for near, person in people.items()} == {near: (near,) for near in BROKERS}
        await fleet.sleep(2.0)
        for person in people.values():
            person.must_have_all(pipeline.executions)
            await person.go()

    scenario()


def test_a_plan_for_homes_is_shown_and_applied_by_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fleet, pipeline = await start(monkeypatch, HomesSettings())
        people = await crowd(fleet, 6)
        await run(fleet, pipeline, 12)
        assert spread(await told(fleet)) == [6, 0, 0], "nobody moves by itself"
        async with Operator("op2", fleet.network.connector("op2"), bus=BUS, dialect=DIALECT) as operator:
            shown = await operator.rebalance("plan", policy="bad-ldm")
            assert (shown.state, shown.homes_count, shown.homes_left) == ("proposed", len(shown.homes), 4)
            assert all(each.was == "b0" and each.reason for each in shown.homes)
            assert (await operator.rebalance("apply", plan=shown.plan)).state == "running"
            await run(fleet, pipeline, 5)
            done = await operator.rebalance("status")
        assert (done.state, done.homes_left) == ("done", 0)
        assert spread(await told(fleet)) == [2, 2, 2]
        await fleet.sleep(2.0)
        for each in people:
            each.must_have_all(pipeline.executions)
            await each.go()

    scenario()


def test_what_is_seen_is_in_the_snapshots_file(monkeypatch: pytest.MonkeyPatch) -> None:
    @in_virtual_time
    async def scenario() -> None:
        fleet, pipeline = await start(monkeypatch, HomesSettings())
        people = await crowd(fleet, 2)
        await run(fleet, pipeline, 12)
        assert fleet.leader is not None
        homes = fleet.leader.rebalancer.seen().homes
        assert homes is not None
        assert homes.subscribers == ("person0", "person1")
        assert sorted(homes.keys) == sorted(Subscription("fires", (("city", city),)).key for city in CITIES[:3])
        assert homes.rate.min() == pytest.approx(len(ROWS), rel=0.4), "a second, with what is around the rows"
        for each in people:
            await each.go()

    scenario()


@in_virtual_time
async def test_an_agent_says_who_is_there_as_soon_as_it_reaches_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, _ = await start(monkeypatch, HomesSettings())
    assert fleet.leader is not None
    await fleet.sleep(5.0)
    assert fleet.leader.homes.residents.reported() == {"b0", "b1", "b2"}
    await fleet.crash_agent("b2")
    await fleet.sleep(1.4 * TIMING.lease_s)
    assert fleet.leader.homes.residents.reported() == {"b0", "b1"}, "what a lost agent said is forgotten"
    fleet.start_agent("b2")
    await fleet.sleep(1.0)
    assert fleet.leader.homes.residents.reported() == {"b0", "b1", "b2"}
