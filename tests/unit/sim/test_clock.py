import asyncio
import random

import pytest

from nearcast.sim.clock import WALL_AT_START_S, SimClock, Skew
from nearcast.sim.loop import VirtualLoop, in_virtual_time
from nearcast.transport.clock import Clock


@in_virtual_time
async def test_without_skew_it_shows_the_time_of_the_run() -> None:
    clock: Clock = SimClock()
    await asyncio.sleep(12.5)
    assert clock.now() == 12.5
    assert clock.wall() == WALL_AT_START_S + 12.5


@in_virtual_time
async def test_skew_changes_what_is_shown() -> None:
    clock = SimClock(Skew(wall_offset_s=-3.0, wall_drift=0.5, now_origin_s=100.0, now_drift=0.25))
    await asyncio.sleep(8.0)
    assert clock.wall() == WALL_AT_START_S - 3.0 + 12.0
    assert clock.now() == 110.0


@in_virtual_time
async def test_a_drifting_clock_counts_its_delays_in_its_own_seconds() -> None:
    await SimClock(Skew(now_drift=0.25)).sleep(10.0)
    assert asyncio.get_running_loop().time() == pytest.approx(8.0)


@in_virtual_time
async def test_a_timer_never_fires_before_its_own_clock_says_so() -> None:
    rng = random.Random(3)
    for _ in range(2_000):
        clock = SimClock(Skew(now_origin_s=rng.uniform(0, 1e7), now_drift=rng.uniform(-1e-3, 1e-3)))
        due_s = clock.now() + (delay_s := rng.uniform(0, 10))
        await clock.sleep(delay_s)
        assert due_s <= clock.now() < due_s + 1e-6


@in_virtual_time
async def test_a_timer_never_fires_within_the_call_that_sets_it() -> None:
    fired: list[int] = []
    clock = SimClock()
    clock.call_later(0, fired.append, 1)
    clock.call_later(-1, fired.append, 2)
    assert fired == []
    await asyncio.sleep(0.001)
    assert fired == [1, 2]


@in_virtual_time
async def test_while_paused_nothing_fires_and_afterwards_what_came_due_fires_in_order() -> None:
    clock = SimClock()
    fired: list[tuple[str, float]] = []

    def note(name: str) -> None:
        fired.append((name, clock.now()))

    clock.call_later(3, note, "third")
    clock.call_later(1, note, "first")
    clock.call_later(2, note, "second")
    clock.call_later(2, note, "second again")
    clock.call_later(20, note, "later")
    clock.pause()
    await asyncio.sleep(10)
    assert fired == []
    clock.resume()
    await asyncio.sleep(0)
    assert fired == [("first", 10), ("second", 10), ("second again", 10), ("third", 10)]
    await asyncio.sleep(15)
    assert fired[4:] == [("later", 20)]


@in_virtual_time
async def test_a_sleep_ends_late_when_the_process_was_paused() -> None:
    clock = SimClock()
    sleeping = asyncio.create_task(clock.sleep(1))
    await asyncio.sleep(0.5)
    clock.pause()
    await asyncio.sleep(100)
    assert not sleeping.done()
    clock.resume()
    await sleeping
    assert clock.now() == 100.5


@in_virtual_time
async def test_a_timer_cancelled_during_a_pause_does_not_fire() -> None:
    clock = SimClock()
    fired: list[int] = []
    timer = clock.call_later(1, fired.append, 1)
    clock.pause()
    await asyncio.sleep(2)
    timer.cancel()
    clock.resume()
    await asyncio.sleep(1)
    assert fired == []


@in_virtual_time
async def test_a_pause_right_after_a_resume_holds_what_has_not_fired_yet() -> None:
    clock = SimClock()
    fired: list[int] = []
    for number in range(3):
        clock.call_later(1, fired.append, number)
    clock.pause()
    await asyncio.sleep(2)
    clock.resume()
    clock.pause()
    await asyncio.sleep(1)
    assert fired == []
    clock.resume()
    await asyncio.sleep(0)
    assert fired == [0, 1, 2]


@in_virtual_time
async def test_a_stopped_clock_never_fires_again() -> None:
    clock = SimClock()
    fired: list[int] = []
    clock.call_later(1, fired.append, 1)
    clock.call_later(3, fired.append, 2)
    clock.pause()
    await asyncio.sleep(2)
    clock.stop()
    clock.resume()
    await asyncio.sleep(10)
    assert fired == []


@in_virtual_time
async def test_a_cancelled_sleep_leaves_no_timer() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    sleeping = asyncio.create_task(SimClock().sleep(5))
    await asyncio.sleep(1)
    assert [handle.live for _, _, handle in loop._timers] == [True]
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert [handle.live for _, _, handle in loop._timers] == [False]


@in_virtual_time
async def test_a_sleep_may_be_cancelled_at_the_very_moment_of_its_end() -> None:
    sleeping = asyncio.create_task(SimClock().sleep(1))
    asyncio.get_running_loop().call_later(1, sleeping.cancel)  # Set before the task has begun: it fires first.
    await asyncio.wait([sleeping])
    assert sleeping.cancelled()
