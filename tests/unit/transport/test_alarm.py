"""One timer that is moved about."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from nearcast.sim.clock import SimClock
from nearcast.sim.loop import in_virtual_time
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Cancellable


class Bench:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.rang_s: list[float] = []
        self.alarm = Alarm(self.clock, lambda: self.rang_s.append(self.clock.now()))


@in_virtual_time
async def test_it_rings_once_at_the_time_it_is_set_to() -> None:
    bench = Bench()
    bench.alarm.set(2.0)
    await bench.clock.sleep(10.0)
    assert bench.rang_s == [2.0]


@in_virtual_time
async def test_setting_it_again_replaces_what_was_set() -> None:
    bench = Bench()
    bench.alarm.set(2.0)
    bench.alarm.set(5.0)
    bench.alarm.set(3.0)
    await bench.clock.sleep(10.0)
    assert bench.rang_s == [3.0]


@in_virtual_time
async def test_a_time_that_has_passed_rings_soon_but_not_within_the_call() -> None:
    bench = Bench()
    await bench.clock.sleep(4.0)
    bench.alarm.set(1.0)
    assert bench.rang_s == []
    await bench.clock.sleep(0.0)
    await bench.clock.sleep(0.0)
    assert bench.rang_s == [4.0]


@pytest.mark.parametrize("how", ["cancel", "never"])
@in_virtual_time
async def test_cancelled_or_set_to_never_it_does_not_ring(how: str) -> None:
    bench = Bench()
    bench.alarm.set(2.0)
    if how == "cancel":
        bench.alarm.cancel()
    else:
        bench.alarm.set(math.inf)
    await bench.clock.sleep(10.0)
    assert bench.rang_s == []


@in_virtual_time
async def test_it_can_be_set_from_its_own_ring_even_to_the_same_time() -> None:
    clock = SimClock()
    rang_s: list[float] = []

    def ring() -> None:
        rang_s.append(clock.now())
        if len(rang_s) < 3:
            alarm.set(2.0)

    alarm = Alarm(clock, ring)
    alarm.set(2.0)
    await clock.sleep(10.0)
    assert rang_s == [2.0, 2.0, 2.0]


@in_virtual_time
async def test_after_a_cancel_it_can_be_set_to_the_time_it_had() -> None:
    bench = Bench()
    bench.alarm.set(2.0)
    bench.alarm.cancel()
    bench.alarm.set(2.0)
    await bench.clock.sleep(10.0)
    assert bench.rang_s == [2.0]


class Busy:
    """A clock whose process does something else for long: timers fire when it is through, and in turns."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[Callable[[], object]] = []

    def now(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s

    def call_later(self, _delay_s: float, fn: Callable[..., object], *args: Any) -> Cancellable:
        self.timers.append(partial(fn, *args))
        return Mock()

    async def sleep(self, _delay_s: float) -> None:
        raise AssertionError("an alarm does not sleep")

    def turn(self) -> None:
        due, self.timers = self.timers, []
        for each in due:
            each()


def test_one_that_is_late_lets_the_loop_read_first_and_only_once() -> None:
    clock, rang = Busy(), []
    alarm = Alarm(clock, lambda: rang.append(clock.now_s))
    alarm.set(1.0)
    clock.now_s = 3.0
    clock.turn()
    assert rang == []
    clock.now_s = 5.0
    clock.turn()
    assert rang == [5.0]
    alarm.set(6.0)
    clock.now_s = 6.0
    clock.turn()
    assert rang == [5.0, 6.0]


def test_what_was_read_before_a_late_ring_may_put_it_off() -> None:
    clock, rang = Busy(), []
    alarm = Alarm(clock, lambda: rang.append(clock.now_s))
    alarm.set(1.0)
    clock.now_s = 3.0
    clock.turn()
    alarm.cancel()
    clock.timers.clear()
    alarm.set(9.0)
    clock.now_s = 9.0
    clock.turn()
    assert rang == [9.0]
