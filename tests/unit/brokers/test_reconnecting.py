"""When a link to a server gives up, and when it tries again."""

import asyncio
import itertools
import random

import pytest

from nearcast.brokers.patience import Patience
from nearcast.brokers.reconnecting import KNOCK_S, MOST_UNANSWERED, SETTLED_S, ReconnectingLink
from nearcast.brokers.session import Session, Subscribed
from nearcast.domain.errors import LinkDown
from nearcast.sim.loop import in_virtual_time


class FakeSession(Session):
    """A server that answers, or not, at once."""

    ping_command = b"PING"
    max_payload_bytes = 1_000

    def __init__(self, *, answers: bool = True) -> None:
        super().__init__("broker 'b'")
        self.answers = answers
        self.commands: list[str] = []
        self.unsent = 0

    def write(self, command: bytes) -> None:
        self.commands.append(command.decode())
        if command == self.ping_command and self.answers and self.over is None:
            self._loop.call_soon(self.pong)

    def pong(self) -> None:
        self.heard = True
        self._answered()

    def subscribe(self, subscribed: Subscribed) -> None:
        self.write(b"SUB " + subscribed.subject)

    def unsubscribe(self, subscribed: Subscribed) -> None:
        self.write(b"UNSUB " + subscribed.subject)

    def forget(self, subscribed: Subscribed) -> None:
        pass

    def mute(self) -> None:
        pass

    def _head(self, subject: bytes) -> bytes:
        return subject

    @property
    def unsent_bytes(self) -> int:
        return self.unsent

    def cut(self, reason: str) -> None:
        if self.over is None:
            self.over = reason
            self._loop.call_soon(self.connection_lost, None)


class Bench:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.refusing = False
        self.answering = True
        self.dialled_s: list[float] = []
        self.states: list[tuple[bool, float]] = []
        self.sessions: list[FakeSession] = []
        self.link = ReconnectingLink(
            "b",
            self._dial,
            lambda up: self.states.append((up, self.loop.time())),
            patience=Patience(answer_s=1.0, first_s=0.1, factor=2.0, most_s=1.0),
            rng=random.Random(1),
        )

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]

    async def _dial(self) -> Session:
        self.dialled_s.append(self.loop.time())
        if self.refusing:
            raise LinkDown("refused for the test")
        self.sessions.append(FakeSession(answers=self.answering))
        return self.session


@in_virtual_time
async def test_attempts_come_less_and_less_often_and_never_stop() -> None:
    bench = Bench()
    await bench.link.open()
    await asyncio.sleep(SETTLED_S)
    bench.refusing = True
    bench.session.cut("for the test")
    await asyncio.sleep(60.0)
    waits_s = [after - before for before, after in itertools.pairwise(bench.dialled_s[1:])]
    for attempt, wait_s in enumerate(waits_s, start=1):
        asked_s = min(1.0, 0.1 * 2.0**attempt)
        assert asked_s / 2 <= wait_s <= asked_s
    assert len(set(waits_s)) == len(waits_s), "spread by chance"
    bench.refusing = False
    await asyncio.sleep(2.0)
    assert [up for up, _ in bench.states] == [False, True]
    await bench.link.close()


@in_virtual_time
async def test_a_server_that_lets_in_and_throws_out_is_asked_less_and_less_often() -> None:
    bench = Bench()
    await bench.link.open()
    for _ in range(8):
        bench.session.cut("for the test")
        await asyncio.sleep(1.5)
        assert bench.link.up
    gaps_s = [up_s - down_s for (_, down_s), (_, up_s) in zip(bench.states[::2], bench.states[1::2], strict=True)]
    assert gaps_s[0] <= 0.1
    assert all(gap_s >= 0.5 for gap_s in gaps_s[5:])
    await asyncio.sleep(SETTLED_S)
    bench.session.cut("for the test")
    await asyncio.sleep(0.1)
    assert bench.link.up, "one that has lasted is tried again soon"
    await bench.link.close()


@in_virtual_time
async def test_a_silent_server_is_left_after_as_many_knocks_as_it_may_miss() -> None:
    bench = Bench()
    await bench.link.open()
    await asyncio.sleep(10.5)
    assert bench.states == []
    bench.session.answers = False
    silent_s = bench.loop.time()
    await asyncio.sleep(MOST_UNANSWERED * KNOCK_S + KNOCK_S + 0.01)
    (up, told_s), *_ = bench.states
    assert not up
    assert MOST_UNANSWERED * KNOCK_S <= told_s - silent_s <= (MOST_UNANSWERED + 1) * KNOCK_S
    await bench.link.close()


@in_virtual_time
async def test_a_server_that_still_takes_what_it_is_given_is_not_silent() -> None:
    bench = Bench()
    await bench.link.open()
    session = bench.session
    session.answers = False
    session.unsent = 1_000_000
    for _ in range(20):
        await asyncio.sleep(KNOCK_S)
        session.unsent -= 1_000
    assert bench.states == []
    await asyncio.sleep(5 * KNOCK_S)
    assert [up for up, _ in bench.states[:1]] == [False]
    await bench.link.close()


@in_virtual_time
async def test_one_that_connects_and_does_not_confirm_is_given_up_and_tried_again() -> None:
    bench = Bench()
    await bench.link.open()
    await bench.link.subscribe("t", lambda _data: None)
    bench.answering = False
    bench.session.cut("for the test")
    await asyncio.sleep(2.0)
    assert not bench.link.up
    assert bench.session.commands == ["SUB t", "PING"]
    with pytest.raises(LinkDown, match="no answer within 1 s"):
        bench.link.publish("t", b"1")
    bench.answering = True
    await asyncio.sleep(3.0)
    assert [up for up, _ in bench.states] == [False, True]
    assert all(session.over for session in bench.sessions[:-1])
    await bench.link.close()
    assert bench.session.over == "closed by its owner"


@in_virtual_time
async def test_a_break_in_the_moment_of_the_confirmation_is_a_failed_subscribe() -> None:
    bench = Bench()
    await bench.link.open()
    bench.session.answers = False
    subscribing = asyncio.create_task(bench.link.subscribe("t", lambda _data: None))
    await asyncio.sleep(0)
    bench.session.pong()
    bench.session.connection_lost(None)
    with pytest.raises(LinkDown):
        await subscribing
    await asyncio.sleep(1.0)
    assert bench.link.up
    assert bench.session.commands[0] == "PING", "it was not kept"
    await bench.link.close()


@in_virtual_time
async def test_a_close_that_is_cancelled_still_ends_the_connection() -> None:
    bench = Bench()
    await bench.link.open()
    bench.session.answers = False
    closing = asyncio.create_task(bench.link.close())
    await asyncio.sleep(0.1)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert bench.session.over == "closed by its owner"
