"""The event loop in virtual time: the same order every time, and nothing that could differ let in."""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

import nearcast.sim.loop as loop_module
from nearcast.sim.loop import Deadlock, Livelock, OutOfTime, Unhandled, VirtualLoop, in_virtual_time, run_virtual
from nearcast.sim.sealed import OutsideVirtualTime

Scenario = Callable[[], Coroutine[Any, Any, object]]


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


# Time


def test_a_year_passes_at_once() -> None:
    async def scenario() -> float:
        await asyncio.sleep(365 * 86_400)
        return asyncio.get_running_loop().time()

    began_s = time.monotonic()
    assert run_virtual(scenario(), seed=1) == 365 * 86_400
    assert time.monotonic() - began_s < 5


@in_virtual_time
async def test_timers_of_equal_time_run_in_the_order_of_their_creation() -> None:
    fired: list[int] = []
    loop = asyncio.get_running_loop()
    for number in range(1_000):
        loop.call_at(5.0, fired.append, number)
        loop.call_at(float(number % 7), lambda: None)
    await asyncio.sleep(6)
    assert fired == list(range(1_000))


@in_virtual_time
async def test_time_stands_still_while_anything_can_run() -> None:
    loop = asyncio.get_running_loop()
    late: list[float] = []
    loop.call_later(1e-9, lambda: late.append(loop.time()))
    for _ in range(1_000):
        await asyncio.sleep(0)
        assert loop.time() == 0
    assert late == []


@in_virtual_time
async def test_cancelled_timers_neither_fire_nor_fill_the_heap() -> None:
    loop = virtual_loop()
    fired: list[int] = []
    kept = loop.call_later(1.0, fired.append, 1)
    for _ in range(10_000):
        loop.call_later(0.5, fired.append, 2).cancel()
    assert len(loop._timers) < 1_000
    await asyncio.sleep(2)
    kept.cancel()
    assert fired == [1]


@in_virtual_time
async def test_timeouts_of_asyncio_work() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await asyncio.sleep(11)
    assert asyncio.get_running_loop().time() == 10


# What cannot go on


def test_a_deadlock_is_an_error_that_says_who_waits_where() -> None:
    async def scenario() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match=r"main waits at .*test_loop\.py:\d+") as caught:
        run_virtual(scenario(), seed=42)
    assert "seed 42" in "".join(caught.value.__notes__)


def test_a_cancelled_timer_does_not_hide_a_deadlock() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().call_later(10, print).cancel()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match=r"at 0\.000000 s"):
        run_virtual(scenario(), seed=1)


def test_spinning_without_time_passing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "SPIN_LIMIT", 10_000)

    async def scenario() -> None:
        while True:  # noqa: ASYNC110  # The mistake that is to be found.
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="main waits at"):
        run_virtual(scenario(), seed=1)


def test_a_run_ends_at_its_limit() -> None:
    async def scenario() -> None:
        while True:  # noqa: ASYNC110  # What never ends.
            await asyncio.sleep(1)

    with pytest.raises(OutOfTime, match=r"not done within 30\.5 s") as caught:
        run_virtual(scenario(), seed=1, limit_s=30.5)
    assert "at 30.000000 s" in "".join(caught.value.__notes__)


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: asyncio.open_connection("127.0.0.1", 9),
        lambda: asyncio.to_thread(time.sleep, 0),
        lambda: asyncio.create_subprocess_exec("true"),
        lambda: asyncio.get_running_loop().getaddrinfo("localhost", 9),
        lambda: asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0),
    ],
)
def test_real_io_is_refused(attempt: Scenario) -> None:
    async def scenario() -> None:
        await attempt()

    with pytest.raises(OutsideVirtualTime, match="reaches outside virtual time"):
        run_virtual(scenario(), seed=1)


# Failures


async def fail_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(1)


async def fail_in_a_timer() -> None:
    asyncio.get_running_loop().call_later(0.5, lambda: 1 / 0)
    await asyncio.sleep(1)


async def divide() -> None:
    await asyncio.sleep(0.1)
    _ = 1 / 0


async def fail_in_a_task_nobody_awaits() -> None:
    task = asyncio.create_task(divide())
    await asyncio.sleep(0.5)
    del task
    await asyncio.sleep(0.5)


HELD: list[object] = []


async def fail_in_a_task_that_is_still_held() -> None:
    HELD.append(asyncio.create_task(divide()))
    await asyncio.sleep(1)


async def fail_while_being_cancelled() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            _ = 1 / 0

    HELD.append(asyncio.create_task(stubborn()))
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    "scenario",
    [
        fail_in_a_callback,
        fail_in_a_timer,
        fail_in_a_task_nobody_awaits,
        fail_in_a_task_that_is_still_held,
        fail_while_being_cancelled,
    ],
)
def test_an_exception_that_nobody_catches_fails_the_run(scenario: Scenario) -> None:
    with pytest.raises(Unhandled, match="ZeroDivisionError") as caught:
        run_virtual(scenario(), seed=3)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "seed 3" in "".join(caught.value.__notes__)
    HELD.clear()


@in_virtual_time
async def test_an_exception_that_somebody_catches_does_not() -> None:
    task = asyncio.create_task(divide())
    await asyncio.sleep(1)
    with pytest.raises(ZeroDivisionError):
        await task


def test_what_main_raises_is_raised_with_the_seed_and_the_time() -> None:
    async def scenario() -> None:
        await asyncio.sleep(1.5)
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing") as caught:
        run_virtual(scenario(), seed=99)
    assert caught.value.__notes__ == ["virtual run: seed 99, at 1.500000 s, after 3 callbacks"]


# The end


def test_tasks_left_over_are_cancelled_in_the_order_of_their_creation() -> None:
    ended: list[str] = []

    async def left_over(name: str) -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            await asyncio.sleep(1)
            ended.append(name)

    async def scenario() -> None:
        HELD.extend(asyncio.create_task(left_over(name)) for name in "cab")
        await asyncio.sleep(1)

    run_virtual(scenario(), seed=1)
    assert ended == ["c", "a", "b"]
    HELD.clear()


def test_asynchronous_generators_are_closed() -> None:
    closed: list[str] = []

    async def numbers(name: str) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append(name)

    async def scenario() -> None:
        HELD.append(held := numbers("held"))
        assert await anext(held) == 1
        async for _ in numbers("dropped"):
            break
        await asyncio.sleep(1)
        assert closed == ["dropped"]

    run_virtual(scenario(), seed=1)
    assert closed == ["dropped", "held"]
    HELD.clear()


@in_virtual_time
async def test_what_has_ended_is_not_remembered() -> None:
    async def count() -> AsyncIterator[int]:
        yield 1

    async def nothing() -> None:
        async for _ in count():
            pass

    for _ in range(5_000):
        await asyncio.create_task(nothing())
    assert len(virtual_loop()._tasks._refs) < 3_000
    assert len(virtual_loop()._generators._refs) < 3_000


# The seed


async def draw() -> tuple[float, float]:
    return virtual_loop().rng.random(), random.random()


def test_the_seed_decides_what_is_left_to_chance() -> None:
    first = run_virtual(draw(), seed=5)
    random.random()
    assert run_virtual(draw(), seed=5) == first
    assert run_virtual(draw(), seed=6) != first


def test_a_run_leaves_the_random_module_as_it_was() -> None:
    random.seed(0)
    expected = random.random()
    random.seed(0)
    run_virtual(draw(), seed=5)
    assert random.random() == expected


PROGRAM = """
import asyncio, os
from nearcast.sim.loop import run_virtual

# Addresses and hashes of strings must not matter: make them differ.
noise = [bytearray(size) for size in os.urandom(5_000)]
del noise[::2]
trace = []

async def member(number):
    try:
        await asyncio.sleep(10)
    finally:
        trace.append(number)

async def fail():
    await asyncio.sleep(1)
    raise ValueError

async def main():
    loop = asyncio.get_running_loop()
    for round in range(20):
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(member(number))
                    noise.append(bytearray(os.urandom(1)[0]))
                group.create_task(fail())
        except* ValueError:
            pass
        futures = []
        for number in range(30):
            futures.append(loop.create_future())
            noise.append(bytearray(os.urandom(1)[0]))
        for future in futures[::3]:
            future.set_result(None)
        done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        trace.extend(futures.index(future) for future in done)
        trace.extend(futures.index(future) for future in pending)
        trace.append(sorted(task.get_name() for task in asyncio.all_tasks()))
        trace.append(loop.rng.random())

run_virtual(main(), seed=11)
print(trace)
"""


def test_two_processes_run_the_same_program_the_same_way() -> None:
    def run(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    outputs = [run(hash_seed) for hash_seed in ("1", "2", "3")]
    assert len(outputs[0]) > 1_000
    assert outputs[1:] == outputs[:1] * 2


# Speed


def test_the_loop_is_cheap() -> None:
    """At least 150,000 callbacks a second of processor time, half of them timers; the best of five, against noise."""

    async def scenario() -> int:
        loop = virtual_loop()
        done = loop.create_future()
        left = 50_000

        def again(delay_s: float) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done.set_result(None)
            loop.call_soon(lambda: None)
            loop.call_later(delay_s, again, delay_s)

        for number in range(100):
            again(0.001 * (number + 1))
        await done
        return loop.callbacks

    rates = []
    for _ in range(5):
        began_s = time.process_time()
        callbacks = run_virtual(scenario(), seed=1)
        rates.append(callbacks / (time.process_time() - began_s))
    assert max(rates) > 150_000
