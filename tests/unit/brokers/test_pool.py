"""The links of one process: made on demand, orders carried out in order, breaks survived."""

import asyncio
import random

import pytest

from nearcast.brokers.link import OnState
from nearcast.brokers.memory import MemoryBroker, MemoryLink, ServerCosts, Wire
from nearcast.brokers.memory_server import ClientEnd, Connection
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.domain.errors import LinkDown
from nearcast.sim.clock import SimClock
from nearcast.sim.loop import in_virtual_time
from nearcast.transport.crew import Crew


class Bench:
    """A pool towards one broker, `b`, that can be refused and severed; and what a server on it hears."""

    def __init__(self, *, inbox: str | None = "inbox") -> None:
        self.clock = SimClock()
        self.broker = MemoryBroker("b", random.Random(1), ServerCosts())
        self.crew = Crew()
        self.refusing = False
        self.dialled_s: list[float] = []
        self.states: list[tuple[str, bool]] = []
        self.answers: list[bytes] = []
        self.received: list[bytes] = []
        self.attached: list[str] = []
        self.pool = LinkPool(
            self._connect,
            self.clock,
            self.crew,
            inbox=lambda _broker: Inbox(inbox, self.answers.append) if inbox else None,
            on_state=lambda broker, up: self.states.append((broker, up)),
        )

    async def _connect(self, broker: str, on_state: OnState) -> MemoryLink:
        link = MemoryLink(broker, self._dial, on_state, self.clock, random.Random(2))
        return await link.open()

    def _dial(self, client: ClientEnd) -> Connection:
        self.dialled_s.append(self.clock.now())
        if self.refusing:
            raise LinkDown("refused for the test")
        return self.broker.accept("process", Wire(delay_s=0.01), random.Random(3), client)

    def attach(self, topic: str, note: str = "") -> None:
        self.pool.attach("b", topic, self.received.append, lambda: self.attached.append(note or topic))

    def sever(self) -> None:
        for connection in list(self.broker.connections.values()):
            if connection.peer == "process":
                connection.sever("for the test")

    async def other(self) -> MemoryLink:
        """Somebody else on the same broker."""

        def dial(client: ClientEnd) -> Connection:
            return self.broker.accept("other", Wire(delay_s=0.01), random.Random(5), client)

        return await MemoryLink("b", dial, lambda _up: None, self.clock, random.Random(4)).open()


@in_virtual_time
async def test_a_link_is_made_on_first_use_and_only_once() -> None:
    bench = Bench()
    assert bench.dialled_s == []
    bench.pool.reach("b")
    bench.pool.publish("b", "t", b"1")
    bench.attach("t")
    await bench.clock.sleep(1.0)
    assert len(bench.dialled_s) == 1
    assert bench.pool.up("b")


@in_virtual_time
async def test_what_is_published_before_the_first_connection_waits_for_it_in_order() -> None:
    bench = Bench()
    bench.refusing = True
    heard: list[bytes] = []
    await (await bench.other()).subscribe("t", heard.append)
    for number in range(3):
        bench.pool.publish("b", "t", bytes((number,)))
    await bench.clock.sleep(1.0)
    bench.refusing = False
    await bench.clock.sleep(3.0)
    assert heard == [b"\x00", b"\x01", b"\x02"]


@in_virtual_time
async def test_a_question_asked_before_the_first_connection_can_be_answered() -> None:
    """The inbox is heard before anything that was waiting is sent."""
    bench = Bench()
    other = await bench.other()
    await other.subscribe("question", lambda _: other.publish("inbox", b"answer"))
    bench.pool.publish("b", "question", b"?")
    await bench.clock.sleep(1.0)
    assert bench.answers == [b"answer"]


@in_virtual_time
async def test_a_broker_that_refuses_is_tried_again_ever_more_seldom() -> None:
    bench = Bench()
    bench.refusing = True
    bench.pool.reach("b")
    await bench.clock.sleep(20.0)
    pauses = [round(after - before, 6) for before, after in zip(bench.dialled_s, bench.dialled_s[1:], strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(0.05)
    assert pauses[-1] == pytest.approx(2.0)
    assert not bench.pool.up("b")
    assert bench.pool.broken == [], "it was never up"


@in_virtual_time
async def test_attached_is_told_when_the_subscription_is_confirmed() -> None:
    bench = Bench()
    bench.attach("t")
    assert bench.attached == []
    assert not bench.pool.is_attached("b", "t")
    await bench.clock.sleep(1.0)
    assert bench.attached == ["t"]
    assert bench.pool.is_attached("b", "t")
    (await bench.other()).publish("t", b"1")
    await bench.clock.sleep(1.0)
    assert bench.received == [b"1"]


@in_virtual_time
async def test_detached_nothing_more_is_received() -> None:
    bench = Bench()
    bench.attach("t")
    await bench.clock.sleep(1.0)
    bench.pool.detach("b", "t")
    await bench.clock.sleep(1.0)
    (await bench.other()).publish("t", b"1")
    await bench.clock.sleep(1.0)
    assert bench.received == []
    assert not bench.pool.is_attached("b", "t")


@pytest.mark.parametrize("after_s", [0.0, 0.05])  # before anything is sent; while its confirmation is under way
@in_virtual_time
async def test_an_order_taken_back_before_it_was_carried_out_tells_nobody(after_s: float) -> None:
    bench = Bench()
    bench.attach("t")
    await bench.clock.sleep(after_s)
    bench.pool.detach("b", "t")
    await bench.clock.sleep(1.0)
    assert bench.attached == []
    assert not bench.pool.is_attached("b", "t")


@in_virtual_time
async def test_of_two_attachments_to_one_topic_the_later_one_holds() -> None:
    bench = Bench()
    bench.attach("t", "first")
    await bench.clock.sleep(0.05)  # the first one is under way or done
    bench.pool.detach("b", "t")
    bench.attach("t", "second")
    await bench.clock.sleep(1.0)
    assert bench.attached[-1] == "second"
    (await bench.other()).publish("t", b"1")
    await bench.clock.sleep(1.0)
    assert bench.received == [b"1"], "once, not twice"


@in_virtual_time
async def test_a_break_and_the_return_are_told_and_subscriptions_are_back() -> None:
    bench = Bench()
    bench.attach("t")
    await bench.clock.sleep(1.0)
    bench.sever()
    await bench.clock.sleep(0.02)
    assert bench.states == [("b", False)]
    assert bench.pool.broken == ["b"]
    await bench.clock.sleep(2.0)
    assert bench.states == [("b", False), ("b", True)]
    (await bench.other()).publish("t", b"1")
    await bench.clock.sleep(1.0)
    assert bench.received == [b"1"]
    assert bench.attached == ["t"], "confirmed once; the return is told by the state"


@in_virtual_time
async def test_what_is_published_during_a_break_is_dropped() -> None:
    bench = Bench()
    heard: list[bytes] = []
    await (await bench.other()).subscribe("t", heard.append)
    bench.pool.reach("b")
    await bench.clock.sleep(1.0)
    bench.sever()
    await bench.clock.sleep(0.02)
    bench.pool.publish("b", "t", b"lost")
    await bench.clock.sleep(3.0)
    bench.pool.publish("b", "t", b"kept")
    await bench.clock.sleep(1.0)
    assert heard == [b"kept"]


@in_virtual_time
async def test_an_attachment_ordered_during_a_break_is_made_after_it() -> None:
    bench = Bench()
    bench.pool.reach("b")
    await bench.clock.sleep(1.0)
    bench.sever()
    await bench.clock.sleep(0.02)
    bench.attach("t")
    await bench.clock.sleep(3.0)
    assert bench.attached == ["t"]


@in_virtual_time
async def test_an_attachment_whose_confirmation_a_break_swallowed_is_made_again() -> None:
    bench = Bench()
    bench.pool.reach("b")
    await bench.clock.sleep(1.0)
    bench.attach("t")
    await bench.clock.sleep(0.015)  # the order is at the server, the answer on its way back
    bench.sever()
    await bench.clock.sleep(3.0)
    assert bench.attached == ["t"]
    (await bench.other()).publish("t", b"1")
    await bench.clock.sleep(1.0)
    assert bench.received == [b"1"]


@in_virtual_time
async def test_a_break_before_the_inbox_is_heard_is_nobodys_business() -> None:
    bench = Bench()
    bench.attach("t")
    bench.pool.publish("b", "t", b"1")
    await bench.clock.sleep(0.025)  # connected; the inbox is not confirmed yet
    bench.sever()
    await bench.clock.sleep(3.0)
    assert bench.states == []
    assert bench.attached == ["t"]


@in_virtual_time
async def test_flushing_without_a_connection_says_so() -> None:
    bench = Bench()
    with pytest.raises(LinkDown, match="not connected to 'b'"):
        await bench.pool.flush("b")
    bench.pool.reach("b")
    with pytest.raises(LinkDown):
        await bench.pool.flush("b")
    await bench.clock.sleep(1.0)
    await bench.pool.flush("b")


@in_virtual_time
async def test_a_pool_without_an_inbox_is_open_as_soon_as_it_is_connected() -> None:
    bench = Bench(inbox=None)
    heard: list[bytes] = []
    await (await bench.other()).subscribe("t", heard.append)
    bench.pool.publish("b", "t", b"1")
    await bench.clock.sleep(0.045)
    assert heard == [b"1"]


@in_virtual_time
async def test_closing_sends_what_was_published_and_ends_a_connection_under_way() -> None:
    bench = Bench()
    heard: list[bytes] = []
    await (await bench.other()).subscribe("t", heard.append)
    bench.pool.reach("b")
    await bench.clock.sleep(1.0)
    bench.pool.publish("b", "t", b"last words")
    await bench.pool.close()
    await bench.crew.close()
    await asyncio.sleep(1.0)
    assert heard == [b"last words"]
    assert bench.states == []


class SlowEnd(MemoryLink):
    async def close(self) -> None:
        await asyncio.sleep(0)
        await super().close()


class SlowlyEnding(Bench):
    async def _connect(self, broker: str, on_state: OnState) -> MemoryLink:
        return await SlowEnd(broker, self._dial, on_state, self.clock, random.Random(2)).open()


@in_virtual_time
async def test_a_broker_that_is_asked_for_while_links_end_does_not_keep_the_others_from_ending() -> None:
    bench = SlowlyEnding()
    bench.pool.reach("b")
    bench.pool.reach("c")
    await bench.clock.sleep(1.0)
    ending = asyncio.ensure_future(bench.pool.close())
    await asyncio.sleep(0)
    bench.pool.reach("d")
    await ending
    assert not bench.pool.up("b")
    assert not bench.pool.up("c")
    await bench.crew.close()


@in_virtual_time
async def test_a_broker_that_is_left_while_all_ends_is_left() -> None:
    bench = Bench()
    bench.pool.reach("b")
    await bench.clock.sleep(1.0)
    bench.pool.keep(())
    await bench.crew.close()  # what leaves it has not begun
    assert bench.broker.connections
    await bench.pool.close()
    await bench.clock.sleep(1.0)
    assert not bench.broker.connections


@in_virtual_time
async def test_a_broker_that_is_reached_while_others_end_is_left() -> None:
    bench = SlowlyEnding()
    bench.pool.reach("b")
    await bench.clock.sleep(1.0)
    bench.pool.reach("c")
    await bench.pool.close()  # "b" is slow to end: by then "c" is reached
    await bench.clock.sleep(1.0)
    assert len(bench.dialled_s) == 2
    assert not bench.broker.connections
    await bench.crew.close()
