"""Brokers that come and go, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from nearcast.coordinator import Coordinator, Operator
from nearcast.coordinator.brokers import least_routes
from nearcast.domain.broker import Presence
from nearcast.domain.errors import BrokerRefused, MoveRefused
from nearcast.domain.log import LogSpec, Segment, TopicLog
from nearcast.domain.route import Route, Strategy
from nearcast.fleet.provisioner import Rented
from nearcast.sim.check import CheckResult, check
from nearcast.sim.deployment import BUS, DIALECT, Deployment, SimClient
from nearcast.sim.loop import in_virtual_time
from nearcast.sim.reconfiguration import Scale, grace_s, run_seed

StartFleet = Callable[..., Awaitable[Deployment]]
Finish = Callable[[Deployment], Awaitable[CheckResult]]
LEASE_S = 6.0


def leader(fleet: Deployment) -> Coordinator:
    found = fleet.leader
    assert found is not None, "nobody leads"
    return found


def state(fleet: Deployment, broker: str) -> Presence | None:
    found = [each.state for each in leader(fleet).brokers.records() if each.name == broker]
    return found[0] if found else None


async def until(fleet: Deployment, reached: Callable[[], bool], deadline_s: float = 90.0) -> None:
    until_s = fleet.now + deadline_s
    while not reached():
        assert fleet.now < until_s, f"not reached within {deadline_s} s"
        await fleet.sleep(0.05)


async def rented(fleet: Deployment) -> str:
    name = await leader(fleet).brokers.rent()
    await until(fleet, lambda: state(fleet, name) is Presence.PRESENT)
    return name


async def removed(fleet: Deployment, name: str) -> None:
    brokers = leader(fleet).brokers
    await brokers.drain(name)
    await until(fleet, lambda: not brokers.left(name) and name not in leader(fleet).ring.brokers)
    await brokers.remove(name)
    await until(fleet, lambda: state(fleet, name) is Presence.REMOVED)


class Traffic:
    """A publisher and a subscriber of each topic, without a pause."""

    def __init__(self, fleet: Deployment, topics: list[str]) -> None:
        self.fleet = fleet
        self.topics = topics
        self._over = False

    async def start(self) -> "Traffic":
        for topic in self.topics:
            await self.fleet.subscribe(self.fleet.start_client(f"{topic}-receiver"), topic)
        senders = [(self.fleet.start_client(f"{topic}-sender"), topic) for topic in self.topics]
        self._tasks = [asyncio.create_task(self._publish(*each)) for each in senders]
        return self

    async def stop(self) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)

    async def _publish(self, sender: SimClient, topic: str) -> None:
        while not self._over:
            await self.fleet.publish(sender, topic, b"m")
            await self.fleet.sleep(0.05)


TOPICS = [f"t{number}" for number in range(6)]


@in_virtual_time
async def test_a_broker_is_rented_used_drained_and_released_under_traffic(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, TOPICS).start()
    new = await rented(fleet)
    for topic in TOPICS[:3]:
        await leader(fleet).move(topic, Strategy.SINGLE, (new,))
    await leader(fleet).move(TOPICS[3], Strategy.ALL_SUBSCRIBERS, ("b0", new))
    late = fleet.start_client("late")
    await fleet.subscribe(late, TOPICS[0])
    await fleet.sleep(2 * LEASE_S)
    assert len(leader(fleet).brokers.left(new)) == 4
    await removed(fleet, new)
    assert new not in fleet.network.brokers
    assert leader(fleet).moves[TOPICS[3]].record.newest.strategy is Strategy.ALL_SUBSCRIBERS
    await fleet.sleep(LEASE_S)
    await traffic.stop()
    result = await finish(fleet)
    assert result.clean
    assert result.delivered > 4000


@in_virtual_time
async def test_a_broker_of_the_ring_leaves_it_before_it_is_drained(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, TOPICS).start()
    assert any(fleet.ring.owner(topic) == "b1" for topic in TOPICS)
    await removed(fleet, "b1")
    assert leader(fleet).ring.brokers == ("b0", "b2")
    assert not [topic for topic, each in leader(fleet).moves.items() if "b1" in each.record.newest.brokers]
    assert [each.broker for each in leader(fleet).agents.states(fleet.now)] == ["b0", "b2"]
    await fleet.sleep(2 * LEASE_S)
    assert "b1" not in leader(fleet).agents.known(), "its agent still runs, and gets no lease"
    late = fleet.start_client("late")  # its file still has b1 in the ring
    await fleet.subscribe(late, next(name for name in map("u{}".format, range(99)) if fleet.ring.owner(name) == "b1"))
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_the_last_of_the_ring_hands_it_to_those_that_are_left(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet("b0")
    traffic = await Traffic(fleet, TOPICS).start()
    new = await rented(fleet)
    await removed(fleet, "b0")
    assert leader(fleet).ring.brokers == (new,)
    await fleet.sleep(2 * LEASE_S)
    await fleet.subscribe(fleet.clients["t0-receiver"], "another")
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_what_cannot_be_done_is_refused_with_the_reason(start_fleet: StartFleet) -> None:
    fleet = await start_fleet("b0", "b1")
    brokers = leader(fleet).brokers
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    with pytest.raises(BrokerRefused, match="'b0' is there already"):
        await brokers.add("b0")
    with pytest.raises(BrokerRefused, match=r"'a b' is no name for a broker: expected letters"):
        await brokers.add("a b")
    with pytest.raises(BrokerRefused, match="has a password"):
        await brokers.add("b9", "nats://u:p@10.0.0.9:4222")
    with pytest.raises(BrokerRefused, match="'http://x' has the scheme 'http'"):
        await brokers.add("b9", "http://x")
    with pytest.raises(BrokerRefused, match="'b1' is present; drain it first"):
        await brokers.remove("b1")
    with pytest.raises(BrokerRefused, match="there is no broker 'b9'; brokers are b0, b1"):
        await brokers.drain("b9")
    await brokers.drain("b1")
    with pytest.raises(BrokerRefused, match=r"left \(none\); the configured minimum is 1"):
        await brokers.drain("b0")
    with pytest.raises(BrokerRefused, match=r"not empty: 1 topics are still there \(t\)"):
        await brokers.remove("b1")
    with pytest.raises(MoveRefused, match="broker 'b1' is draining: nothing moves to it"):
        leader(fleet).begin("u", Strategy.SINGLE, ("b1",))


@in_virtual_time
async def test_a_drain_that_is_cancelled_leaves_a_broker_that_takes_topics_again(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    brokers = leader(fleet).brokers
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    await brokers.drain("b1")
    await until(fleet, lambda: leader(fleet).moves["t"].record.newest.brokers != ("b1",))
    await brokers.cancel("b1")
    await until(fleet, lambda: leader(fleet).movable("t"))
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    await fleet.sleep(4 * LEASE_S)
    assert leader(fleet).moves["t"].record.newest.brokers == ("b1",)
    assert state(fleet, "b1") is Presence.PRESENT


@in_virtual_time
async def test_a_drain_that_is_cancelled_puts_the_broker_back_into_the_ring(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, TOPICS).start()
    await leader(fleet).brokers.drain("b1")
    await until(fleet, lambda: "b1" not in leader(fleet).ring.brokers)
    await fleet.sleep(LEASE_S)
    await leader(fleet).brokers.cancel("b1")
    await until(fleet, lambda: leader(fleet).ring.brokers == ("b0", "b1", "b2"))
    unused = next(name for name in map("u{}".format, range(99)) if fleet.ring.owner(name) == "b1")
    late = fleet.start_client("late")
    await fleet.subscribe(late, unused)
    await fleet.publish(late, unused, b"m")
    assert unused in fleet.agents["b1"].machine.forwarders, "strangers find it there again"
    await fleet.sleep(2 * LEASE_S)
    assert state(fleet, "b1") is Presence.PRESENT
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_drain_that_is_cancelled_while_the_ring_changes_moves_nothing_more(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    traffic = await Traffic(fleet, ["t", *TOPICS]).start()
    await leader(fleet).brokers.drain("b1")
    await fleet.sleep(0.1)
    assert "b1" in leader(fleet).ring.brokers, "the agents are still being asked"
    await leader(fleet).brokers.cancel("b1")
    await fleet.sleep(8 * LEASE_S)
    assert leader(fleet).ring.brokers == ("b0", "b1", "b2")
    assert leader(fleet).moves["t"].record.newest.brokers == ("b1",)
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_the_next_leader_puts_a_broker_back_that_is_to_be_kept(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    traffic = await Traffic(fleet, TOPICS).start()
    await leader(fleet).brokers.drain("b1")
    await until(fleet, lambda: "b1" not in leader(fleet).ring.brokers)
    await leader(fleet).brokers.cancel("b1")
    await fleet.crash_coordinator("c0")
    await until(fleet, lambda: fleet.leader is not None)
    await until(fleet, lambda: leader(fleet).ring.brokers == ("b0", "b1", "b2"))
    new = await rented(fleet)
    await leader(fleet).brokers.drain(new)
    await leader(fleet).brokers.cancel(new)
    await fleet.sleep(4 * LEASE_S)
    assert leader(fleet).ring.brokers == ("b0", "b1", "b2"), "one that was not in the ring does not come into it"
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_topic_that_others_keep_moving_does_not_hold_up_a_drain(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, ["t"]).start()
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    await leader(fleet).brokers.drain("b1")
    refusals = []
    until_s = fleet.now + 6 * LEASE_S
    while leader(fleet).brokers.left("b1"):
        assert fleet.now < until_s
        await fleet.sleep(0.5)
        for target in ("b0", "b2"):
            try:
                leader(fleet).begin("t", Strategy.SINGLE, (target,))
            except MoveRefused as error:
                refusals.append(str(error))
    assert any("has just left broker 'b1', which is draining" in each for each in refusals)
    await until(fleet, lambda: leader(fleet).movable("t"))
    leader(fleet).begin("t", Strategy.SINGLE, ("b0",))
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_server_that_does_not_start_is_asked_for_again_and_says_why(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    fleet.provisioner.refuses = 1.0
    name = await leader(fleet).brokers.rent()
    await fleet.sleep(10.0)
    (standing,) = [each for each in leader(fleet).brokers.standings() if each.name == name]
    assert (standing.state, standing.trouble) == (Presence.JOINING, f"no server today: rent {name!r}")
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    fleet.provisioner.refuses = 0.0
    await until(fleet, lambda: state(fleet, name) is Presence.PRESENT, 31.0)
    fleet.provisioner.refuses = 1.0
    other = await leader(fleet).brokers.rent()
    assert (name, other) == ("r1", "r2")
    await leader(fleet).brokers.remove(other)
    fleet.provisioner.refuses = 0.0
    await until(fleet, lambda: state(fleet, other) is Presence.REMOVED, 31.0)


@in_virtual_time
async def test_the_next_leader_goes_on_with_what_was_begun(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    traffic = await Traffic(fleet, TOPICS).start()
    name = await leader(fleet).brokers.rent()
    await fleet.crash_coordinator("c0")
    await until(fleet, lambda: fleet.leader is not None)
    await until(fleet, lambda: state(fleet, name) is Presence.PRESENT)
    await leader(fleet).move(TOPICS[0], Strategy.SINGLE, (name,))
    await leader(fleet).brokers.drain(name)
    await leader(fleet).brokers.drain("b2")
    fleet.start_coordinator("c0")
    await fleet.crash_coordinator("c1")
    await until(fleet, lambda: fleet.leader is not None)
    await until(fleet, lambda: not leader(fleet).brokers.left(name) and not leader(fleet).brokers.left("b2"))
    await until(fleet, lambda: leader(fleet).ring.brokers == ("b0", "b1"))
    for each in (name, "b2"):
        await leader(fleet).brokers.remove(each)
        await until(fleet, lambda each=each: state(fleet, each) is Presence.REMOVED)  # type: ignore[misc]  # of a loop
    fleet.start_coordinator("c1")
    await fleet.crash_coordinator("c0")
    await until(fleet, lambda: fleet.leader is not None)
    await fleet.sleep(0.5)  # not the time after which an agent would be given up
    assert leader(fleet).movable(TOPICS[0]), "nobody waits for agents that have left"
    await fleet.sleep(LEASE_S)
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_rented_server_that_was_started_anew_is_told_of_at_its_new_address(
    start_fleet: StartFleet, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    new = await rented(fleet)
    topic = next(name for name in map("t{}".format, range(99)) if fleet.ring.owner(name) == "b1")
    await leader(fleet).move(topic, Strategy.SINGLE, (new,))
    traffic = await Traffic(fleet, [topic]).start()

    async def elsewhere(_name: str) -> Rented:
        return Rented("memory://elsewhere")

    monkeypatch.setattr(fleet.provisioner, "rent", elsewhere)
    await fleet.crash_coordinator("c0")
    await until(fleet, lambda: fleet.leader is not None)
    owner = fleet.agents["b1"].machine.forwarders[topic]
    await until(fleet, lambda: owner.addresses == ((new, "memory://elsewhere"),))
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_orders_come_over_the_bus_and_the_status_says_how_far_they_are(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with Operator("op", fleet.network.connector("op"), bus=BUS, dialect=DIALECT) as operator:
        await operator.broker("add", "hired")
        await until(fleet, lambda: state(fleet, "hired") is Presence.PRESENT)
        await operator.move("t", Strategy.SINGLE, ("hired",))
        await operator.broker("drain", "hired")
        with pytest.raises(BrokerRefused, match="not empty"):
            await operator.broker("remove", "hired")
        standing = {each.name: each for each in (await operator.status()).brokers}["hired"]
        assert (standing.state, standing.left, standing.topics) == (Presence.DRAINING, 1, ("t",))
        assert (standing.url, standing.rented, standing.in_ring) == ("memory://hired", True, False)
        await until(fleet, lambda: not leader(fleet).brokers.left("hired"))
        await operator.broker("remove", "hired")
        await until(fleet, lambda: state(fleet, "hired") is Presence.REMOVED)
        assert [each.name for each in (await operator.status()).brokers] == ["b0", "b1", "b2"]


@in_virtual_time
async def test_a_ring_that_cannot_be_changed_now_holds_nobody_up(
    start_fleet: StartFleet, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic in use cannot be pinned: what was frozen for the change is usable again."""
    fleet = await start_fleet()
    traffic = await Traffic(fleet, TOPICS).start()

    async def refuse(topic: str, *_: object, **__: object) -> int:
        raise MoveRefused(f"not {topic}")

    with monkeypatch.context() as patched:
        patched.setattr(leader(fleet), "move", refuse)
        with pytest.raises(MoveRefused, match="not t"):
            await leader(fleet).change_ring(("b0", "b2"))
    assert leader(fleet).ring.brokers == ("b0", "b1", "b2")
    unused = next(name for name in map("u{}".format, range(99)) if fleet.ring.owner(name) == "b1")
    async with asyncio.timeout(2 * LEASE_S):
        assert await fleet.subscribe(fleet.start_client("late"), unused) is not None
    await leader(fleet).change_ring(("b0", "b2"))
    await traffic.stop()
    assert leader(fleet).ring.brokers == ("b0", "b2")
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_an_agent_that_has_just_started_does_not_say_that_nobody_uses_its_topics(
    start_fleet: StartFleet, finish: Finish
) -> None:
    """Rule 11: who was let in by the agent before it is still there, and must not be left behind by a ring change."""
    fleet = await start_fleet()
    topic = next(name for name in map("t{}".format, range(99)) if fleet.ring.owner(name) == "b1")
    traffic = await Traffic(fleet, [topic]).start()
    await fleet.crash_agent("b1")
    fleet.start_agent("b1")
    await leader(fleet).change_ring(("b0", "b2"))
    await fleet.publish(fleet.start_client("late"), topic, b"m")  # to whoever has the topic by the new ring
    await fleet.sleep(LEASE_S)
    await traffic.stop()
    result = await finish(fleet)
    assert result.honest, result.counts()
    assert result.delivered == result.published


@in_virtual_time
async def test_an_agent_that_starts_anew_while_the_ring_changes_is_asked_again(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    topic = next(name for name in map("t{}".format, range(99)) if fleet.ring.owner(name) == "b1")
    await fleet.sleep(2 * LEASE_S)
    fleet.network.refuse("agent-b2", BUS)
    changing = asyncio.create_task(leader(fleet).change_ring(("b0", "b2")))
    await until(fleet, lambda: "b1" in leader(fleet).rings._frozen)
    await fleet.crash_agent("b1")
    fleet.start_agent("b1")
    traffic = await Traffic(fleet, [topic]).start()  # let in by an agent that has frozen nothing
    assert not changing.done(), "it waits for b2"
    fleet.network.heal()
    await changing
    fleet.ring = leader(fleet).ring
    await fleet.publish(fleet.start_client("late"), topic, b"m")
    await fleet.sleep(LEASE_S)
    await traffic.stop()
    assert (await finish(fleet)).clean


def test_what_leaves_a_broker_goes_where_the_fewest_routes_are() -> None:
    route = Route(1, Strategy.ALL_PUBLISHERS, ("a", "b"))
    assert least_routes(route, ("b", "c", "d"), {"c": 5, "d": 2}) == ("b", "d")
    assert least_routes(route, ("b", "c", "d"), {"c": 2, "d": 2}) == ("b", "c")
    assert least_routes(route, ("b",), {}) == ("b",), "fewer, when there are no more"
    assert least_routes(Route(1, Strategy.SINGLE, ("a",)), (), {}) == ()


@pytest.mark.parametrize("faults", [False, True])
def test_a_seed_in_which_servers_come_and_go(faults: bool) -> None:
    history = run_seed(3, faults=faults, scale=Scale(elastic=True, clients=20, topics=10))
    result = check(history, grace_s=grace_s(faults))
    assert result.honest, result.counts()
    notes = [event[2] for event in history.events if event[0] == "fault"]
    assert any("is rented" in note for note in notes)
    assert any("is removed" in note for note in notes)


@in_virtual_time
async def test_a_broker_that_keeps_a_part_of_a_log_does_not_go(start_fleet: StartFleet) -> None:
    fleet = await start_fleet("b0", "b1")
    await leader(fleet).move("t", Strategy.SINGLE, ("b1",))
    await leader(fleet).move("t", Strategy.SINGLE, ("b0",))
    await leader(fleet).brokers.drain("b1")
    await until(fleet, lambda: not leader(fleet).brokers.left("b1") and "b1" not in leader(fleet).ring.brokers)
    move = leader(fleet).moves["t"]
    log = TopicLog("id", LogSpec(1), (Segment(1, "b1", 5), Segment(2, "b0")))
    move.record = replace(move.record, log=log)
    with pytest.raises(BrokerRefused, match=r"keeps a part of the log of 1 persistent topics \(t\)"):
        await leader(fleet).brokers.remove("b1")
    move.record = replace(move.record, log=log.without((1,)))
    await removed(fleet, "b1")
