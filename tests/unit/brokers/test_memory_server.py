"""What real servers do, and the model must: match, then deliver; threads per connection; slow consumers."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable

import pytest

from nearcast.brokers.link import Link
from nearcast.brokers.memory import MemoryBroker, ServerCosts, Wire, memory_connect
from nearcast.brokers.memory_server import ClientEnd, Delivery, Frame, Op
from nearcast.domain.errors import LinkDown
from nearcast.sim.clock import SimClock
from nearcast.sim.loop import in_virtual_time, run_virtual


def ignore(_up: bool) -> None:
    """For links whose state is not looked at."""


def broker_with(costs: ServerCosts, seed: int = 1) -> MemoryBroker:
    return MemoryBroker("b", random.Random(seed), costs)


async def link_to(broker: MemoryBroker, process: str, wire: Wire | None = None) -> Link:
    return await memory_connect([broker], process, SimClock(), random.Random(2), wire=wire)("b", ignore)


async def subscribers_of(broker: MemoryBroker, topic: str, count: int) -> list[list[bytes]]:
    received: list[list[bytes]] = []
    for number in range(count):
        link = await link_to(broker, f"subscriber {number}")
        got: list[bytes] = []
        await link.subscribe(topic, got.append)
        received.append(got)
    return received


@in_virtual_time
async def test_a_publication_reaches_every_subscriber_of_its_topic_and_no_other() -> None:
    broker = broker_with(ServerCosts())
    wanted = await subscribers_of(broker, "a", 3)
    unwanted = await subscribers_of(broker, "b", 2)
    publisher = await link_to(broker, "publisher")
    publisher.publish("a", b"1")
    await asyncio.sleep(1)
    assert wanted == [[b"1"]] * 3
    assert unwanted == [[], []]


@in_virtual_time
async def test_deliveries_take_their_time_one_after_the_other() -> None:
    loop = asyncio.get_running_loop()
    broker = broker_with(ServerCosts(message_s=0.5, delivery_s=0.1))
    arrived_s: list[float] = []
    for number in range(3):
        link = await link_to(broker, f"subscriber {number}")
        await link.subscribe("a", lambda _: arrived_s.append(loop.time()))
    publisher = await link_to(broker, "publisher")
    began_s = loop.time()
    publisher.publish("a", b"1")
    await asyncio.sleep(5)
    assert [at_s - began_s for at_s in arrived_s] == pytest.approx([0.6, 0.7, 0.8])


async def race(seed: int) -> list[list[bytes]]:
    """Two connections publish, the second later than the first; what each of 100 subscribers sees."""
    broker = broker_with(ServerCosts(delivery_s=1e-5, spread=1.0), seed)
    received = await subscribers_of(broker, "a", 100)
    first, second = await link_to(broker, "first"), await link_to(broker, "second")
    first.publish("a", b"data")
    await asyncio.sleep(1e-4)
    second.publish("a", b"marker")
    await asyncio.sleep(1)
    return received


def test_a_later_publication_of_another_connection_overtakes_at_those_who_are_served_last() -> None:
    overtaken_runs = 0
    for seed in range(20):
        received = run_virtual(race(seed), seed=seed)
        assert all(sorted(got) == [b"data", b"marker"] for got in received)
        overtaken = [got[0] == b"marker" for got in received]
        assert not overtaken[0], "the nearest subscriber is served long before the second publication"
        if any(overtaken):
            overtaken_runs += 1
            assert overtaken == sorted(overtaken), "who is served later than an overtaken one is overtaken, too"
    assert 3 <= overtaken_runs <= 17


@in_virtual_time
async def test_publications_of_one_connection_never_overtake_each_other() -> None:
    broker = broker_with(ServerCosts(message_s=1e-6, delivery_s=1e-5, spread=1.0))
    received = await subscribers_of(broker, "a", 50)
    publisher = await link_to(broker, "publisher")
    sent = [str(number).encode() for number in range(20)]
    for data in sent:
        publisher.publish("a", data)
    await asyncio.sleep(1)
    assert received == [sent] * 50


@in_virtual_time
async def test_who_leaves_between_match_and_delivery_is_sent_nothing() -> None:
    broker = broker_with(ServerCosts(delivery_s=1.0))
    near = await subscribers_of(broker, "a", 1)
    sent_to_far: list[Delivery] = []
    far = broker.accept("far", Wire(), random.Random(3), ClientEnd(sent_to_far.append, lambda _: None))
    far.up.send(Frame(Op.SUB, "a", sid=7), 10)
    publisher = await link_to(broker, "publisher")
    publisher.publish("a", b"1")
    await asyncio.sleep(1.5)
    assert near == [[b"1"]]
    far.up.send(Frame(Op.UNSUB, sid=7), 10)
    await asyncio.sleep(5)
    assert sent_to_far == []
    far.up.send(Frame(Op.SUB, "a", sid=8), 10)
    publisher.publish("a", b"2")
    await asyncio.sleep(5)
    assert sent_to_far == [(8, b"2")]


@in_virtual_time
async def test_who_joins_between_match_and_delivery_gets_nothing() -> None:
    broker = broker_with(ServerCosts(delivery_s=1.0))
    received = await subscribers_of(broker, "a", 1)
    publisher = await link_to(broker, "publisher")
    publisher.publish("a", b"1")
    await asyncio.sleep(0.5)
    late = await subscribers_of(broker, "a", 1)
    await asyncio.sleep(5)
    assert (received, late) == ([[b"1"]], [[]])


@in_virtual_time
async def test_connections_are_served_side_by_side() -> None:
    broker = broker_with(ServerCosts(message_s=1.0))
    links = [await link_to(broker, f"process {number}") for number in range(10)]
    began_s = asyncio.get_running_loop().time()
    await asyncio.gather(*(link.flush() for link in links))
    assert asyncio.get_running_loop().time() - began_s == 1.0


@in_virtual_time
async def test_a_slow_consumer_is_disconnected_and_loses_what_was_queued() -> None:
    broker = broker_with(ServerCosts(buffer_bytes=1_000))
    states: list[bool] = []
    connect = memory_connect([broker], "slow", SimClock(), random.Random(2), wire=Wire(bytes_per_s=100.0))
    slow = await connect("b", states.append)
    got: list[bytes] = []
    await slow.subscribe("a", got.append)
    fast = await subscribers_of(broker, "a", 1)
    publisher = await link_to(broker, "publisher")
    for _ in range(20):
        publisher.publish("a", bytes(100))
    await asyncio.sleep(0.01)
    assert broker.slow_consumers == 1
    await asyncio.sleep(60)
    assert states == [False, True]
    assert got == []
    assert len(fast[0]) == 20
    publisher.publish("a", b"after")
    await asyncio.sleep(10)
    assert got == [b"after"]


async def crowd_of_two(broker: MemoryBroker) -> tuple[Link, list[list[bytes]]]:
    received = await subscribers_of(broker, "a", 2)
    return await link_to(broker, "publisher"), received


async def break_connection(broker: MemoryBroker) -> None:
    list(broker.connections.values())[-1].sever("for the test")


async def crash(broker: MemoryBroker) -> None:
    broker.crash()


@pytest.mark.parametrize(("fault", "expected"), [(break_connection, [[b"1"], [b"1"]]), (crash, [[b"1"], []])])
def test_what_is_half_delivered_outlasts_its_publisher_but_not_its_server(
    fault: Callable[[MemoryBroker], Awaitable[None]], expected: list[list[bytes]]
) -> None:
    async def scenario() -> None:
        broker = broker_with(ServerCosts(delivery_s=1.0))
        publisher, received = await crowd_of_two(broker)
        publisher.publish("a", b"1")
        publisher.publish("a", b"never read from the connection")
        await asyncio.sleep(1.5)
        await fault(broker)
        broker.restart()
        await asyncio.sleep(10)
        assert received == expected

    run_virtual(scenario(), seed=1)


@in_virtual_time
async def test_a_paused_broker_handles_nothing_and_then_goes_on_where_it_was() -> None:
    broker = broker_with(ServerCosts(message_s=0.001, delivery_s=1.0))
    publisher, received = await crowd_of_two(broker)
    publisher.publish("a", b"1")
    await asyncio.sleep(1.5)
    broker.pause()
    other = asyncio.create_task(link_to(broker, "other"))
    publisher.publish("a", b"2")
    await asyncio.sleep(1)
    assert received == [[b"1"], []]
    assert not other.done()
    broker.resume()
    await asyncio.sleep(10)
    assert received == [[b"1", b"2"], [b"1", b"2"]]
    assert (await other).up


@in_virtual_time
async def test_a_crashed_broker_forgets_everybody() -> None:
    broker = broker_with(ServerCosts())
    await subscribers_of(broker, "a", 3)
    assert broker.subscribers("a") == 3
    broker.crash()
    assert broker.subscribers("a") == 0
    with pytest.raises(LinkDown, match="'b' is not running"):
        await link_to(broker, "late")
    broker.restart()
    assert broker.subscribers("a") == 0
    assert (await link_to(broker, "late")).up


@in_virtual_time
async def test_an_unknown_broker_is_named_with_those_that_are_known() -> None:
    connect = memory_connect([broker_with(ServerCosts())], "process", SimClock(), random.Random(2))
    with pytest.raises(LinkDown, match="there is no broker 'x'; process knows b"):
        await connect("x", ignore)


def test_a_delivery_is_cheap() -> None:
    """At most 15 us of processor time, because thousands of seeds run on this; the best of three, against noise."""

    async def scenario() -> float:
        broker = broker_with(ServerCosts())
        received = await subscribers_of(broker, "a", 20)
        publishers = [await link_to(broker, f"publisher {number}") for number in range(10)]
        began_s = time.process_time()
        for _ in range(50):
            for publisher in publishers:
                publisher.publish("a", bytes(100))
            await asyncio.sleep(0.01)
        spent_s = time.process_time() - began_s
        return spent_s / sum(len(got) for got in received)

    assert min(run_virtual(scenario(), seed=1) for _ in range(3)) < 15e-6
