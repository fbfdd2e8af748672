"""Homes of clients of homed topics in virtual time: the leader's loop finds out where they are, tells them where to be
at home, and they go there under traffic.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nearcast.brokers.memory_pipe import Wire
from nearcast.control.loop import LoopSettings
from nearcast.control.rehoming import HomesSettings
from nearcast.coordinator import Coordinator
from nearcast.domain.route import Delegation, Strategy
from nearcast.policies.settings import Allocation, Settings
from nearcast.sim.check import CheckResult
from nearcast.sim.deployment import Deployment, SimClient
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.network import Network
from nearcast.transport.crew import Crew
from tests.sim.conftest import TIMING

Finish = Callable[[Deployment], Awaitable[CheckResult]]

BROKERS = ("b0", "b1", "b2")
NEAR, FAR = Wire(delay_s=0.001), Wire(delay_s=0.02)
EVERY_S = 10.0
KNOWN_S = 30.0  # by then coordinates tell near brokers from far ones


def loop(policy: str = "reloc", most_changes: int | None = None) -> LoopSettings:
    return LoopSettings(policy, EVERY_S, settings=Settings(allocation=Allocation(most_changes=most_changes)))


@dataclass(slots=True)
class Town:
    """A fleet, and clients that talk while anything happens."""

    fleet: Deployment
    crew: Crew = field(default_factory=Crew)
    clients: dict[str, SimClient] = field(default_factory=dict)
    over: bool = False

    @property
    def leader(self) -> Coordinator:
        assert self.fleet.leader is not None
        return self.fleet.leader

    def near(self, client: str, broker: str) -> None:
        for each in BROKERS:
            self.fleet.network.set_wire(client, each, NEAR if each == broker else FAR)

    async def come(self, name: str, broker: str, topic: str, *, home: str | None = "b1") -> None:
        """It is near to that broker, hears and publishes on the topic, and has its home where it should not be."""
        self.clients[name] = client = self.fleet.start_client(name)
        self.near(name, broker)
        if home is not None:
            client.client.set_home(home)
        await self.fleet.subscribe(client, topic)
        self.crew.start(self._talk(client, topic), name)

    async def _talk(self, client: SimClient, topic: str) -> None:
        while not self.over:
            await self.fleet.publish(client, topic, b"x")
            await self.fleet.sleep(0.5)

    def homes(self) -> dict[str, str | None]:
        return {name: each.client.home for name, each in self.clients.items()}

    def at(self) -> dict[str, tuple[str, ...]]:
        """Where each hears its topic, in fact."""
        return {name: next(iter(each.subscriptions.values())).brokers for name, each in self.clients.items()}

    def route(self, topic: str) -> tuple[str, ...]:
        return self.leader.moves[topic].record.newest.brokers

    async def end(self, finish: Finish) -> CheckResult:
        self.over = True
        await self.fleet.sleep(1.0)
        await self.crew.close()
        return await finish(self.fleet)


async def start(settings: LoopSettings, *topics: str, brokers: tuple[str, ...] = BROKERS) -> Town:
    """The topics are homed on these brokers."""
    network = Network(random.Random(1), wire=FAR, store_delay_s=0.002)
    fleet = Deployment(network, BROKERS, timing=TIMING, rng=random.Random(2), surveyed=True)
    for broker in BROKERS:
        fleet.start_agent(broker)
        network.set_wire(f"agent-{broker}", broker, NEAR)
    fleet.start_coordinator("c0", settings, HomesSettings())
    await fleet.sleep(3.0)
    town = Town(fleet)
    for topic in topics:
        await town.leader.move(topic, Strategy.HOMED, brokers)
    return town


@in_virtual_time
async def test_clients_are_told_where_their_home_is_and_go_there_with_their_topics_and_nothing_is_lost(
    finish: Finish,
) -> None:
    town = await start(loop(), "west", "east")
    for number in range(3):
        await town.come(f"w{number}", "b0", "west")
        await town.come(f"e{number}", "b2", "east")
    await town.fleet.sleep(KNOWN_S + 3 * EVERY_S)
    assert town.homes() == {f"{side}{n}": broker for n in range(3) for side, broker in (("w", "b0"), ("e", "b2"))}
    assert town.at() == {name: (home,) for name, home in town.homes().items()}
    assert (town.route("west"), town.route("east")) == (("b0",), ("b2",)), "brokers where nobody is are left"
    result = await town.end(finish)
    assert result.delivered > 800
    assert result.clean, result.counts()


@in_virtual_time
async def test_no_more_homes_change_in_an_interval_than_the_budget_allows(finish: Finish) -> None:
    town = await start(loop("nearest-server", most_changes=2), "t")
    for number in range(6):
        await town.come(f"p{number}", BROKERS[number % 2 * 2], "t")
    before, changes = town.homes(), list[int]()
    for _ in range(6):
        await town.fleet.sleep(EVERY_S)
        changes.append(sum(before[name] != home for name, home in town.homes().items()))
        before = town.homes()
    assert before == {f"p{number}": BROKERS[number % 2 * 2] for number in range(6)}
    assert (max(changes), sum(changes)) == (2, 6)
    assert town.route("t") == ("b0", "b2")
    result = await town.end(finish)
    assert result.clean, result.counts()


@in_virtual_time
async def test_who_moves_away_gets_another_home_and_a_topic_goes_to_where_its_clients_are(finish: Finish) -> None:
    town = await start(loop("nearest-server"), "t", brokers=("b0", "b1"))
    for number in range(3):
        await town.come(f"p{number}", "b0", "t")
    await town.fleet.sleep(KNOWN_S)
    assert set(town.homes().values()) == {"b0"}
    town.near("p2", "b2")  # which the topic does not have
    await town.fleet.sleep(2 * KNOWN_S)
    assert town.homes() == {"p0": "b0", "p1": "b0", "p2": "b2"}
    assert town.at()["p2"] == ("b2",)
    assert town.route("t") == ("b0", "b2")
    result = await town.end(finish)
    assert result.clean, result.counts()


@in_virtual_time
async def test_homes_that_nobody_set_are_told_too_and_a_new_leader_waits_until_it_knows_everybody(
    finish: Finish,
) -> None:
    town = await start(loop("nearest-server"), "t")
    town.fleet.start_coordinator("c1", loop("nearest-server"), HomesSettings())
    for number in range(3):
        await town.come(f"p{number}", "b2", "t", home=None)
    assert any(brokers != ("b2",) for brokers in town.at().values()), "by their names"
    await town.fleet.crash_coordinator("c0")
    await town.fleet.sleep(KNOWN_S + 2 * EVERY_S)
    assert "b2" in town.homes().values()
    assert set(town.at().values()) == {("b2",)}, "also who is there by its name, and was told nothing"
    result = await town.end(finish)
    assert result.clean, result.counts()


@in_virtual_time
async def test_a_topic_that_an_operator_has_some_homes_delegate_stays_on_its_brokers(finish: Finish) -> None:
    town = await start(loop("nearest-server"), "t")
    await town.fleet.sleep(1.0)
    await town.leader.move("t", Strategy.HOMED, BROKERS, delegation=Delegation("b1", ("b0",)))
    await town.come("p0", "b0", "t")
    await town.fleet.sleep(KNOWN_S)
    assert town.homes() == {"p0": "b0"}
    assert town.route("t") == BROKERS
    assert town.clients["p0"].client.publication("t").machine.targets == ("b1",)
    result = await town.end(finish)
    assert result.clean, result.counts()
