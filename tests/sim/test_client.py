"""The client in virtual time, with real agents and coordinators, as an application sees it."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from nearcast.client import Client, Overflow, SlowConsumer, Subscription
from nearcast.client.live_subscription import LiveSubscription
from nearcast.client.publication import Publication
from nearcast.control.instructions import Ready
from nearcast.domain.errors import ConfigError, LeaseLost, LinkClosed, MessageTooLarge, TopicNameError
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.route import Strategy
from nearcast.sim.check import CheckResult
from nearcast.sim.deployment import Deployment
from nearcast.sim.loop import in_virtual_time
from tests.sim.conftest import TIMING

StartFleet = Callable[..., Awaitable[Deployment]]
Finish = Callable[[Deployment], Awaitable[CheckResult]]


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


async def take(subscription: Subscription, count: int) -> list[bytes]:
    return [(await anext(aiter(subscription))).payload for _ in range(count)]


async def publish(client: Client, *data: bytes, topic: str = "t") -> None:
    for each in data:
        await client.publish(topic, each)


# Ways to receive


@in_virtual_time
async def test_a_subscription_is_an_async_iterator(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    subscription = await receiver.subscribe("t")
    await publish(sender, b"1", b"2", b"3")
    assert await take(subscription, 3) == [b"1", b"2", b"3"]


@in_virtual_time
async def test_iterating_ends_when_the_subscription_is_closed_after_what_had_come(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    async with await receiver.subscribe("t") as subscription:
        await publish(sender, b"1", b"2")
        await fleet.sleep(1.0)
    assert [message.payload async for message in subscription] == [b"1", b"2"]


@in_virtual_time
async def test_who_waits_for_the_next_message_is_woken_by_the_end(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    subscription = await fleet.start_client("receiver").client.subscribe("t")

    async def take_all() -> list[Message]:
        return [message async for message in subscription]

    waiting = asyncio.create_task(take_all())
    await fleet.sleep(1.0)
    subscription.close()
    assert await waiting == []


@in_virtual_time
async def test_two_tasks_that_share_a_subscription_both_get_messages(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    subscription = await receiver.subscribe("t")
    takers = [asyncio.create_task(take(subscription, 1)) for _ in range(2)]
    await fleet.sleep(0.1)
    await publish(sender, b"1", b"2")
    await fleet.sleep(1.0)
    assert [taker.result() for taker in takers if taker.done()] == [[b"1"], [b"2"]]


@in_virtual_time
async def test_a_task_that_gives_up_waiting_takes_nothing_from_the_other(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    subscription = await receiver.subscribe("t")
    gives_up, stays = (asyncio.create_task(take(subscription, 1)) for _ in range(2))
    await fleet.sleep(0.1)
    gives_up.cancel()
    await fleet.sleep(0.1)
    await publish(sender, b"1")
    await fleet.sleep(1.0)
    assert stays.done()
    assert stays.result() == [b"1"]


@in_virtual_time
async def test_a_callback_gets_the_messages_and_iterating_is_refused(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    got: list[Message] = []
    subscription = await receiver.subscribe("t", got.append)
    await publish(sender, b"1", b"2")
    await fleet.sleep(1.0)
    assert payloads(got) == [b"1", b"2"]
    assert [message.seq for message in got] == [1, 2]
    assert got[0].sequenced
    with pytest.raises(TypeError, match="'t' has a callback"):
        aiter(subscription)


@in_virtual_time
async def test_a_client_hears_itself(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    client = fleet.start_client("both").client
    subscription = await client.subscribe("t")
    await publish(client, b"1")
    assert await take(subscription, 1) == [b"1"]


# Buffers that overflow


async def overflowing(
    fleet: Deployment, overflow: Overflow, reports: list[Gap | Discontinuity]
) -> tuple[Client, Subscription]:
    """Five messages for a buffer of two."""
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    subscription = await receiver.subscribe("t", on_report=reports.append, buffer=2, overflow=overflow)
    await publish(sender, b"1", b"2", b"3", b"4", b"5")
    await fleet.sleep(1.0)
    return sender, subscription


@pytest.mark.parametrize(
    ("overflow", "kept", "lost"),
    [(Overflow.DROP_OLDEST, [b"4", b"5"], [1, 2, 3]), (Overflow.DROP_NEWEST, [b"1", b"2"], [3, 4, 5])],
)
@in_virtual_time
async def test_what_a_full_buffer_drops_is_reported_as_a_gap(
    start_fleet: StartFleet, overflow: Overflow, kept: list[bytes], lost: list[int]
) -> None:
    fleet = await start_fleet()
    reports: list[Gap | Discontinuity] = []
    sender, subscription = await overflowing(fleet, overflow, reports)
    assert await take(subscription, 2) == kept
    publisher = sender.publication("t").machine.id
    assert reports == [Gap("t", publisher, seq, seq) for seq in lost]
    assert subscription.dropped_count == 3
    await publish(sender, b"6")
    assert await take(subscription, 1) == [b"6"]


@in_virtual_time
async def test_a_buffer_that_may_not_overflow_ends_the_subscription_after_what_it_holds(
    start_fleet: StartFleet,
) -> None:
    fleet = await start_fleet()
    _, subscription = await overflowing(fleet, Overflow.FAIL, [])
    assert await take(subscription, 2) == [b"1", b"2"]
    with pytest.raises(SlowConsumer, match="'t': more than 2 messages waited"):
        await anext(aiter(subscription))


@in_virtual_time
async def test_a_buffer_without_room_for_one_message_is_refused(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    with pytest.raises(ConfigError, match="buffer is 0"):
        await fleet.start_client("receiver").client.subscribe("t", buffer=0)


# What is refused


@pytest.mark.parametrize("topic", ["", "a b", "a.*", "_nearcast.agent", "a..b", "x" * 201])
@in_virtual_time
async def test_a_topic_name_that_cannot_be_one_is_refused_before_anything_is_sent(
    start_fleet: StartFleet, topic: str
) -> None:
    fleet = await start_fleet()
    client = fleet.start_client("client").client
    with pytest.raises(TopicNameError):
        await client.publish(topic, b"1")
    with pytest.raises(TopicNameError):
        await client.subscribe(topic)
    assert client.topics == ()


@in_virtual_time
async def test_subscribing_twice_is_refused_and_the_first_one_goes_on(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender").client, fleet.start_client("receiver").client
    subscription = await receiver.subscribe("t")
    with pytest.raises(ConfigError, match="'receiver' is subscribed to 't' already; share that subscription"):
        await receiver.subscribe("t")
    await publish(sender, b"1")
    assert await take(subscription, 1) == [b"1"]


@in_virtual_time
async def test_after_leaving_a_topic_it_can_be_subscribed_to_again(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender"), fleet.start_client("receiver")
    for _ in range(3):
        number = await fleet.subscribe(receiver, "t")
        assert number is not None
        await fleet.publish(sender, "t", b"m")
        await fleet.sleep(1.0)
        fleet.leave(receiver, number)
    result = await finish(fleet)
    assert result.clean
    assert result.delivered == 3


@in_virtual_time
async def test_who_publishes_no_more_says_so_and_may_begin_anew(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender"), fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    first = sender.client.publication("t").machine.id
    for _ in range(2):
        await fleet.publish(sender, "t", b"m")
    await fleet.sleep(TIMING.forget_s - 1.0)
    assert sender.client.publication("t").machine.id == first
    await fleet.publish(sender, "t", b"m")
    await fleet.sleep(TIMING.forget_s + TIMING.renew_s + 1.0)
    assert not sender.client._publications
    await fleet.publish(sender, "t", b"m")
    assert sender.client.publication("t").machine.id != first
    result = await finish(fleet)
    assert result.clean
    assert (result.delivered, result.gaps, result.discontinuities) == (4, 0, 0)


@in_virtual_time
async def test_who_publishes_again_after_its_servers_were_away_for_long_only_waits_for_a_route(
    start_fleet: StartFleet, finish: Finish
) -> None:
    """It could not be closed while it rested, and must not be now that it is used."""
    fleet = await start_fleet()
    sender = fleet.start_client("sender")
    await fleet.publish(sender, "t", b"m")
    await fleet.sleep(1.0)  # it is confirmed
    publication = sender.client.publication("t")
    assert isinstance(publication, Publication)
    publication._used_s -= 2 * TIMING.forget_s
    publication.machine.lease.confirmed_s -= 2 * TIMING.lease_s
    publication._ready_until_s = float("-inf")
    await fleet.publish(sender, "t", b"m")
    assert sender.client.publication("t") is publication
    assert (await finish(fleet)).clean


@in_virtual_time
async def test_publishing_without_agents_gives_up_after_its_time(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(agents=())
    client = fleet.start_client("client").client
    begun_s = fleet.now
    with pytest.raises(LeaseLost, match=r"'t': no agent confirmed a route within 4 s"):
        await client.publish("t", b"1", timeout_s=4.0)
    assert fleet.now == pytest.approx(begun_s + 4.0)


@in_virtual_time
async def test_a_message_given_up_takes_no_number(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(agents=())
    client = fleet.start_client("client").client
    with pytest.raises(LeaseLost):
        await client.publish("t", b"1", timeout_s=1.0)
    for broker in ("b0", "b1", "b2"):
        fleet.start_agent(broker)
    assert await client.publish("t", b"2") == 1


@in_virtual_time
async def test_a_cancelled_subscribe_leaves_nothing_behind(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(agents=())
    client = fleet.start_client("client").client
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2.0):
            await client.subscribe("t")
    assert client.topics == ()
    for broker in ("b0", "b1", "b2"):
        fleet.start_agent(broker)
    await fleet.sleep(5.0)
    subscription = await client.subscribe("t")
    await publish(client, b"1")
    assert await take(subscription, 1) == [b"1"]


@in_virtual_time
async def test_a_subscribe_may_be_cancelled_at_any_instant(start_fleet: StartFleet) -> None:
    """Also at the very instant at which it would have returned."""
    fleet = await start_fleet()
    for number in range(120):
        client = fleet.start_client(f"client{number}").client
        subscribing = asyncio.create_task(client.subscribe("t"))
        await fleet.sleep(number * 0.001)
        subscribing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await subscribing
        await client.close()


@in_virtual_time
async def test_a_subscription_ready_at_the_instant_of_its_cancellation_is_cancelled(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(agents=())
    client = fleet.start_client("client").client
    subscribing = asyncio.create_task(client.subscribe("t"))
    await fleet.sleep(1.0)
    subscribing.cancel()
    subscription = client._subscriptions["t"]
    assert isinstance(subscription, LiveSubscription)
    subscription._follow([Ready()])
    with pytest.raises(asyncio.CancelledError):
        await subscribing
    assert client.topics == ()


# Closing


@in_virtual_time
async def test_closing_says_goodbye_so_that_nobody_is_missed(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    sender, receiver, other = (fleet.start_client(name).client for name in ("sender", "receiver", "other"))
    reports: list[Gap | Discontinuity] = []
    got: list[Message] = []
    await receiver.subscribe("t", got.append, on_report=reports.append)
    await other.subscribe("t")
    await publish(sender, b"1")
    forwarder = fleet.agents[fleet.ring.owner("t")].machine.forwarders["t"]
    await fleet.sleep(0.1)
    assert sorted(client for client, _ in forwarder.clients.entries) == ["other", "receiver", "sender"]
    await sender.close()
    await other.close()
    await fleet.sleep(0.1)
    assert [client for client, _ in forwarder.clients.entries] == ["receiver"]
    await fleet.sleep(30.0)
    assert payloads(got) == [b"1"]
    assert reports == []


@in_virtual_time
async def test_a_client_used_as_a_context_closes_at_its_end(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    async with fleet.start_client("receiver").client as client:
        subscription = await client.subscribe("t")
    assert client.topics == ()
    assert [message async for message in subscription] == []


@in_virtual_time
async def test_what_was_published_before_closing_arrives(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender"), fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    for _ in range(100):
        await fleet.publish(sender, "t", b"m")
    await fleet.stop_client("sender")
    result = await finish(fleet)
    assert result.clean
    assert result.delivered == 100


@in_virtual_time
async def test_a_closed_client_takes_no_more_messages(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    client = fleet.start_client("client").client
    await publish(client, b"1")
    await client.close()
    for topic in ("t", "another"):
        with pytest.raises(LinkClosed, match="client 'client' is closed"):
            await client.publish(topic, b"2")
        with pytest.raises(LinkClosed, match="client 'client' is closed"):
            await client.subscribe(topic)


@in_virtual_time
async def test_closing_ends_whoever_still_waits_to_publish_or_subscribe(start_fleet: StartFleet) -> None:
    fleet = await start_fleet(agents=())
    client = fleet.start_client("client").client
    waiting = [asyncio.create_task(client.publish("t", b"1")), asyncio.create_task(client.subscribe("t"))]
    await fleet.sleep(1.0)
    closed_s = fleet.now
    await client.close()
    for each in waiting:
        with pytest.raises(LinkClosed):
            await each
    assert fleet.now == closed_s


# Moves, as the client sees them


@pytest.mark.parametrize("strategy", list(Strategy))
@in_virtual_time
async def test_nothing_is_lost_when_the_topic_moves(
    start_fleet: StartFleet, finish: Finish, strategy: Strategy
) -> None:
    fleet = await start_fleet()
    senders = [fleet.start_client(f"sender{number}") for number in range(5)]
    for number in range(3):
        await fleet.subscribe(fleet.start_client(f"receiver{number}"), "t")
    brokers = ("b2",) if strategy is Strategy.SINGLE else ("b0", "b1", "b2")
    for step in range(60):
        for sender in senders:
            await fleet.publish(sender, "t", b"m")
        await fleet.sleep(0.05)
        if step == 20:
            assert fleet.leader is not None
            fleet.leader.begin("t", strategy, brokers)
    result = await finish(fleet)
    assert result.clean
    assert result.delivered == 60 * 5 * 3


@in_virtual_time
async def test_a_move_makes_no_pause_and_a_server_that_is_away_does(start_fleet: StartFleet) -> None:
    fleet = await start_fleet()
    assert fleet.leader is not None
    subscription = await fleet.start_client("receiver").client.subscribe("t")
    for broker in ("b2", "b1"):
        await fleet.leader.move("t", Strategy.SINGLE, (broker,))
        await fleet.sleep(3.0)
    assert isinstance(subscription, LiveSubscription)
    assert subscription.machine.attachments.keys() == {"b1"}
    assert subscription.pause.longest_s == 0.0
    fleet.network.crash_broker("b1")
    await fleet.sleep(2.0)
    fleet.network.restart_broker("b1")
    await fleet.sleep(5.0)
    assert 2.0 <= subscription.pause.longest_s < 6.0


@in_virtual_time
async def test_a_publisher_that_dies_is_reported_and_nothing_else(start_fleet: StartFleet, finish: Finish) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender"), fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    await fleet.publish(sender, "t", b"m")
    await fleet.sleep(1.0)
    await fleet.crash_client("sender")
    result = await finish(fleet)
    assert result.honest
    assert (result.gaps, result.discontinuities) == (1, 0)


@in_virtual_time
async def test_a_message_that_is_too_large_is_refused_and_uses_no_number(
    start_fleet: StartFleet, finish: Finish
) -> None:
    fleet = await start_fleet()
    sender, receiver = fleet.start_client("sender"), fleet.start_client("receiver")
    await fleet.subscribe(receiver, "t")
    with pytest.raises(MessageTooLarge, match="1000001 bytes; at most 1000000"):
        await fleet.publish(sender, "t", b"x" * 1_000_001)
    await fleet.publish(sender, "t", b"x" * 1_000_000)
    result = await finish(fleet)
    assert (result.clean, result.delivered) == (True, 1)


@in_virtual_time
async def test_a_name_that_no_server_could_carry_is_refused(start_fleet: StartFleet) -> None:
    """Agents answer on a subject that has it: with a space in it, nobody would ever be answered."""
    fleet = await start_fleet()
    with pytest.raises(ConfigError, match=r"client name: .*' ' at position 2"):
        fleet.start_client("my client")
