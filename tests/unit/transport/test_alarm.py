"""One timer that is moved about."""

import math

import pytest

from nearcast.sim.clock import SimClock
from nearcast.sim.loop import in_virtual_time
from nearcast.transport.alarm import Alarm


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
