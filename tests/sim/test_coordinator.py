"""Coordinators in virtual time: takeovers, refusals, a store that is away, a ring that changes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from nearcast.control.move import Move
from nearcast.coordinator import Coordinator
from nearcast.domain.errors import ConfigError, LeaseLost, MoveRefused, TopicNameError
from nearcast.domain.record import Phase
from nearcast.domain.route import Strategy
from nearcast.sim.check import CheckResult
from nearcast.sim.deployment import BUS, DIALECT, Deployment, SimClient
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.control import COORDINATOR_SUBJECT, Ack, seal

StartFleet = Callable[..., Awaitable[Deployment]]
Finish = Callable[[Deployment], Awaitable[CheckResult]]
LEASE_S = 6.0


def leader(fleet: Deployment) -> Coordinator:
    found = fleet.leader
    assert found is not None, "nobody leads"
    return found


def topic_of(fleet: Deployment, broker: str) -> str:
    """A topic that the ring gives to this broker."""
    return next(name for name in map("t{}".format, range(999)) if fleet.ring.owner(name) == broker)


class Traffic:
    """One publisher and two subscribers of one topic, without a pause."""

    def __init__(self, fleet: Deployment, topic: str) -> None:
        self.fleet = fleet
        self.topic = topic
        self._over = False

    async def start(self) -> "Traffic":
        names = [f"{self.topic}-{role}" for role in ("sender", "receiver", "listener")]
        sender, *receivers = (self.fleet.start_client(name) for name in names)
        for receiver in receivers:
            await self.fleet.subscribe(receiver, self.topic)
        self._task = asyncio.create_task(self._publish(sender))
        return self

    async def stop(self) -> None:
        self._over = True
        await self._task

    async def _publish(self, sender: SimClient) -> None:
        while not self._over:
            await self.fleet.publish(sender, self.topic, b"m")
            await self.fleet.sleep(0.05)


async def until(fleet: Deployment, reached: Callable[[], bool], deadline_s: float = 60.0) -> None:
    until_s = fleet.now + deadline_s
    while not reached():
        assert fleet.now < until_s, f"not reached within {deadline_s} s"
        await fleet.sleep(0.01)


# Leading


@in_virtual_time
async def test_one_of_several_leads_and_the_others_refuse(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    assert [name for name, each in fleet.coordinators.items() if each.leading] == ["c0"]
    with pytest.raises(LeaseLost, match="'c1' does not lead now"):
        fleet.coordinators["c1"].begin("t", Strategy.SINGLE, ("b0",))


@in_virtual_time
async def test_one_that_closes_steps_down_so_that_another_need_not_wait(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    await fleet.coordinators["c0"].close()
    await until(fleet, lambda: fleet.coordinators["c1"].leading, LEASE_S / 3)


@pytest.mark.parametrize("phase", [Phase.PREPARING, Phase.TOLD])
@in_virtual_time
async def test_a_second_coordinator_rolls_forward_what_the_first_left_half_done(
    start_fleet: StartFleet, finish: Finish, phase: Phase
) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    traffic = await Traffic(fleet, topic_of(fleet, "b0")).start()
    await fleet.sleep(1.0)
    leader(fleet).begin(traffic.topic, Strategy.SINGLE, ("b1",))
    await until(fleet, lambda: ("move", traffic.topic, 1, phase) in moves_of(fleet))
    await fleet.crash_coordinator("c0")
    second = fleet.coordinators["c1"]
    await until(fleet, lambda: second.leading and traffic.topic in second.moves)
    await until(fleet, lambda: second.moves[traffic.topic].finished)
    record = second.moves[traffic.topic].record
    assert (record.newest.epoch, record.newest.brokers) == (1, ("b1",))
    await traffic.stop()
    assert (await finish(fleet)).clean


def moves_of(fleet: Deployment) -> list[tuple[str, str, int, str]]:
    return [(kind, *rest) for kind, _, *rest in fleet.history.events if kind == "move"]


@in_virtual_time
async def test_a_move_that_waits_while_its_leader_loses_the_lease_says_so(start_fleet: StartFleet) -> None:
    """Nothing had been written, so there is nothing that the next leader, the same one again, goes on with."""
    fleet = await start_fleet()
    fleet.network.store.down = True
    moving = asyncio.create_task(leader(fleet).move("t", Strategy.SINGLE, ("b1",)))
    await fleet.sleep(2 * LEASE_S)
    assert fleet.leader is None
    fleet.network.store.down = False
    await until(fleet, moving.done)
    with pytest.raises(LeaseLost, match="'t'"):
        await moving


# Refusals


@in_virtual_time
async def test_a_move_while_one_is_preparing_is_refused_with_a_clear_message(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, topic_of(fleet, "b0")).start()
    leader(fleet).begin(traffic.topic, Strategy.SINGLE, ("b1",))
    with pytest.raises(MoveRefused, match=rf"'{traffic.topic}' is still being moved to epoch 1 \(preparing\)"):
        leader(fleet).begin(traffic.topic, Strategy.SINGLE, ("b2",))
    await until(fleet, lambda: leader(fleet).movable(traffic.topic))
    assert await leader(fleet).move(traffic.topic, Strategy.SINGLE, ("b2",)) == 2
    await fleet.sleep(2.0)
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_move_to_a_broker_without_an_agent_is_refused(start_fleet: StartFleet) -> None:
    fleet = await start_fleet("b0", "b1", agents=("b0",))
    with pytest.raises(MoveRefused, match="'b1' has no agent that answers; known are b0"):
        leader(fleet).begin("t", Strategy.HOMED, ("b0", "b1"))


@in_virtual_time
async def test_a_move_to_a_broker_whose_agent_died_is_refused(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    await fleet.crash_agent("b1")
    await fleet.sleep(2 * LEASE_S)
    with pytest.raises(MoveRefused, match=r"broker 'b1'.* agent"):
        leader(fleet).begin("t", Strategy.SINGLE, ("b1",))


@in_virtual_time
async def test_an_order_that_makes_no_sense_is_refused_and_leaves_no_trace(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    with pytest.raises(ConfigError, match="a single route has one broker"):
        leader(fleet).begin("t", Strategy.SINGLE, ("b0", "b1"))
    with pytest.raises(ConfigError, match="not empty"):
        leader(fleet).begin("t", Strategy.HOMED, ())
    with pytest.raises(TopicNameError):
        leader(fleet).begin("no such*topic", Strategy.SINGLE, ("b0",))
    assert leader(fleet).moves == {}


# Agents that come and go


@in_virtual_time
async def test_a_topic_can_be_moved_away_from_a_broker_whose_agent_died_long_ago(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    topic = topic_of(fleet, "b0")
    await leader(fleet).move("another", Strategy.SINGLE, ("b2",))
    await fleet.crash_agent("b0")
    await fleet.sleep(3 * LEASE_S)
    leader(fleet).begin(topic, Strategy.SINGLE, ("b1",))
    await until(fleet, lambda: leader(fleet).movable(topic))
    traffic = await Traffic(fleet, topic).start()
    await fleet.sleep(2.0)
    await traffic.stop()
    result = await finish(fleet)
    assert result.honest
    assert result.delivered == 2 * result.published


@in_virtual_time
async def test_a_leader_that_is_back_in_office_misses_who_was_lost_before(start_fleet: StartFleet) -> None:
    """The agent died in its first term; in its second it must not wait for it for ever."""
    fleet = await start_fleet()
    topic = topic_of(fleet, "b0")
    await leader(fleet).move(topic, Strategy.SINGLE, ("b1",))
    await until(fleet, lambda: leader(fleet).moves[topic].finished)
    await fleet.crash_agent("b0")
    await fleet.sleep(2 * LEASE_S)
    fleet.network.store.down = True
    await fleet.sleep(2 * LEASE_S)
    fleet.network.store.down = False
    await until(fleet, lambda: fleet.leader is not None and topic in fleet.leader.moves)
    await until(fleet, lambda: leader(fleet).moves[topic].finished)


@in_virtual_time
async def test_a_move_whose_new_broker_dies_while_it_prepares_goes_back_and_says_so(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, topic_of(fleet, "b0")).start()
    await fleet.crash_agent("b1")
    with pytest.raises(MoveRefused, match=f"'{traffic.topic}' is back where it was: while it moved to b1"):
        await leader(fleet).move(traffic.topic, Strategy.SINGLE, ("b1",))
    record = leader(fleet).moves[traffic.topic].record
    assert (record.newest.epoch, record.newest.brokers) == (2, ("b0",))
    await traffic.stop()
    assert (await finish(fleet)).honest


@in_virtual_time
async def test_an_agent_that_was_away_is_caught_up_before_it_gets_a_lease(
    start_fleet: StartFleet, finish: Finish
) -> None:
    """The one that answers for the ring starts anew: whoever asks it must not be sent to the old broker."""
    fleet = await start_fleet()
    topic = topic_of(fleet, "b0")
    traffic = await Traffic(fleet, topic).start()
    await leader(fleet).move(topic, Strategy.SINGLE, ("b1",))
    await fleet.sleep(LEASE_S / 2)
    await fleet.crash_agent("b0")
    restarted = fleet.start_agent("b0")
    while not restarted.machine.sure(fleet.now):
        await fleet.sleep(0.001)
    known = restarted.machine.forwarders[topic]
    assert known.routes[known.told].brokers == ("b1",)
    assert known.attached, "the topic is still draining: it must listen before it answers anybody"
    await fleet.sleep(2.0)
    await traffic.stop()
    result = await finish(fleet)
    assert result.honest
    assert result.delivered == 2 * result.published


# The store


@in_virtual_time
async def test_with_the_store_down_traffic_goes_on_and_nothing_moves_until_it_is_back(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    traffic = await Traffic(fleet, topic_of(fleet, "b0")).start()
    fleet.network.store.down = True
    await fleet.sleep(2 * LEASE_S)
    assert fleet.leader is None
    for coordinator in fleet.coordinators.values():
        with pytest.raises(LeaseLost):
            coordinator.begin(traffic.topic, Strategy.SINGLE, ("b1",))
    delivered = sum(1 for event in fleet.history.events if event[0] == "delivered")
    await fleet.sleep(5.0)
    assert sum(1 for event in fleet.history.events if event[0] == "delivered") >= delivered + 100
    fleet.network.store.down = False
    await until(fleet, lambda: fleet.leader is not None)
    await fleet.sleep(2.0)
    assert await leader(fleet).move(traffic.topic, Strategy.SINGLE, ("b1",)) == 1
    await fleet.sleep(3.0)
    await traffic.stop()
    result = await finish(fleet)
    assert result.honest
    assert result.delivered == 2 * result.published


@in_virtual_time
async def test_a_store_that_blinks_in_the_middle_of_a_move_only_delays_it(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    traffic = await Traffic(fleet, topic_of(fleet, "b0")).start()
    moving = asyncio.create_task(leader(fleet).move(traffic.topic, Strategy.SINGLE, ("b1",)))
    await fleet.sleep(0.003)
    fleet.network.store.down = True
    await fleet.sleep(1.5)
    assert not moving.done()
    fleet.network.store.down = False
    assert await moving == 1
    await fleet.sleep(2.0)
    await traffic.stop()
    assert (await finish(fleet)).clean


# The ring


@in_virtual_time
async def test_a_ring_change_pins_topics_in_use_and_loses_nothing(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    topic = topic_of(fleet, "b0")
    traffic = await Traffic(fleet, topic).start()
    await fleet.sleep(LEASE_S)
    await leader(fleet).change_ring(("b1", "b2"))
    record = leader(fleet).moves[topic].record
    assert record.newest.brokers == ("b0",), "it stays where it is, by an explicit route"
    late = fleet.start_client("late")
    await fleet.subscribe(late, topic)
    await fleet.publish(fleet.start_client("later"), topic, b"m")
    await fleet.sleep(LEASE_S)
    await leader(fleet).move(topic, Strategy.SINGLE, ("b2",))
    await fleet.sleep(LEASE_S)
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_topic_used_only_since_a_moment_is_pinned_too(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    topic = topic_of(fleet, "b0")
    await fleet.sleep(LEASE_S)
    traffic = await Traffic(fleet, topic).start()
    await leader(fleet).change_ring(("b1", "b2"))
    fleet.ring = leader(fleet).ring  # what is started from now on goes by the new ring
    late = fleet.start_client("late")
    await fleet.subscribe(late, topic)
    await fleet.publish(fleet.start_client("later"), topic, b"m")
    await fleet.sleep(LEASE_S)
    await traffic.stop()
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_ring_change_outlives_its_coordinator(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(coordinators=("c0", "c1"))
    await leader(fleet).change_ring(("b1", "b2"))
    await fleet.crash_coordinator("c0")
    await until(fleet, lambda: fleet.leader is not None)
    assert leader(fleet).ring.brokers == ("b1", "b2")
    await fleet.sleep(LEASE_S)
    assert all(agent.machine.ring.brokers == ("b1", "b2") for agent in fleet.agents.values())


@in_virtual_time
async def test_what_an_agent_acknowledged_before_it_started_anew_counts_for_nothing(start_fleet: StartFleet) -> None:
    """Its answer was on its way when it crashed, and comes after the word that another has taken its place."""
    fleet = await start_fleet()
    before = fleet.agents["b1"].machine.incarnation
    await fleet.crash_agent("b1")
    fleet.start_agent("b1")
    await fleet.sleep(LEASE_S)
    fleet.network.refuse("agent-b1", BUS)
    leader(fleet).begin("t", Strategy.SINGLE, ("b1",))
    await fleet.sleep(0.2)
    move, term = leader(fleet).moves["t"], leader(fleet).term
    assert term is not None
    late = await fleet.network.connector("late")(BUS, lambda _up: None)
    late.publish(COORDINATOR_SUBJECT, seal(Ack("t", "b1", before, term, "prepare", 1), DIALECT))
    await late.flush()
    await fleet.sleep(0.2)
    assert move.record.phase is Phase.PREPARING
    fleet.network.heal()
    await until(fleet, lambda: move.draining or move.finished)


@in_virtual_time
async def test_a_move_does_not_ask_all_other_topics_for_their_time(
    start_fleet: StartFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = await start_fleet()
    assert fleet.leader is not None
    for number in range(40):
        await fleet.leader.move(f"t{number}", Strategy.SINGLE, ("b1",))
    asked: list[str] = []
    wake_s = Move.wake_s

    def counted(move: Move) -> float:
        asked.append(move.record.topic)
        return wake_s(move)

    monkeypatch.setattr(Move, "wake_s", counted)
    await fleet.leader.move("t7", Strategy.SINGLE, ("b2",))
    assert len(asked) < 40
    assert set(asked) == {"t7"}
