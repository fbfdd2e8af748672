"""Bytes that are not what they claim to be: counted, dropped, and everything goes on. And clients that are not ours."""

import random
from collections.abc import Awaitable, Callable

import pytest

from nearcast.brokers.link import Link
from nearcast.client.live_subscription import LiveSubscription
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.route import Route, Strategy
from nearcast.sim.check import CheckResult
from nearcast.sim.deployment import BUS, DIALECT, Deployment
from nearcast.sim.loop import in_virtual_time
from nearcast.wire.control import (
    AGENT_SUBJECT,
    COORDINATOR_SUBJECT,
    Broken,
    Gone,
    Hello,
    Prepare,
    Switch,
    Unsure,
    Welcome,
    agent_bus_subject,
    client_subject,
    seal,
)
from nearcast.wire.dialect import NEWEST, Dialect
from nearcast.wire.envelope import CONTROL, FORWARDED, HEADER_BYTES, MAGIC, decode, encode, notice

StartFleet = Callable[..., Awaitable[Deployment]]
Finish = Callable[[Deployment], Awaitable[CheckResult]]

GARBAGE = (
    MAGIC,
    MAGIC + b"\x07" * 60,
    MAGIC + bytes((NEWEST, 0x80)) + b"\x00" * 60,
    MAGIC + bytes((NEWEST, 2)) + b"\xff" * HEADER_BYTES,
    MAGIC + bytes((NEWEST, 1)) + b"\x00" * 80,
)
HERE = Route(9, Strategy.SINGLE, ("nowhere",))


async def plain_link(fleet: Deployment, broker: str) -> Link:
    """A client that knows nothing of nearcast."""
    connect = fleet.network.connector("plain")
    return await connect(broker, lambda _up: None)


async def keep_publishing(fleet: Deployment, topic: str) -> None:
    sender = fleet.clients.get("sender") or fleet.start_client("sender")
    for _ in range(20):
        await fleet.publish(sender, topic, b"m")
        await fleet.sleep(0.05)


# Plain clients


@in_virtual_time
async def test_a_plain_clients_message_is_delivered_unsequenced(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    got: list[Message] = []
    await fleet.start_client("receiver").client.subscribe("t", got.append)
    link = await plain_link(fleet, fleet.ring.owner("t"))
    link.publish("t", b"hello from outside")
    link.publish("t", b"")
    await fleet.sleep(1.0)
    assert [message.payload for message in got] == [b"hello from outside", b""]
    assert not any(message.sequenced for message in got)


@in_virtual_time
async def test_a_plain_subscriber_gets_our_messages_behind_the_header(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    got: list[bytes] = []
    link = await plain_link(fleet, fleet.ring.owner("t"))
    await link.subscribe("t", got.append)
    await fleet.start_client("sender").client.publish("t", b"payload")
    await fleet.sleep(0.1)
    assert got[0][HEADER_BYTES:] == b"payload"


@in_virtual_time
async def test_a_plain_clients_messages_follow_a_topic_that_moves(start_fleet: StartFleet, finish: Finish) -> None:
    """It stays at the old broker, knowing nothing; while that one drains its agent forwards for it too."""
    fleet = await start_fleet()
    topic = next(name for name in map("t{}".format, range(99)) if fleet.ring.owner(name) == "b0")
    await fleet.subscribe(fleet.start_client("receiver"), topic)
    link = await plain_link(fleet, "b0")
    assert fleet.leader is not None
    fleet.leader.begin(topic, Strategy.SINGLE, ("b1",))
    for _ in range(50):
        link.publish(topic, b"from outside")
        await fleet.sleep(0.1)
    result = await finish(fleet)
    assert result.clean
    assert result.unsequenced == 50


# Garbage and forgeries on a topic


@in_virtual_time
async def test_garbage_on_a_topic_is_counted_and_everything_goes_on(
    start_fleet: StartFleet, finish: Finish, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = await start_fleet()
    receiver = fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    broker = fleet.ring.owner("t")
    link = await plain_link(fleet, broker)
    for _ in range(3):
        for data in GARBAGE:
            link.publish("t", data)
    await keep_publishing(fleet, "t")
    assert receiver.client.rejects.count == 3 * len(GARBAGE)
    said = [record.getMessage() for record in caplog.records if "unreadable" in record.getMessage()]
    assert len(said) == 1
    assert f"topic t at {broker}" in said[0]
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_forged_notice_moves_nobody(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    receiver = fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    await keep_publishing(fleet, "t")
    link = await plain_link(fleet, fleet.ring.owner("t"))
    publisher = fleet.clients["sender"].client.publication("t").machine.id
    for forged in (Switch("t", HERE, ("nowhere",), 9), Gone("t", publisher), Broken("t", "b0")):
        link.publish("t", encode(notice(forged, 9), Dialect(b"not the key")))
    await keep_publishing(fleet, "t")
    assert receiver.client.rejects.count == 3
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_garbage_on_a_moving_topic_stops_no_agent(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    await fleet.subscribe(fleet.start_client("receiver"), "t")
    broker = fleet.ring.owner("t")
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.HOMED, ("b0", "b1", "b2"))
    link = await plain_link(fleet, broker)
    for data in GARBAGE:
        link.publish("t", data)
    link.publish("t", encode(notice(Switch("t", HERE, ("nowhere",), 9), 9), Dialect(b"not the key")))
    await keep_publishing(fleet, "t")
    assert fleet.agents[broker].rejects.count == len(GARBAGE) + 1
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_forged_trail_is_at_worst_a_reported_discontinuity(start_fleet: StartFleet, finish: Finish) -> None:
    """Trails are not signed: whoever may publish on a topic can spoil it, but not without a word."""
    fleet = await start_fleet()
    receiver = fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.HOMED, ("b0", "b1"))
    await keep_publishing(fleet, "t")
    subscription = receiver.client._subscriptions["t"]
    assert isinstance(subscription, LiveSubscription)
    link = await plain_link(fleet, subscription.machine.wanted[0])
    rng = random.Random(3)
    for _ in range(50):
        names = b"".join(bytes((2,)) + rng.choice((b"b0", b"b1", b"b2")) for _ in range(2))
        trail = rng.randbytes(20) + bytes((2,)) + names
        link.publish("t", MAGIC + bytes((NEWEST, 2)) + rng.randbytes(HEADER_BYTES - 4) + trail + b"spoiled")
    await keep_publishing(fleet, "t")
    result = await finish(fleet)
    assert not result.lost
    assert not result.duplicated
    assert not result.reordered


@in_virtual_time
async def test_replayed_notices_and_barriers_lose_and_repeat_nothing(start_fleet: StartFleet, finish: Finish) -> None:
    """Somebody who may publish on the topic sends whatever notice it hears, at once, at every broker; and later again,
    when the next move begins.
    """
    fleet = await start_fleet()
    receiver = fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    links = [await plain_link(fleet, broker) for broker in ("b0", "b1", "b2")]
    heard: list[bytes] = []

    def replay(data: bytes) -> None:
        if data.startswith(MAGIC) and data[3] & CONTROL and data not in heard:
            heard.append(data)
            for link in links:
                link.publish("t", data)

    for link in links:
        await link.subscribe("t", replay)
    for brokers in (("b1",), ("b2",), ("b0",), ("b1",)):
        assert fleet.leader is not None
        await fleet.leader.move("t", Strategy.SINGLE, brokers)
        for link in links:
            for data in heard[-50:]:
                link.publish("t", data)
        await keep_publishing(fleet, "t")
        await fleet.sleep(30.0)
    assert any(data[3] & FORWARDED for data in heard), "markers were carried over"
    result = await finish(fleet)
    assert not result.lost
    assert not result.duplicated
    assert not result.reordered


# Garbage and forgeries on inboxes


@in_virtual_time
async def test_garbage_on_a_clients_inbox_is_counted_and_everything_goes_on(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    receiver = fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    broker = fleet.ring.owner("t")
    link = await plain_link(fleet, broker)
    forged = Welcome("t", HERE, ("nowhere",), 9, (), 1e9, fleet.now, 99, ("nowhere",))
    for data in (*GARBAGE, b"", b"text", seal(forged, Dialect(b"not the key"))):
        link.publish(client_subject("receiver"), data)
    await keep_publishing(fleet, "t")
    assert receiver.client.rejects.by_source[f"agent of {broker}"] == len(GARBAGE) + 3
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_garbage_on_an_agents_inboxes_is_counted_and_everything_goes_on(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    await fleet.subscribe(fleet.start_client("receiver"), "t")
    broker = fleet.ring.owner("t")
    forged_hello = Hello("t", "receiver", 0, 9, attached=True, asked_s=0.0, ring_version=0)
    forged_order = Prepare("t", 99, 9, (HERE,), 9, ())
    here, bus = await plain_link(fleet, broker), await plain_link(fleet, BUS)
    for data in GARBAGE:
        here.publish(AGENT_SUBJECT, data)
        bus.publish(agent_bus_subject(broker), data)
        bus.publish(COORDINATOR_SUBJECT, data)
    here.publish(AGENT_SUBJECT, seal(forged_hello, Dialect(b"not the key")))
    bus.publish(agent_bus_subject(broker), seal(forged_order, Dialect(b"not the key")))
    await keep_publishing(fleet, "t")
    agent = fleet.agents[broker]
    assert agent.rejects.by_source == {
        f"clients of {broker}": len(GARBAGE) + 1,
        "the control bus": len(GARBAGE) + 1,
    }
    assert agent.machine.term == 1
    assert fleet.leader is not None
    assert fleet.leader.rejects.count == len(GARBAGE)
    await fleet.leader.move("t", Strategy.SINGLE, ("b2",))
    await keep_publishing(fleet, "t")
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_a_signed_message_on_an_inbox_it_does_not_belong_on_changes_nothing(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    await fleet.subscribe(fleet.start_client("receiver"), "t")
    broker = fleet.ring.owner("t")
    here, bus = await plain_link(fleet, broker), await plain_link(fleet, BUS)
    order = seal(Prepare("t", 99, 9, (HERE,), 9, ()), DIALECT)
    here.publish(AGENT_SUBJECT, order)  # a client has no orders to give, even with the key
    here.publish(client_subject("receiver"), order)
    bus.publish(COORDINATOR_SUBJECT, order)
    bus.publish(agent_bus_subject(broker), seal(Unsure("t", 0.0, 0, leased=False, ring_version=0, ring=()), DIALECT))
    await keep_publishing(fleet, "t")
    assert fleet.agents[broker].machine.term == 1
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_an_answer_to_a_question_nobody_asked_is_ignored(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    await fleet.subscribe(fleet.start_client("receiver"), "t")
    link = await plain_link(fleet, fleet.ring.owner("t"))
    for publisher in (0, 12345):
        stray = Welcome("unknown", HERE, ("nowhere",), 9, (), 6.0, 0.0, 0, (), publisher=publisher)
        link.publish(client_subject("receiver"), seal(stray, DIALECT))
    await keep_publishing(fleet, "t")
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_what_a_plain_subscriber_sees_of_a_move_it_can_tell_from_messages(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    broker = fleet.ring.owner("t")
    seen: list[bytes] = []
    reports: list[Gap | Discontinuity] = []
    link = await plain_link(fleet, broker)
    await link.subscribe("t", seen.append)
    await fleet.start_client("receiver").client.subscribe("t", on_report=reports.append)
    assert fleet.leader is not None
    await fleet.leader.move("t", Strategy.HOMED, ("b0", "b1", "b2"))
    await fleet.sleep(2.0)
    assert seen
    assert all(decode(data, DIALECT).notice is not None for data in seen)
    assert reports == []
