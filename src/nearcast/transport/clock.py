"""Time as an argument: the shells around the machines ask a Clock, and never the machine they run on."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

# CLOCK_MONOTONIC stands still while a Linux machine is suspended, and a lease would outlive its term by that long.
_now = partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic


class Cancellable(Protocol):
    """A timer that can be called off. Cancelling one that has fired, or twice, does nothing."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time of one process.

    Not promised: that a timer fires on time. A process that was stopped or suspended sees its timers fire late, after
    `now()` has moved on; who must not act on something stale compares `now()` when it acts.
    """

    def now(self) -> float:
        """Seconds since an origin of this process's own, never going back, running while the machine is suspended."""
        ...

    def wall(self) -> float:
        """Seconds since 1970 as this machine believes: it may be wrong, and it may jump."""
        ...

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: Any) -> Cancellable:
        """Call `fn(*args)` on the event loop when `delay_s` have passed, never within this call."""
        ...

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The clock of the machine. Timers are those of the running event loop."""

    now = staticmethod(_now)
    wall = staticmethod(time.time)

    def call_later(self, delay_s: float, fn: Callable[..., object], *args: Any) -> Cancellable:
        return asyncio.get_running_loop().call_later(delay_s, fn, *args)

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
