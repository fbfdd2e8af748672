"""One timer that is moved about: a machine says when it next wants to be woken, and is."""

import math
from collections.abc import Callable

from nearcast.transport.clock import Cancellable, Clock


class Alarm:
    """Calls `ring` at or after the time it is set to, once; setting it again replaces what was set before."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_s = math.inf
        self._timer: Cancellable | None = None

    def set(self, at_s: float) -> None:
        if at_s == self._at_s:
            return
        self.cancel()
        if at_s < math.inf:
            self._at_s = at_s
            self._timer = self._clock.call_later(max(0.0, at_s - self._clock.now()), self._fire)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._at_s = None, math.inf

    def _fire(self) -> None:
        self._timer, self._at_s = None, math.inf
        self._ring()
