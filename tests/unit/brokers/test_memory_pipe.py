import asyncio
import random
from collections.abc import Callable

import pytest

from nearcast.brokers.memory_pipe import Pipe, Wire
from nearcast.sim.loop import in_virtual_time


def pipe_to(sink: Callable[[int], None], wire: Wire, limit_bytes: float = float("inf")) -> Pipe[int]:
    return Pipe(wire, random.Random(1), sink, limit_bytes)


@in_virtual_time
async def test_nothing_arrives_within_the_call_that_sends_it() -> None:
    got: list[int] = []
    pipe = pipe_to(got.append, Wire())
    pipe.send(1, 10)
    assert got == []
    await asyncio.sleep(0)
    assert got == [1]


@in_virtual_time
async def test_delay_is_added() -> None:
    loop = asyncio.get_running_loop()
    arrived_s: list[float] = []
    pipe = pipe_to(lambda _: arrived_s.append(loop.time()), Wire(delay_s=0.25))
    pipe.send(1, 10)
    await asyncio.sleep(1)
    pipe.send(2, 10)
    await asyncio.sleep(1)
    assert arrived_s == [0.25, 1.25]


@in_virtual_time
async def test_jitter_spreads_arrivals_but_keeps_their_order() -> None:
    loop = asyncio.get_running_loop()
    got: list[int] = []
    delays_s: list[float] = []
    sent_s: dict[int, float] = {}

    def sink(item: int) -> None:
        got.append(item)
        delays_s.append(loop.time() - sent_s[item])

    pipe = pipe_to(sink, Wire(delay_s=0.1, jitter_s=0.4))
    for item in range(500):
        sent_s[item] = loop.time()
        pipe.send(item, 10)
        await asyncio.sleep(0.01)
    await asyncio.sleep(1)
    assert got == list(range(500))
    assert 0.1 <= min(delays_s) < max(delays_s) <= 0.5
    assert max(delays_s) - min(delays_s) > 0.1


@in_virtual_time
async def test_bandwidth_spaces_what_is_sent_together() -> None:
    loop = asyncio.get_running_loop()
    arrived_s: list[float] = []
    pipe = pipe_to(lambda _: arrived_s.append(loop.time()), Wire(delay_s=1.0, bytes_per_s=100.0))
    for item in range(3):
        pipe.send(item, 50)
    await asyncio.sleep(5)
    assert arrived_s == [1.5, 2.0, 2.5]
    pipe.send(3, 50)
    await asyncio.sleep(5)
    assert arrived_s[3:] == [6.5]


@in_virtual_time
async def test_a_wire_that_becomes_faster_is_not_overtaken_on() -> None:
    got: list[int] = []
    pipe = pipe_to(got.append, Wire(delay_s=1.0))
    pipe.send(1, 10)
    pipe.set_wire(Wire())
    pipe.send(2, 10)
    await asyncio.sleep(0.5)
    assert got == []
    await asyncio.sleep(1)
    assert got == [1, 2]


@in_virtual_time
async def test_what_waits_for_a_slow_wire_is_limited() -> None:
    got: list[int] = []
    pipe = pipe_to(got.append, Wire(bytes_per_s=100.0), limit_bytes=200)
    assert [pipe.send(item, 100) for item in range(4)] == [True, True, False, False]
    await asyncio.sleep(1)
    assert pipe.send(4, 100)
    await asyncio.sleep(10)
    assert got == [0, 1, 4]


@in_virtual_time
async def test_what_a_stopped_receiver_does_not_read_is_limited_and_read_later() -> None:
    got: list[int] = []
    pipe = pipe_to(got.append, Wire(delay_s=0.1), limit_bytes=250)
    pipe.send(0, 100)
    pipe.stop_reading()
    pipe.stop_reading()
    assert [pipe.send(item, 100) for item in range(1, 4)] == [True, False, False]
    await asyncio.sleep(5)
    assert got == []
    pipe.read_on()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert got == [0, 1]
    pipe.send(5, 100)
    await asyncio.sleep(5)
    assert got == [0, 1, 5]


@in_virtual_time
async def test_a_receiver_that_stops_in_the_middle_of_a_batch_gets_no_more_of_it() -> None:
    got: list[int] = []

    def sink(item: int) -> None:
        got.append(item)
        if item == 1:
            pipe.stop_reading()

    pipe = pipe_to(sink, Wire())
    for item in range(4):
        pipe.send(item, 10)
    await asyncio.sleep(1)
    assert got == [0, 1]
    pipe.read_on()
    await asyncio.sleep(1)
    assert got == [0, 1, 2, 3]


@in_virtual_time
async def test_what_a_stopped_sender_hands_over_leaves_when_it_goes_on() -> None:
    loop = asyncio.get_running_loop()
    got: list[tuple[int, float]] = []
    pipe = pipe_to(lambda item: got.append((item, loop.time())), Wire(delay_s=1.0))
    pipe.send(1, 10)
    pipe.stop_sending()
    pipe.send(2, 10)
    await asyncio.sleep(5)
    assert got == [(1, 1.0)]
    pipe.send_on()
    await asyncio.sleep(5)
    assert got == [(1, 1.0), (2, 6.0)]


@in_virtual_time
async def test_a_severed_pipe_loses_what_is_under_way_and_what_comes_after() -> None:
    got: list[int] = []
    pipe = pipe_to(got.append, Wire(delay_s=1.0))
    pipe.send(1, 10)
    await asyncio.sleep(0.5)
    pipe.sever()
    assert pipe.send(2, 10)
    await asyncio.sleep(5)
    assert got == []


async def test_a_receiver_that_raises_loses_only_that_item() -> None:
    got: list[int] = []
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    done = asyncio.Event()

    def sink(item: int) -> None:
        if item == 1:
            raise RuntimeError("no")
        got.append(item)
        if item == 3:
            done.set()

    pipe = pipe_to(sink, Wire())
    for item in range(4):
        pipe.send(item, 10)
    async with asyncio.timeout(10):
        await done.wait()
    assert got == [0, 2, 3]
    assert len(reported) == 1


@pytest.mark.parametrize("fields", [{"delay_s": -1.0}, {"jitter_s": -0.1}, {"bytes_per_s": 0.0}])
def test_an_impossible_wire_is_refused(fields: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must not be negative, and bytes_per_s must be above zero"):
        Wire(**fields)
