"""The clock of one simulated process: it may be wrong, and the process may be stopped for a while."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WALL_AT_START_S = 1_700_000_000.0  # What a right wall clock shows when a run begins.


@dataclass(frozen=True, slots=True)
class Skew:
    """How a process's clocks differ from the time of the run.

    A drift of 1e-4 gains 0.1 ms every second. `now_origin_s` is where `now()` begins: on real machines that is the
    time since each was started, and who compares two machines' values should be found out.
    """

    wall_offset_s: float = 0.0
    wall_drift: float = 0.0
    now_origin_s: float = 0.0
    now_drift: float = 0.0


class SimClock:
    """A `nearcast.transport.clock.Clock` over the running event loop, with skew, pause and stop.

    While paused, no timer fires and no sleep ends, but time goes on: so it is for a process that the operating system
    has stopped, or whose machine is suspended. After `resume()` all that came due meanwhile fires in the order in
    which it came due.
    """

    def __init__(self, skew: Skew | None = None) -> None:
        self.skew = skew or Skew()
        self.paused = False
        self.stopped = False
        self._loop = asyncio.get_running_loop()
        self._held: list[_Timer] = []

    def now(self) -> float:
        return self.skew.now_origin_s + self._loop.time() * (1.0 + self.skew.now_drift)

    def wall(self) -> float:
        return WALL_AT_START_S + self.skew.wall_offset_s + self._loop.time() * (1.0 + self.skew.wall_drift)

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: Any) -> "_Timer":
        timer = _Timer(fn, args)
        timer.handle = self._loop.call_at(self._due_s(max(0.0, delay_s)), self._fire, timer)
        return timer

    async def sleep(self, delay_s: float) -> None:
        woken: asyncio.Future[None] = self._loop.create_future()
        timer = self.call_later(delay_s, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        held, self._held = self._held, []
        for timer in held:
            self._loop.call_soon(self._fire, timer)

    def stop(self) -> None:
        """The process is dead: no timer of it fires ever again."""
        self.stopped = True
        self._held.clear()

    def _due_s(self, delay_s: float) -> float:
        """The loop's time when this clock will have moved on by `delay_s`, and not a rounding error less.

        Who finds at its timer that its time has not come waits again, and would do so for ever.
        """
        due_s = self._loop.time() + delay_s / (1.0 + self.skew.now_drift)
        if delay_s and (self.skew.now_drift or self.skew.now_origin_s):
            due_s += 4 * math.ulp(self.now() + delay_s)
        return due_s

    def _fire(self, timer: "_Timer") -> None:
        if self.stopped:
            return
        if self.paused:
            self._held.append(timer)
        elif timer.live:
            timer.live = False
            timer.fn(*timer.args)


class _Timer:
    __slots__ = ("args", "fn", "handle", "live")

    handle: asyncio.TimerHandle

    def __init__(self, fn: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.fn = fn
        self.args = args
        self.live = True

    def cancel(self) -> None:
        self.live = False
        self.handle.cancel()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
