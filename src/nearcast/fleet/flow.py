"""Bytes on their way: the delay line of one direction of one connection."""

import random
import time
from collections import deque
from enum import Enum
from typing import Protocol

from nearcast.fleet.shape import Shape
from nearcast.fleet.timer import Timers

_LATE_S = 0.005  # a lane whose timer came late by less than this makes up for it; what was held for longer does not
_PIECE_S = 0.001  # under a limit, bytes pass in pieces that take so long,
_PIECE_BYTES = 1448  # or, on a slow lane, longer


class Mark(Enum):
    """What can follow the bytes of a connection."""

    EOF = "no more bytes, but the other direction goes on"
    CLOSE = "closed in order"
    RESET = "broken"


class Source(Protocol):
    """Where bytes come from."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Sink(Protocol):
    """Where bytes go to."""

    def write(self, data: bytes) -> None: ...
    def end(self, mark: Mark) -> None: ...


class Lane:
    """One direction of a link: what all its connections share."""

    def __init__(self, shape: Shape, timers: Timers, rng: random.Random) -> None:
        self.shape = shape
        self.timers = timers
        self.rng = rng
        self.held = False  # nothing passes, everything waits
        self._busy_until_s = 0.0

    def reserve(self, due_s: float, now_s: float, size: int) -> float:
        """When the last of `size` bytes has passed, which could begin at `due_s`."""
        if self.shape.bytes_per_s is None:
            return due_s
        start_s = max(due_s, self._busy_until_s, now_s - _LATE_S)
        self._busy_until_s = start_s + size / self.shape.bytes_per_s
        return self._busy_until_s


class Flow:
    """One direction of one connection, in order: what is due before the bytes ahead of it waits for them.

    What is on its way is bounded, up to one read: above the bound nothing is read from the source, which the sender
    feels. It begins without a sink: until `flow_to` what is put waits.
    """

    __slots__ = (
        "_done",
        "_lane",
        "_line",
        "_passing",
        "_reading",
        "_scheduled",
        "_sink",
        "_size_bytes",
        "_source",
        "_stalled",
    )

    def __init__(self, lane: Lane, source: Source) -> None:
        self._lane = lane
        self._source = source
        self._sink: Sink | None = None
        self._line: deque[tuple[float, bytes | memoryview | Mark]] = deque()
        self._size_bytes = 0
        self._passing = False  # the head has its time on the lane
        self._scheduled = False
        self._reading = True
        self._stalled = False  # the sink takes no more
        self._done = False

    @property
    def size_bytes(self) -> int:
        """What is on its way now."""
        return self._size_bytes

    def flow_to(self, sink: Sink) -> None:
        self._sink = sink
        self.go_on()

    def put(self, data: bytes | Mark) -> None:
        """From the source, now."""
        if self._done:
            return
        shape = self._lane.shape
        due_s = time.monotonic() + shape.delay_s
        if shape.jitter_s:
            due_s += self._lane.rng.uniform(0.0, shape.jitter_s)
        if isinstance(data, Mark):
            self._line.append((due_s, data))
        else:
            self._append(data, due_s, shape)
        self.go_on()

    def stall(self, stalled: bool) -> None:
        """The sink takes no more, or takes again."""
        self._stalled = stalled
        self.go_on()

    def go_on(self) -> None:
        """Something may have changed: see to it that the head is sent when it is due."""
        if self._line and not (self._scheduled or self._stalled or self._lane.held or self._sink is None):
            self._scheduled = True
            self._lane.timers.call_at(self._line[0][0], self._pass)

    def abandon(self) -> None:
        """Nothing more passes; what is on its way is dropped."""
        self._done = True
        self._line.clear()
        self._size_bytes = 0

    def _append(self, data: bytes, due_s: float, shape: Shape) -> None:
        self._size_bytes += len(data)
        piece = len(data) if shape.bytes_per_s is None else max(_PIECE_BYTES, int(shape.bytes_per_s * _PIECE_S))
        if len(data) <= piece:
            self._line.append((due_s, data))
        else:
            view = memoryview(data)
            self._line.extend((due_s, view[at : at + piece]) for at in range(0, len(data), piece))
        if self._reading and self._size_bytes > shape.most_bytes:
            self._reading = False
            self._source.pause_reading()

    def _pass(self, now_s: float) -> None:
        """Hand over all that is due, in one write."""
        self._scheduled = False
        if self._lane.held or self._stalled or self._sink is None:
            return
        limited = self._lane.shape.bytes_per_s is not None
        line, batch = self._line, []
        mark: Mark | None = None
        while line and line[0][0] <= now_s and mark is None:
            due_s, item = line[0]
            if isinstance(item, Mark):
                mark = item
            elif limited and not self._passing:
                self._passing = True
                line[0] = (self._lane.reserve(due_s, now_s, len(item)), item)
                continue
            else:
                self._passing = False
                self._size_bytes -= len(item)
                batch.append(item)
            line.popleft()
        if batch:
            self._sink.write(b"".join(batch))
        if mark is not None:
            self._sink.end(mark)
        if not self._reading and not self._done and 2 * self._size_bytes <= self._lane.shape.most_bytes:
            self._reading = True
            self._source.resume_reading()
        self.go_on()
