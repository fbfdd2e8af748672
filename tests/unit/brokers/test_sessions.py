"""What sessions write and make of what they read, without a server."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from nearcast.brokers import session as session_module
from nearcast.brokers.nats import NatsSession
from nearcast.brokers.redis import RedisSession
from nearcast.brokers.session import Session, Subscribed
from nearcast.domain.errors import LinkClosed, LinkDown


class Wire(asyncio.Transport):
    """A transport that goes nowhere."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.written: list[bytes] = []
        self.unsent_bytes = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def abort(self) -> None:
        asyncio.get_running_loop().call_soon(self.session.connection_lost, None)


class Bench:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.wire = Wire(session)
        session._transport = self.wire
        self.lost: list[str] = []
        session.on_lost = self.lost.append
        self.got: list[tuple[str, bytes]] = []
        self._sids = 0

    def subscribed(self, topic: str, label: str = "") -> Subscribed:
        self._sids += 1
        subscribed = Subscribed(self._sids, topic, lambda data: self.got.append((label or topic, data)))
        self.session.subscribe(subscribed)
        return subscribed

    def read(self, stream: bytes, size: int = 0) -> None:
        for chunk in chunks(stream, size or len(stream)):
            self.session.data_received(chunk)


def chunks(stream: bytes, size: int) -> Iterator[bytes]:
    for begin in range(0, len(stream), size):
        yield stream[begin : begin + size]


def nats() -> Bench:
    return Bench(NatsSession("broker 'b'", 1_000_000))


def redis() -> Bench:
    return Bench(RedisSession("broker 'b'"))


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


# Every kind


@pytest.mark.parametrize("kind", [nats, redis])
async def test_what_is_published_in_one_turn_is_written_at_once_and_in_order(kind: Callable[[], Bench]) -> None:
    bench = kind()
    for number in range(10):
        bench.session.publish("t", b"<%d>" % number)
    assert bench.wire.written == []
    await turn()
    (written,) = bench.wire.written
    places = [written.index(b"<%d>" % number) for number in range(10)]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", [nats, redis])
async def test_much_is_written_before_the_turn_is_over(kind: Callable[[], Bench]) -> None:
    bench = kind()
    for _ in range(100):
        bench.session.publish("t", bytes(1_000))
    assert len(bench.wire.written) == 1
    await turn()
    assert len(bench.wire.written) == 2
    bench.session.publish("t", b"1")
    await turn()
    assert len(bench.wire.written) == 3


@pytest.mark.parametrize("kind", [nats, redis])
async def test_too_much_unsent_ends_the_connection_after_the_call(kind: Callable[[], Bench]) -> None:
    bench = kind()
    bench.wire.unsent_bytes = session_module.MOST_UNSENT_BYTES + 1
    for _ in range(3):
        bench.session.publish("t", bytes(100_000))
    assert (len(bench.wire.written), bench.lost) == (1, [])
    await turn()
    (reason,) = bench.lost
    assert reason == "the server does not keep up: more than 67108864 bytes could not be sent"


@pytest.mark.parametrize("kind", [nats, redis])
async def test_pings_are_answered_in_their_order_also_when_some_are_given_up(kind: Callable[[], Bench]) -> None:
    bench = kind()
    pong = b"PONG\r\n" if kind is nats else b"+PONG\r\n"
    first, second, third = [bench.session.ping() for _ in range(3)]
    bench.session.knock()
    fourth = bench.session.ping()
    second.cancel()
    bench.read(pong * 2)
    assert (first.done(), third.done()) == (True, False)
    bench.read(pong * 2)
    assert (third.done(), fourth.done()) == (True, False)
    bench.session.fail_pings(LinkClosed("closed"))
    with pytest.raises(LinkClosed):
        await fourth
    fifth = bench.session.ping()
    bench.read(pong)
    assert not fifth.done(), "that was the answer to the fourth"
    bench.read(pong)
    await fifth


@pytest.mark.parametrize("kind", [nats, redis])
async def test_who_waits_when_the_connection_is_lost_is_told_why(kind: Callable[[], Bench]) -> None:
    bench = kind()
    waiting = bench.session.ping()
    bench.session.connection_lost(OSError("no route to host"))
    with pytest.raises(LinkDown, match="broker 'b': the connection broke: no route to host"):
        await waiting
    assert bench.lost == ["no route to host"]
    await bench.session.gone()


@pytest.mark.parametrize("kind", [nats, redis])
async def test_more_topics_than_are_remembered_can_be_published_on(
    kind: Callable[[], Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_MOST_HEADS", 3)
    bench = kind()
    for number in [*range(10), 0]:
        bench.session.publish(f"t{number}", b"")
    assert len(bench.session._heads) <= 3


# NATS


NATS_STREAM = (
    b"MSG t 1 5\r\n1\r\n23\r\nPING\r\nMSG a.b 2 reply.to 0\r\n\r\n+OK\r\nMSG t 9 3\r\nno!\r\n"
    b"HMSG t 1 12 15\r\nNATS/1.0\r\n\r\n4 5\r\nHMSG t 1 r 12 12\r\nNATS/1.0\r\n\r\n\r\n"
    b'INFO {"max_payload": 77}\r\nMSG a.b 2 1\r\n6\r\n'
)


@pytest.mark.parametrize("size", [*range(1, 30), 1_000])
async def test_nats_is_read_the_same_however_it_is_cut_into_pieces(size: int) -> None:
    bench = nats()
    bench.subscribed("t")
    bench.subscribed("a.b")
    await turn()
    bench.read(NATS_STREAM, size)
    assert bench.got == [("t", b"1\r\n23"), ("a.b", b""), ("t", b"4 5"), ("t", b""), ("a.b", b"6")]
    assert bench.session.max_payload_bytes == 77
    await turn()
    assert bench.wire.written == [b"SUB t 1\r\nSUB a.b 2\r\n", b"PONG\r\n"]


async def test_what_nats_sends_for_a_topic_that_was_left_is_dropped_once_it_is_forgotten() -> None:
    bench = nats()
    subscribed = bench.subscribed("t")
    bench.session.unsubscribe(subscribed)
    bench.read(b"MSG t 1 1\r\n1\r\n")
    bench.session.forget(subscribed)
    bench.read(b"MSG t 1 1\r\n2\r\n")
    assert bench.got == [("t", b"1")]
    await turn()
    assert bench.wire.written == [b"SUB t 1\r\nUNSUB 1\r\n"]


async def test_after_an_error_of_nats_no_answer_counts() -> None:
    bench = nats()
    waiting = bench.session.ping()
    bench.read(b"-ERR 'Permissions Violation for Publish to \"t\"'\r\nPONG\r\n")
    with pytest.raises(LinkDown, match="the server said 'Permissions Violation for Publish to \"t\"'"):
        await waiting


@pytest.mark.parametrize(
    "stream", [b"HTTP/1.1 400 Bad Request\r\n", b"MSG t 1 x\r\n", b"MSG \r\n", b"INFO {\r\n", b"x" * 100_000]
)
async def test_what_is_not_nats_ends_the_connection(stream: bytes) -> None:
    bench = nats()
    bench.read(stream)
    await turn()
    (reason,) = bench.lost
    assert reason.startswith("the server sent what is not NATS: ")


# Redis


def push(*words: bytes) -> bytes:
    return b">%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


@pytest.mark.parametrize("size", [*range(1, 30), 1_000])
async def test_redis_is_read_the_same_however_it_is_cut_into_pieces(size: int) -> None:
    bench = redis()
    bench.subscribed("t")
    bench.subscribed("a.b")
    bench.read(
        push(b"subscribe", b"t", b"1")
        + push(b"message", b"t", b"1\r\n23")
        + b":0\r\n"
        + push(b"message", b"a.b", b"not subscribed yet")
        + push(b"subscribe", b"a.b", b"2")
        + push(b"message", b"a.b", b"")
        + b":7\r\n"
        + push(b"message", b"t", b"4"),
        size,
    )
    assert bench.got == [("t", b"1\r\n23"), ("a.b", b""), ("t", b"4")]


async def test_who_leaves_and_returns_in_redis_gets_what_is_before_and_after_apart() -> None:
    bench = redis()
    first = bench.subscribed("t", "first")
    bench.read(push(b"subscribe", b"t", b"1"))
    bench.session.unsubscribe(first)
    bench.subscribed("t", "second")
    bench.read(push(b"message", b"t", b"1") + push(b"unsubscribe", b"t", b"0") + push(b"message", b"t", b"none"))
    bench.read(push(b"subscribe", b"t", b"1") + push(b"message", b"t", b"2"))
    assert bench.got == [("first", b"1"), ("second", b"2")]


async def test_a_topic_of_redis_that_is_forgotten_before_it_is_confirmed_receives_nothing() -> None:
    bench = redis()
    given_up = bench.subscribed("t", "given up")
    bench.session.unsubscribe(given_up)
    bench.session.forget(given_up)
    bench.subscribed("t", "kept")
    bench.read(push(b"subscribe", b"t", b"1") + push(b"message", b"t", b"1") + push(b"unsubscribe", b"t", b"0"))
    bench.read(push(b"subscribe", b"t", b"1") + push(b"message", b"t", b"2"))
    assert bench.got == [("kept", b"2")]


async def test_after_an_error_of_redis_no_answer_counts() -> None:
    bench = redis()
    waiting = bench.session.ping()
    bench.read(b"-OOM command not allowed\r\n+PONG\r\n")
    with pytest.raises(LinkDown, match="the server said OOM command not allowed"):
        await waiting


async def test_what_is_not_redis_ends_the_connection() -> None:
    bench = redis()
    bench.read(b"HTTP/1.1 400 Bad Request\r\n")
    await turn()
    (reason,) = bench.lost
    assert reason.startswith("the server sent what is not Redis: ")


@pytest.mark.parametrize("kind", [nats, redis])
async def test_once_muted_nothing_is_received(kind: Callable[[], Bench]) -> None:
    bench = kind()
    bench.subscribed("t")
    if kind is redis:
        bench.read(push(b"subscribe", b"t", b"1"))
    bench.session.mute()
    bench.read(b"MSG t 1 1\r\n1\r\n" if kind is nats else push(b"message", b"t", b"1"))
    assert bench.got == []
