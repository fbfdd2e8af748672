"""What the contract of a Link leaves open, as the memory link does it: timing, losses, patience."""

import asyncio
import random

import pytest

from nearcast.brokers.memory import MemoryBroker, MemoryLink, Patience, ServerCosts, Wire
from nearcast.brokers.memory_server import PONG, ClientEnd, Connection, Delivery
from nearcast.domain.errors import LinkDown
from nearcast.sim.clock import SimClock
from nearcast.sim.loop import in_virtual_time


class Bench:
    """One broker, and links to it whose dialling can be watched and refused."""

    def __init__(self, wire: Wire | None = None, *, confirm: bool = True, patience: Patience | None = None) -> None:
        self.broker = MemoryBroker("b", random.Random(1), ServerCosts())
        self.wire = wire or Wire()
        self.confirm = confirm
        self.patience = patience
        self.refusing = False
        self.break_at_answer = False
        self.links: list[MemoryLink] = []
        self.dialled_s: list[float] = []
        self.states: list[tuple[bool, float]] = []
        self.clock = SimClock()

    async def link(self) -> MemoryLink:
        link = MemoryLink(
            "b",
            self._dial,
            lambda up: self.states.append((up, self.clock.now())),
            self.clock,
            random.Random(2),
            confirm=self.confirm,
            patience=self.patience,
        )
        self.links.append(link)
        return await link.open()

    def sever(self) -> None:
        for connection in list(self.broker.connections.values()):
            connection.sever("for the test")

    def _dial(self, client: ClientEnd) -> Connection:
        self.dialled_s.append(self.clock.now())
        if self.refusing:
            raise LinkDown("refused for the test")
        link = self.links[-1]

        def deliver(delivery: Delivery) -> None:
            """With `break_at_answer`, break in the smallest of windows: before who waits for an answer could run."""
            client.deliver(delivery)
            if self.break_at_answer and delivery[0] == PONG:
                self.break_at_answer = False
                connection.abandon()
                link._break(connection, "for the test")

        connection = self.broker.accept("process", self.wire, random.Random(3), ClientEnd(deliver, client.lost))
        return connection


@in_virtual_time
async def test_a_confirmation_takes_a_round_trip() -> None:
    bench = Bench(Wire(delay_s=0.5))
    link = await bench.link()
    assert bench.clock.now() == 1.0
    await link.subscribe("a", lambda _: None)
    assert bench.clock.now() == 2.0


@in_virtual_time
async def test_without_confirmation_a_message_published_after_subscribe_is_missed() -> None:
    missed = []
    for confirm in (True, False):
        bench = Bench(Wire(delay_s=0.5), confirm=confirm)
        subscriber = await bench.link()
        bench.wire = Wire()
        publisher = await bench.link()
        got: list[bytes] = []
        await subscriber.subscribe("a", got.append)
        publisher.publish("a", b"1")
        await asyncio.sleep(5)
        missed.append(not got)
    assert missed == [False, True]


@in_virtual_time
async def test_a_break_is_noticed_late_and_what_is_published_until_then_is_lost() -> None:
    bench = Bench(Wire(delay_s=0.5))
    link, watcher = await bench.link(), await bench.link()
    got: list[bytes] = []
    await watcher.subscribe("a", got.append)
    link.publish("a", b"under way")
    broken_s = bench.clock.now()
    next(iter(bench.broker.connections.values())).sever("for the test")
    await asyncio.sleep(0.4)
    link.publish("a", b"into the void")
    await asyncio.sleep(0.2)
    with pytest.raises(LinkDown):
        link.publish("a", b"refused")
    assert bench.states == [(False, broken_s + 0.5)]
    await asyncio.sleep(10)
    assert link.up
    assert got == []


@in_virtual_time
async def test_what_was_on_its_way_to_the_client_is_lost_at_a_break() -> None:
    bench = Bench(Wire(delay_s=0.5))
    link = await bench.link()
    got: list[bytes] = []
    await link.subscribe("a", got.append)
    link.publish("a", b"1")
    await asyncio.sleep(0.7)
    bench.sever()
    await asyncio.sleep(10)
    assert link.up
    assert got == []


@in_virtual_time
async def test_attempts_to_reconnect_become_rarer_up_to_a_limit() -> None:
    bench = Bench(patience=Patience(first_s=0.1, factor=2.0, most_s=1.0))
    link = await bench.link()
    bench.dialled_s.clear()
    bench.refusing = True
    bench.sever()
    await asyncio.sleep(60)
    pauses_s = [later - earlier for earlier, later in zip([0.0, *bench.dialled_s], bench.dialled_s, strict=False)]
    for number, pause_s in enumerate(pauses_s):
        longest_s = min(1.0, 0.1 * 2.0**number)
        assert longest_s / 2 - 1e-9 <= pause_s <= longest_s + 1e-9
    bench.refusing = False
    await asyncio.sleep(2)
    assert link.up
    assert [up for up, _ in bench.states] == [False, True]


@in_virtual_time
async def test_a_server_that_does_not_answer_is_tried_again() -> None:
    bench = Bench(patience=Patience(answer_s=1.0))
    link = await bench.link()
    bench.broker.pause()
    bench.sever()
    await asyncio.sleep(10)
    assert [up for up, _ in bench.states] == [False]
    assert len(bench.dialled_s) > 3
    bench.broker.resume()
    await asyncio.sleep(5)
    assert link.up
    assert len(bench.broker.connections) == 1


@in_virtual_time
async def test_a_first_connection_that_is_not_answered_fails_in_time() -> None:
    bench = Bench(patience=Patience(answer_s=1.0))
    bench.broker.pause()
    with pytest.raises(LinkDown, match="no answer in time"):
        await bench.link()
    assert bench.clock.now() == 1.0
    bench.broker.resume()
    await asyncio.sleep(5)
    assert len(bench.dialled_s) == 1
    assert bench.broker.connections == {}


@in_virtual_time
async def test_a_break_while_reconnecting_is_not_reported_twice() -> None:
    bench = Bench(Wire(delay_s=0.1))
    link = await bench.link()
    bench.sever()
    for _ in range(200):
        await asyncio.sleep(0.01)
        if len(bench.dialled_s) > 1 and bench.broker.connections and not link.up:
            break
    bench.sever()
    await asyncio.sleep(10)
    assert link.up
    assert [up for up, _ in bench.states] == [False, True]
    assert len(bench.dialled_s) == 3


@in_virtual_time
async def test_a_first_connection_lost_before_its_task_could_run_fails() -> None:
    bench = Bench()
    bench.break_at_answer = True
    with pytest.raises(LinkDown, match="broke as soon as it was made"):
        await bench.link()


@in_virtual_time
async def test_a_subscription_confirmed_and_lost_before_its_task_could_run_is_refused() -> None:
    bench = Bench()
    link = await bench.link()
    bench.break_at_answer = True
    with pytest.raises(LinkDown):
        await link.subscribe("a", lambda _: None)
    await asyncio.sleep(5)
    assert link.up
    assert bench.broker.subscribers("a") == 0


@in_virtual_time
async def test_a_return_lost_before_it_could_be_reported_is_not_reported() -> None:
    bench = Bench()
    link = await bench.link()
    bench.sever()
    bench.break_at_answer = True
    await asyncio.sleep(10)
    assert not bench.break_at_answer
    assert [up for up, _ in bench.states] == [False, True]
    assert len(bench.dialled_s) == 3
    link.publish("a", b"1")


@in_virtual_time
async def test_a_link_closed_between_a_break_and_its_notice_stays_closed() -> None:
    bench = Bench(Wire(delay_s=0.5))
    link = await bench.link()
    bench.sever()
    await asyncio.sleep(5)
    assert len(bench.dialled_s) == 2
    bench.sever()
    await link.close()
    await asyncio.sleep(10)
    assert len(bench.dialled_s) == 2
    assert [up for up, _ in bench.states] == [False, True]


@in_virtual_time
async def test_a_break_of_a_connection_that_was_closed_before_is_nobodys_business() -> None:
    bench = Bench(Wire(delay_s=0.5))
    link = await bench.link()
    await link.close()
    bench.broker.crash()
    await asyncio.sleep(10)
    assert bench.states == []
    assert len(bench.dialled_s) == 1


@in_virtual_time
async def test_the_server_is_told_of_every_leaving() -> None:
    bench = Bench(Wire(delay_s=0.5))
    link = await bench.link()
    await link.subscribe("a", lambda _: None)
    await link.unsubscribe("a")
    assert bench.broker.subscribers("a") == 0
    cancelled = asyncio.create_task(link.subscribe("b", lambda _: None))
    await asyncio.sleep(0.7)
    assert bench.broker.subscribers("b") == 1
    cancelled.cancel()
    await asyncio.sleep(1)
    assert bench.broker.subscribers("b") == 0
    await link.subscribe("c", lambda _: None)
    await link.close()
    await asyncio.sleep(1)
    assert bench.broker.subscribers("c") == 0
    assert bench.broker.connections == {}
