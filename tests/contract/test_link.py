"""What every Link promises, over every adapter (see conftest)."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from nearcast.brokers.link import Connect, Link
from nearcast.domain.errors import LinkClosed, LinkDown


class LinkStage(Protocol):
    """One broker, and processes that connect to it."""

    broker: str

    def connector(self, process: str) -> Connect: ...

    async def cut(self, process: str) -> None:
        """Break the connection of `process`; it may connect again."""
        ...

    async def stop_broker(self) -> None: ...
    async def start_broker(self) -> None: ...

    async def freeze_broker(self) -> None:
        """Stop the server without ending it, as a stopped process is."""
        ...

    async def thaw_broker(self) -> None: ...


Run = Callable[[Callable[[LinkStage], Awaitable[None]]], None]


class Party:
    """A process with one link, all that the link told it, and all that it received."""

    def __init__(self, link: Link, states: list[bool]) -> None:
        self.link = link
        self.states = states
        self.got: list[bytes] = []

    @classmethod
    async def join(cls, stage: LinkStage, process: str, *topics: str) -> "Party":
        states: list[bool] = []
        party = cls(await stage.connector(process)(stage.broker, states.append), states)
        for topic in topics:
            await party.link.subscribe(topic, party.got.append)
        return party

    async def wait_for_state(self, *states: bool) -> None:
        await until(lambda: self.states == list(states))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # A state of another process has no event to wait for.
            await asyncio.sleep(0.005)


async def settled(publisher: Party, *subscribers: Party) -> None:
    """All that was published has been handled, and all that was sent because of it has been received."""
    await publisher.link.flush()
    for subscriber in subscribers:
        await subscriber.link.flush()


def test_a_subscription_is_active_when_it_is_confirmed(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber")
        for number in range(200):
            topic = f"t{number}"
            await subscriber.link.subscribe(topic, subscriber.got.append)
            publisher.link.publish(topic, topic.encode())
            await settled(publisher, subscriber)
            assert len(subscriber.got) == number + 1

    on_links(scenario)


def test_a_message_arrives_unchanged_at_every_subscriber_of_its_topic_and_nowhere_else(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher = await Party.join(stage, "publisher", "a")
        both, one, other = [
            await Party.join(stage, name, *topics)
            for name, *topics in (("both", "a", "b"), ("one", "a"), ("other", "b"))
        ]
        payloads = [b"", b"\x00\r\n\xff", bytes(range(256)) * 100]
        for data in payloads:
            publisher.link.publish("a", data)
        await settled(publisher, both, one, other)
        assert publisher.got == payloads, "a publisher that subscribes hears itself"
        assert both.got == payloads
        assert one.got == payloads
        assert other.got == []

    on_links(scenario)


def test_a_message_of_any_size_arrives_unchanged(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        rng = random.Random(1)
        for size in (0, 1, 2, 1_000, 4_096, 65_534, 65_535, 65_536, 262_144, 900_000):
            data = rng.randbytes(size).replace(b"x", b"\r\n")[:size]
            publisher.link.publish("t", data)
            await settled(publisher, subscriber)
            assert subscriber.got == [data]
            subscriber.got.clear()

    on_links(scenario)


def test_a_link_carries_a_thousand_topics_and_has_them_all_again_after_a_break(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber")
        topics = [f"site.{number}" for number in range(1_000)]

        async def publish_on_all() -> None:
            for batch in range(0, 1_000, 100):
                for topic in topics[batch : batch + 100]:
                    publisher.link.publish(topic, topic.encode())
                await settled(publisher, subscriber)
            assert subscriber.got == [topic.encode() for topic in topics]
            subscriber.got.clear()

        await asyncio.gather(*(subscriber.link.subscribe(topic, subscriber.got.append) for topic in topics))
        await publish_on_all()
        await stage.cut("subscriber")
        await subscriber.wait_for_state(False, True)
        await publish_on_all()

    on_links(scenario)


def test_a_round_trip_is_measured(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party = await Party.join(stage, "party")
        started_s = asyncio.get_running_loop().time()
        measured_s = await party.link.rtt()
        assert 0.0 <= measured_s <= asyncio.get_running_loop().time() - started_s
        await stage.stop_broker()
        await party.wait_for_state(False)
        with pytest.raises(LinkDown):
            await party.link.rtt()
        await party.link.close()
        with pytest.raises(LinkClosed):
            await party.link.rtt()

    on_links(scenario)


def test_order_holds_between_concurrent_publishes_on_one_link(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "a", "b")
        handed_over: list[bytes] = []

        async def publish(task: int) -> None:
            for number in range(50):
                data = f"{task}/{number}".encode()
                handed_over.append(data)
                publisher.link.publish("ab"[number % 2], data)
                await asyncio.sleep(0.0001 * (task % 3))

        async with asyncio.TaskGroup() as group:
            for task in range(10):
                group.create_task(publish(task))
        await settled(publisher, subscriber)
        assert subscriber.got == handed_over

    on_links(scenario)


def test_flush_means_that_all_before_was_handled(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        for number in range(200):
            publisher.link.publish("t", str(number).encode())
        await publisher.link.flush()
        late = await Party.join(stage, "late", "t")
        await settled(publisher, subscriber, late)
        assert len(subscriber.got) == 200
        assert late.got == []

    on_links(scenario)


def test_what_was_sent_before_an_unsubscribe_is_received_and_nothing_after(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        for number in range(100):
            publisher.link.publish("t", str(number).encode())
        await publisher.link.flush()
        await subscriber.link.unsubscribe("t")
        assert len(subscriber.got) == 100
        publisher.link.publish("t", b"after")
        await settled(publisher, subscriber)
        assert len(subscriber.got) == 100

    on_links(scenario)


def test_unsubscribing_from_what_is_not_subscribed_does_nothing(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party = await Party.join(stage, "party", "t")
        await party.link.unsubscribe("unknown")
        await party.link.unsubscribe("t")
        await party.link.unsubscribe("t")

    on_links(scenario)


def test_who_returns_to_a_topic_gets_each_message_once(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        for number in range(20):
            leaving = asyncio.create_task(subscriber.link.unsubscribe("t"))
            await asyncio.sleep(0)
            await subscriber.link.subscribe("t", subscriber.got.append)
            publisher.link.publish("t", str(number).encode())
            await leaving
            await settled(publisher, subscriber)
        assert subscriber.got == [str(number).encode() for number in range(20)]

    on_links(scenario)


def test_subscribing_twice_is_refused(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party = await Party.join(stage, "party", "t")
        with pytest.raises(ValueError, match="subscribed to 't' already"):
            await party.link.subscribe("t", party.got.append)
        party.link.publish("t", b"1")
        await settled(party, party)
        assert party.got == [b"1"]

    on_links(scenario)


def test_a_cancelled_subscribe_leaves_nothing_behind(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber")
        await stage.freeze_broker()
        subscribing = asyncio.create_task(subscriber.link.subscribe("t", subscriber.got.append))
        await asyncio.sleep(0.05)
        subscribing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await subscribing
        await stage.thaw_broker()
        await subscriber.link.flush()
        publisher.link.publish("t", b"1")
        await settled(publisher, subscriber)
        assert subscriber.got == []
        await subscriber.link.subscribe("t", subscriber.got.append)
        publisher.link.publish("t", b"2")
        await settled(publisher, subscriber)
        assert subscriber.got == [b"2"]

    on_links(scenario)


def test_a_break_and_the_return_are_reported_and_the_subscriptions_are_back_by_then(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber")
        received_at_return: list[int] = []

        def on_state(up: bool) -> None:
            states.append(up)
            if up:
                publisher.link.publish("a", b"published at the moment of the return")
                received_at_return.append(len(got))

        states: list[bool] = []
        got: list[bytes] = []
        link = await stage.connector("watched")(stage.broker, on_state)
        for topic in ("a", "b", "c"):
            await link.subscribe(topic, got.append)
        assert link.up
        assert states == [], "the first connection is no change"
        for returns in range(1, 4):
            await stage.cut("watched")
            await until(lambda returns=returns: states == [False, True] * returns)  # type: ignore[misc]
            assert link.up
            await publisher.link.flush()
            await link.flush()
            assert len(got) == received_at_return[-1] + 1
            got.clear()
        assert (publisher.states, subscriber.states) == ([], [])

    on_links(scenario)


def test_while_the_broker_is_away_nothing_can_be_handed_over(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party = await Party.join(stage, "party", "t")
        await stage.stop_broker()
        await party.wait_for_state(False)
        assert not party.link.up
        with pytest.raises(LinkDown):
            party.link.publish("t", b"1")
        with pytest.raises(LinkDown):
            await party.link.flush()
        with pytest.raises(LinkDown):
            await party.link.subscribe("u", party.got.append)
        await stage.start_broker()
        await party.wait_for_state(False, True)
        party.link.publish("t", b"2")
        party.link.publish("u", b"the refused subscription was not kept")
        await settled(party, party)
        assert party.got == [b"2"]

    on_links(scenario)


def test_a_topic_left_while_the_broker_was_away_stays_left(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party = await Party.join(stage, "party", "left", "kept")
        await stage.stop_broker()
        await party.wait_for_state(False)
        await party.link.unsubscribe("left")
        await stage.start_broker()
        await party.wait_for_state(False, True)
        party.link.publish("left", b"1")
        party.link.publish("kept", b"2")
        await settled(party, party)
        assert party.got == [b"2"]

    on_links(scenario)


def test_what_waits_for_the_server_ends_when_the_connection_breaks(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party = await Party.join(stage, "party", "left")
        await stage.freeze_broker()
        subscribing = asyncio.create_task(party.link.subscribe("refused", party.got.append))
        flushing = asyncio.create_task(party.link.flush())
        leaving = asyncio.create_task(party.link.unsubscribe("left"))
        cancelled = asyncio.create_task(party.link.flush())
        await asyncio.sleep(0.05)
        cancelled.cancel()
        await stage.cut("party")
        with pytest.raises(LinkDown):
            await subscribing
        with pytest.raises(LinkDown):
            await flushing
        await leaving
        await stage.thaw_broker()
        await party.wait_for_state(False, True)
        party.link.publish("refused", b"1")
        party.link.publish("left", b"2")
        await settled(party, party)
        assert party.got == []

    on_links(scenario)


def test_what_was_published_before_close_is_still_sent(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher", "t"), await Party.join(stage, "subscriber", "t")
        for number in range(100):
            publisher.link.publish("t", str(number).encode())
        await publisher.link.close()
        await until(lambda: len(subscriber.got) == 100)
        assert publisher.got == []

    on_links(scenario)


def test_what_was_published_before_close_is_sent_also_when_there_is_more_to_read(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        both, subscriber = await Party.join(stage, "both", "t"), await Party.join(stage, "subscriber", "t")
        for number in range(80):
            both.link.publish("t", b"%d" % number + bytes(10_000))
        await asyncio.sleep(0)
        await both.link.close()
        await until(lambda: len(subscriber.got) == 80)

    on_links(scenario)


def test_nothing_is_received_once_a_link_is_closed(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        publisher, subscriber = await Party.join(stage, "publisher"), await Party.join(stage, "subscriber", "t")
        for number in range(100):
            publisher.link.publish("t", str(number).encode())
        await publisher.link.flush()
        await subscriber.link.close()
        received = len(subscriber.got)
        for _ in range(20):
            publisher.link.publish("t", b"after")
            await publisher.link.flush()
        assert len(subscriber.got) == received

    on_links(scenario)


def test_a_closed_link_is_closed_for_good(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party, other = await Party.join(stage, "party", "t"), await Party.join(stage, "other")
        await stage.freeze_broker()
        flushing = asyncio.create_task(party.link.flush())
        await asyncio.sleep(0.05)
        await party.link.close()
        with pytest.raises(LinkClosed):
            await flushing
        await stage.thaw_broker()
        await party.link.close()
        assert not party.link.up
        with pytest.raises(LinkClosed):
            party.link.publish("t", b"1")
        with pytest.raises(LinkClosed):
            await party.link.subscribe("u", party.got.append)
        with pytest.raises(LinkClosed):
            await party.link.flush()
        await party.link.unsubscribe("t")
        other.link.publish("t", b"2")
        await stage.stop_broker()
        await other.wait_for_state(False)
        await stage.start_broker()
        await other.wait_for_state(False, True)
        assert (party.got, party.states) == ([], [])

    on_links(scenario)


def test_closing_while_the_broker_is_away_ends_the_attempts(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        party, other = await Party.join(stage, "party", "t"), await Party.join(stage, "other")
        await stage.stop_broker()
        await party.wait_for_state(False)
        await party.link.close()
        await stage.start_broker()
        await other.wait_for_state(False, True)
        await asyncio.sleep(0.5)
        assert party.states == [False]

    on_links(scenario)


def test_connecting_to_a_broker_that_is_away_fails(on_links: Run) -> None:
    async def scenario(stage: LinkStage) -> None:
        await stage.stop_broker()
        states: list[bool] = []
        with pytest.raises(LinkDown):
            await stage.connector("party")(stage.broker, states.append)
        await stage.start_broker()
        link = await stage.connector("party")(stage.broker, states.append)
        assert link.up
        assert link.broker == stage.broker
        assert states == []

    on_links(scenario)
