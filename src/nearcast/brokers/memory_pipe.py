"""One direction of one simulated connection: what is sent arrives later, in order, or not at all."""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wire:
    """The path between a process and a broker; each direction has all of it."""

    delay_s: float = 0.0
    jitter_s: float = 0.0  # Added to the delay, uniform from zero to this; it never changes the order.
    bytes_per_s: float = math.inf

    def __post_init__(self) -> None:
        if self.delay_s < 0 or self.jitter_s < 0 or self.bytes_per_s <= 0:
            raise ValueError(f"{self}: delay and jitter must not be negative, and bytes_per_s must be above zero")


class Pipe(Generic[T]):
    """Carries items to `sink` over a wire, first in, first out: who has a shorter delay waits for those before it.

    One callback of the event loop serves all that has arrived by then. `limit_bytes` bounds what waits at the sender
    because the wire is slow or the receiver does not read.
    """

    __slots__ = (
        "_armed",
        "_flight",
        "_instant",
        "_limit_bytes",
        "_loop",
        "_rng",
        "_severed",
        "_sink",
        "_unread_bytes",
        "_unsent",
        "_wire",
        "_wire_free_s",
    )

    def __init__(
        self, wire: Wire, rng: random.Random, sink: Callable[[T], None], limit_bytes: float = math.inf
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._rng = rng
        self._sink = sink
        self._limit_bytes = limit_bytes
        self._flight: deque[tuple[float, T, int]] = deque()
        self._wire_free_s = -math.inf
        self._armed = False
        self._severed = False
        self._unread_bytes: int | None = None  # A number while the receiver does not read.
        self._unsent: list[tuple[T, int]] | None = None  # A list while the sender is stopped.
        self.set_wire(wire)

    def set_wire(self, wire: Wire) -> None:
        """From now on; what is under way keeps its time of arrival, and is not overtaken."""
        self._wire = wire
        self._instant = wire.delay_s == 0 and wire.jitter_s == 0 and wire.bytes_per_s == math.inf

    @property
    def wire(self) -> Wire:
        return self._wire

    def send(self, item: T, size_bytes: int) -> bool:
        """Take an item. False when more would wait than the limit allows: then it was not taken."""
        if self._severed:
            return True
        if self._unsent is not None:
            self._unsent.append((item, size_bytes))
            return True
        now_s = self._loop.time()
        if self._unread_bytes is not None:
            if self._unread_bytes + size_bytes > self._limit_bytes:
                return False
            self._unread_bytes += size_bytes
        if self._instant:
            arrival_s = now_s
        else:
            wire = self._wire
            sent_s = now_s
            if wire.bytes_per_s != math.inf:
                begin_s = max(now_s, self._wire_free_s)
                if (begin_s - now_s) * wire.bytes_per_s + size_bytes > self._limit_bytes:
                    return False
                sent_s = self._wire_free_s = begin_s + size_bytes / wire.bytes_per_s
            arrival_s = sent_s + wire.delay_s
            if wire.jitter_s:
                arrival_s += wire.jitter_s * self._rng.random()
        self._flight.append((arrival_s, item, size_bytes))
        if not self._armed:
            self._arm()
        return True

    def sever(self) -> None:
        """Lose what is under way, and all that is sent from now on."""
        self._severed = True
        self._flight.clear()
        self._unsent = None

    def stop_reading(self) -> None:
        """The receiver is stopped: what arrives waits, and counts against the limit."""
        if self._unread_bytes is None:
            self._unread_bytes = sum(size_bytes for _, _, size_bytes in self._flight)

    def read_on(self) -> None:
        self._unread_bytes = None
        self._arm()

    def stop_sending(self) -> None:
        """The sender is stopped: what it still hands over leaves when it goes on."""
        if self._unsent is None:
            self._unsent = []

    def send_on(self) -> None:
        unsent, self._unsent = self._unsent, None
        for item, size_bytes in unsent or ():
            self.send(item, size_bytes)

    def _arm(self) -> None:
        if self._flight and not self._armed and self._unread_bytes is None:
            self._armed = True
            arrival_s = self._flight[0][0]
            if arrival_s <= self._loop.time():
                self._loop.call_soon(self._arrive)
            else:
                self._loop.call_at(arrival_s, self._arrive)

    def _arrive(self) -> None:
        flight = self._flight
        now_s = self._loop.time()
        try:
            while flight and flight[0][0] <= now_s and self._unread_bytes is None:
                self._sink(flight.popleft()[1])
        finally:
            self._armed = False
            self._arm()
