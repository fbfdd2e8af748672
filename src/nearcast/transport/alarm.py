"""One timer that is moved about: a machine says when it next wants to be woken, and is."""

import math
from collections.abc import Callable

from nearcast.transport.clock import Cancellable, Clock

_BUSY_S = 0.1
_READ_S = 0.001  # a timer of less may fire before the event loop has read anything


class Alarm:
    """Calls `ring` at or after the time it is set to, once; setting it again replaces what was set before.

    In a process that was too busy to ring in time, what others have said meanwhile is read first: else their silence
    would be noticed, which was none.
    """

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_s = math.inf
        self._due_s = math.inf
        self._put_off = False
        self._timer: Cancellable | None = None

    def set(self, at_s: float) -> None:
        if at_s == self._at_s:
            return
        self.cancel()
        if at_s < math.inf:
            now = self._clock.now()
            self._at_s, self._due_s = at_s, max(at_s, now)
            self._timer = self._clock.call_later(self._due_s - now, self._fire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at_s = None, math.inf

    def _fire(self) -> None:
        if not self._put_off and self._clock.now() > self._due_s + _BUSY_S:
            self._put_off = True
            self._timer = self._clock.call_later(_READ_S, self._fire)
            return
        self._timer, self._at_s, self._put_off = None, math.inf, False
        self._ring()
