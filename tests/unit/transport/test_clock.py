import asyncio
import time

from nearcast.transport.clock import Clock, SystemClock


async def test_the_system_clock_fires_timers_in_order_and_not_early() -> None:
    clock: Clock = SystemClock()
    began_s = clock.now()
    fired: list[str] = []
    done = asyncio.Event()
    clock.call_later(0.02, done.set)
    clock.call_later(0.01, fired.append, "kept")
    clock.call_later(0.005, fired.append, "cancelled").cancel()
    async with asyncio.timeout(10):
        await done.wait()
    assert fired == ["kept"]
    assert clock.now() - began_s >= 0.019


async def test_the_system_clock_sleeps() -> None:
    clock = SystemClock()
    began_s = clock.now()
    await clock.sleep(0.01)
    assert clock.now() - began_s >= 0.009


def test_the_system_clock_shows_the_time_of_the_machine() -> None:
    clock = SystemClock()
    assert abs(clock.wall() - time.time()) < 60
    assert clock.now() <= clock.now()


def test_the_system_clock_counts_time_in_suspend_where_the_system_does() -> None:
    if hasattr(time, "CLOCK_BOOTTIME"):
        assert abs(SystemClock().now() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 60
    else:
        assert abs(SystemClock().now() - time.monotonic()) < 60
