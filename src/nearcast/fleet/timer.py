"""Timers that fire within a fraction of a millisecond: those of event loops are rounded to whole ones."""

import asyncio
import ctypes
import errno
import heapq
import math
import os
import time
from collections.abc import Callable
from itertools import count

_TFD_TIMER_ABSTIME = 1

_libc = ctypes.CDLL(None, use_errno=True)


class _ITimerSpec(ctypes.Structure):
    _fields_ = (  # timespec it_interval, it_value
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Timers:
    """Calls functions at times of `time.monotonic()`, never early, in the order of those times; a timerfd of Linux."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()
        self._spec = _ITimerSpec()
        self._set_to_s = math.inf
        self._firing = False
        self._fd = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._fire)

    def call_at(self, at_s: float, fn: Callable[[float], None]) -> None:
        """Call `fn(now_s)` at or after `at_s`. It cannot be called off: `fn` sees for itself whether it is wanted."""
        heapq.heappush(self._heap, (at_s, next(self._numbers), fn))
        if at_s < self._set_to_s and not self._firing:
            self._set(at_s)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._heap.clear()

    def _set(self, at_s: float) -> None:
        # Zero would disarm it; a time that has passed fires at once.
        value_ns = max(1, math.ceil(at_s * 1e9))
        self._spec.value_s, self._spec.value_ns = divmod(value_ns, 1_000_000_000)
        if _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        self._set_to_s = at_s

    def _fire(self) -> None:
        try:
            os.read(self._fd, 8)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
        heap = self._heap
        self._firing = True
        try:
            while heap and heap[0][0] <= (now_s := time.monotonic()):
                heapq.heappop(heap)[2](now_s)
        finally:
            self._firing = False
            self._set_to_s = math.inf
            if heap:
                self._set(heap[0][0])
