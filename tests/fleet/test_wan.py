"""The WAN emulator: bytes come late, in order, not faster than told, and never get lost by themselves."""

import asyncio
import random
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvloop

from nearcast.domain.errors import ConfigError, FleetError
from nearcast.fleet.probe import ask
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.timer import Timers
from nearcast.fleet.wan import WanEmulator
from nearcast.transport.endpoint import Endpoint, Tls

LATE_S = 0.08  # what a busy machine may add to the times below
TIMES = 6  # and how often it may add more, before it is the emulator that is late

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> Run:
    def run(work: Coroutine[Any, Any, None]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(20):
                await work

        if request.param == "uvloop":
            uvloop.run(limited())
        else:
            asyncio.run(limited())

    return run


class Stage:
    """One site, one broker that is a plain TCP server, and the emulator between them."""

    def __init__(
        self, emulator: WanEmulator, near: Endpoint, far: Endpoint, accepted: "asyncio.Queue[Streams]"
    ) -> None:
        self.emulator = emulator
        self.near = near
        self.far = far
        self.accepted = accepted
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> Streams:
        streams = await asyncio.open_connection(self.near.host, self.near.port)
        self._writers.append(streams[1])
        return streams

    async def both(self) -> tuple[Streams, Streams]:
        """A client's end and the broker's end of a new connection."""
        return await self.connect(), await self.accepted.get()

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
            try:
                await writer.wait_closed()
            except OSError:
                continue


@asynccontextmanager
async def stage(shape: Shape, *, seed: int = 1) -> AsyncIterator[Stage]:
    accepted: asyncio.Queue[Streams] = asyncio.Queue()
    served: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        accepted.put_nowait((reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    far = Endpoint("nats", "127.0.0.1", server.sockets[0].getsockname()[1])
    emulator = WanEmulator(random.Random(seed))
    made = Stage(emulator, await emulator.open("here", "b1", far, shape), far, accepted)
    try:
        yield made
    finally:
        server.close()
        await made.close()
        for writer in served:
            writer.transport.abort()
        await emulator.close()
        await asyncio.sleep(0)


async def crossing_s(sender: Streams, receiver: Streams, data: bytes = b"x") -> float:
    started_s = time.monotonic()
    sender[1].write(data)
    assert await receiver[0].readexactly(len(data)) == data
    return time.monotonic() - started_s


async def takes(least_s: float, most_s: float, doing: Callable[[], Awaitable[object]]) -> None:
    """Whenever it is done it takes no less, and, unless the machine is busy each time, no more."""
    took_s: list[float] = []
    while not took_s or min(took_s) >= most_s + LATE_S:
        assert len(took_s) < TIMES, took_s
        started_s = time.monotonic()
        await doing()
        took_s.append(time.monotonic() - started_s)
        assert took_s[-1] >= least_s


def test_bytes_take_the_delay_each_way(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.05)) as it:
            client, broker = await it.both()
            for _ in range(3):
                for pair in ((client, broker), (broker, client)):
                    await takes(0.05, 0.05, partial(crossing_s, *pair))

    on_loop(scenario())


def test_connecting_costs_the_round_trips_that_it_would(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.05)) as it:

            async def greet() -> None:
                client, broker = await it.both()
                broker[1].write(b"INFO")
                await client[0].readexactly(4)

            await takes(0.2, 0.2, greet)

    on_loop(scenario())


def test_nothing_is_reordered_or_lost_under_jitter(on_loop: Run) -> None:
    async def scenario() -> None:
        rng = random.Random(3)
        sent = rng.randbytes(400_000)

        async def send(writer: asyncio.StreamWriter) -> None:
            at = 0
            while at < len(sent):
                size = rng.choice((1, 100, 5_000, 50_000))
                writer.write(sent[at : at + size])
                at += size
                await asyncio.sleep(0.001)

        async with stage(Shape(0.01, jitter_s=0.03)) as it:
            client, broker = await it.both()
            async with asyncio.TaskGroup() as group:
                group.create_task(send(client[1]))
                group.create_task(send(broker[1]))
                for reader in (client[0], broker[0]):
                    assert await reader.readexactly(len(sent)) == sent

    on_loop(scenario())


def test_jitter_varies_between_its_bounds(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01, jitter_s=0.05)) as it:
            client, broker = await it.both()
            highest_s: list[float] = []
            while not highest_s or min(highest_s) >= 0.06 + LATE_S:
                assert len(highest_s) < TIMES, highest_s
                times_s = [await crossing_s(client, broker) for _ in range(15)]
                highest_s.append(max(times_s))
                assert min(times_s) >= 0.01
                assert max(times_s) - min(times_s) > 0.015

    on_loop(scenario())


def test_a_long_delay_does_not_limit_throughput(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.1)) as it:
            client, broker = await it.both()
            await takes(0.1, 1.9, partial(crossing_s, client, broker, bytes(5_000_000)))

    on_loop(scenario())


def test_all_connections_of_a_link_share_its_bandwidth(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01, bytes_per_s=1_000_000)) as it:
            pairs = [await it.both() for _ in range(3)]
            await takes(0.45, 0.6, lambda: asyncio.gather(*(crossing_s(*pair, bytes(150_000)) for pair in pairs)))
            client, broker = pairs[0]
            # Each direction has its own.
            ways = ((client, broker), (broker, client))
            await takes(0.3, 0.4, lambda: asyncio.gather(*(crossing_s(*way, bytes(300_000)) for way in ways)))

    on_loop(scenario())


def test_what_comes_first_in_a_long_transfer_arrives_first(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.0, bytes_per_s=200_000)) as it:
            client, broker = await it.both()
            first_s: list[float] = []
            while not first_s or min(first_s) >= 0.02 + LATE_S:
                assert len(first_s) < TIMES, first_s
                started_s = time.monotonic()
                client[1].write(bytes(100_000))
                await broker[0].readexactly(1000)
                first_s.append(time.monotonic() - started_s)
                await broker[0].readexactly(99_000)
                assert time.monotonic() - started_s >= 0.5

    on_loop(scenario())


def test_a_changed_shape_holds_at_once_and_reorders_nothing(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.2)) as it:
            client, broker = await it.both()
            client[1].write(b"a")
            await asyncio.sleep(0.01)
            it.emulator.shape("here", "b1", Shape(0.01))
            client[1].write(b"b")
            assert await broker[0].readexactly(2) == b"ab"
            await takes(0.01, 0.01, partial(crossing_s, client, broker))
            it.emulator.shape("here", "b1", Shape(0.01, bytes_per_s=100_000))
            assert await crossing_s(client, broker, bytes(30_000)) >= 0.3

    on_loop(scenario())


def test_a_cut_resets_both_ends_and_refuses_until_healed(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01)) as it:
            client, broker = await it.both()
            await crossing_s(client, broker)
            it.emulator.cut("here", "b1")
            for reader, _ in (client, broker):
                with pytest.raises(ConnectionResetError):
                    await reader.read(1)
            for _ in range(2):
                with pytest.raises(ConnectionRefusedError):
                    await it.connect()
            assert it.emulator.state("here", "b1") == (Shape(0.01), "cut")
            await it.emulator.heal("here", "b1")
            await crossing_s(*(await it.both()))
            it.emulator.cut("here", "b1")
            await it.emulator.heal("here", "b1")
            await crossing_s(*(await it.both()))

    on_loop(scenario())


def test_a_connection_that_is_being_made_is_cut_too(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.1)) as it:
            client = await it.connect()
            await asyncio.sleep(0.05)
            it.emulator.cut("here", "b1")
            with pytest.raises(ConnectionResetError):
                await client[0].read(1)
            await it.emulator.heal("here", "b1")
            await asyncio.sleep(0.4)
            assert it.accepted.empty()

    on_loop(scenario())


def test_a_connection_that_the_broker_has_not_taken_yet_is_cut_too(on_loop: Run) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
            emulator = WanEmulator(random.Random(1))
            at = await emulator.open("here", "b1", Endpoint("nats", *full.getsockname()), Shape(0.0))
            reader, writer = await asyncio.open_connection(at.host, at.port)
            await asyncio.sleep(0.2)
            emulator.cut("here", "b1")
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
            writer.close()
            full.setblocking(False)
            for lasts in (True, False):
                accepted, _ = await loop.sock_accept(full)
                with accepted:
                    if not lasts:
                        with pytest.raises(ConnectionResetError):
                            await loop.sock_recv(accepted, 1)
            await emulator.close()

    on_loop(scenario())


def test_in_a_partition_bytes_wait_and_connections_stay(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01)) as it:
            client, broker = await it.both()
            await crossing_s(client, broker)
            it.emulator.hold("here", "b1")
            client[1].write(b"ab")
            broker[1].write(b"12")
            late = await it.connect()
            late[1].write(b"late")
            for reader in (client[0], broker[0]):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.readexactly(1), 0.2)
            assert it.accepted.empty()
            await it.emulator.heal("here", "b1")
            assert await broker[0].readexactly(2) == b"ab"
            assert await client[0].readexactly(2) == b"12"
            reader, _ = await it.accepted.get()
            assert await reader.readexactly(4) == b"late"

    on_loop(scenario())


def test_what_waited_in_a_partition_comes_at_the_bandwidth(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.0, bytes_per_s=100_000)) as it:
            client, broker = await it.both()
            it.emulator.hold("here", "b1")
            client[1].write(bytes(50_000))
            await asyncio.sleep(0.7)
            await it.emulator.heal("here", "b1")
            started_s = time.monotonic()
            await broker[0].readexactly(50_000)
            assert time.monotonic() - started_s >= 0.45

    on_loop(scenario())


def test_a_client_that_leaves_in_a_partition_is_seen_to_leave_after_it(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01)) as it:
            client, broker = await it.both()
            it.emulator.hold("here", "b1")
            client[1].write(b"last")
            client[1].close()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(broker[0].read(1), 0.2)
            await it.emulator.heal("here", "b1")
            assert await broker[0].read() == b"last"

    on_loop(scenario())


def test_a_sender_whose_receiver_does_not_read_is_stopped(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01, bytes_per_s=10_000_000)) as it:
            with socket.socket() as sender:
                sender.setblocking(False)
                sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
                await asyncio.get_running_loop().sock_connect(sender, (it.near.host, it.near.port))
                reader, _ = await it.accepted.get()
                sent, quiet_since_s = 0, time.monotonic()
                while time.monotonic() - quiet_since_s < 0.3 and sent < 50_000_000:
                    try:
                        sent += sender.send(bytes(65536))
                        quiet_since_s = time.monotonic()
                    except BlockingIOError:
                        await asyncio.sleep(0.01)
                assert sent < 3_000_000, "kernel buffers at the ends, and not much between them"
                sender.shutdown(socket.SHUT_WR)
                received = 0
                while chunk := await reader.read(1 << 20):
                    received += len(chunk)
                assert received == sent

    on_loop(scenario())


def test_the_end_of_one_direction_leaves_the_other_open(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.02)) as it:
            client, broker = await it.both()
            client[1].write(b"question")
            client[1].write_eof()
            assert await broker[0].read() == b"question"
            broker[1].write(b"answer")
            broker[1].close()
            assert await client[0].read() == b"answer"

    on_loop(scenario())


def test_a_broker_that_is_away_resets_who_connects(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.01)) as it:
            with socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
            away = await it.emulator.open("here", "away", Endpoint("nats", "127.0.0.1", port), Shape(0.01))
            reader, writer = await asyncio.open_connection(away.host, away.port)
            with pytest.raises(ConnectionResetError):
                await reader.read(1)
            writer.close()

    on_loop(scenario())


def test_a_broken_connection_is_broken_for_the_other_end(on_loop: Run) -> None:
    async def scenario() -> None:
        async with stage(Shape(0.05)) as it:
            client, broker = await it.both()
            await crossing_s(client, broker)
            started_s = time.monotonic()
            broker[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            broker[1].transport.abort()
            with pytest.raises(ConnectionResetError):
                await client[0].read(1)
            assert time.monotonic() - started_s >= 0.05

    on_loop(scenario())


def test_each_site_has_its_own_distance_to_a_real_server(on_loop: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        spec = ServerSpec("redis", "b1", user="alice", password="secret")  # noqa: S106
        server = await Server.start(spec, tmp_path)
        emulator = WanEmulator(random.Random(1))
        try:
            for site, delay_s in (("near", 0.01), ("far", 0.06)):
                at = await emulator.open(site, "b1", server.endpoint, Shape(delay_s))
                assert (at.user, at.password) == ("alice", "secret")
                # Connecting, and three questions with an answer each, of which the first starts while connecting.
                await takes(8 * delay_s, 8 * delay_s, partial(ask, at, server.pid))
            with pytest.raises(ConfigError, match="from 'near' to 'b1' is open already"):
                await emulator.open("near", "b1", server.endpoint, Shape(0.01))
            with pytest.raises(ConfigError, match="no link from 'near' to 'b2'; links are near to b1, far to b1"):
                emulator.cut("near", "b2")
        finally:
            await emulator.close()
            await server.kill()

    on_loop(scenario())


def test_a_certificate_is_still_checked_for_the_brokers_name() -> None:
    async def scenario() -> None:
        emulator = WanEmulator(random.Random(1))
        named = Endpoint("nats", "broker.test", 4222, tls=Tls())
        renamed = Endpoint("nats", "127.0.0.1", 4222, tls=Tls(server_name="other.test"))
        assert (await emulator.open("here", "b1", named, Shape(0.0))).tls == Tls(server_name="broker.test")
        assert (await emulator.open("here", "b2", renamed, Shape(0.0))).tls == Tls(server_name="other.test")
        await emulator.close()

    asyncio.run(scenario())


def test_a_taken_port_is_refused_also_when_another_emulator_has_it() -> None:
    async def scenario() -> None:
        one, other = WanEmulator(random.Random(1)), WanEmulator(random.Random(1))
        at = await one.open("here", "b1", Endpoint("nats", "127.0.0.1", 4222), Shape(0.0))
        for cut in (False, True):
            if cut:
                one.cut("here", "b1")
            with pytest.raises(FleetError, match=f"port {at.port} is taken"):
                await other.open("here", "b1", Endpoint("nats", "127.0.0.1", 4222), Shape(0.0), port=at.port)
        await one.close()
        again = await other.open("here", "b1", Endpoint("nats", "127.0.0.1", 4222), Shape(0.0), port=at.port)
        assert again.port == at.port
        await other.close()

    asyncio.run(scenario())


def test_connections_that_the_last_owner_closed_do_not_keep_a_port_from_the_next() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as last:
            port = last.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port)) as visitor:
                last.accept()[0].close()
                assert visitor.recv(1) == b""
        emulator = WanEmulator(random.Random(1))
        at = await emulator.open("here", "b1", Endpoint("nats", "127.0.0.1", 4222), Shape(0.0), port=port)
        assert at.port == port
        await emulator.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "wrong", [{"delay_s": -1.0}, {"delay_s": 61.0}, {"jitter_s": -0.1}, {"bytes_per_s": 0.0}, {"delay_s": float("nan")}]
)
def test_a_shape_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Shape(**({"delay_s": 0.0} | wrong))


def test_timers_fire_in_order_and_never_early(on_loop: Run) -> None:
    async def scenario() -> None:
        timers = Timers()
        start_s = time.monotonic()
        rng = random.Random(1)
        wanted = [start_s + rng.uniform(-0.01, 0.05) for _ in range(200)]
        fired: list[tuple[float, float]] = []
        done = asyncio.Event()

        def note(at_s: float) -> Callable[[float], None]:
            def fire(now_s: float) -> None:
                fired.append((at_s, now_s))
                if len(fired) == len(wanted):
                    done.set()

            return fire

        for at_s in wanted:
            timers.call_at(at_s, note(at_s))
        await done.wait()
        assert [at_s for at_s, _ in fired] == sorted(wanted)
        assert all(at_s <= now_s for at_s, now_s in fired)
        timers.close()

    on_loop(scenario())
