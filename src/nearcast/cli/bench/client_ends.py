"""The two processes of one measurement of `nearcast bench client`: a publisher, and all subscribers.

Each does what comes in as a line of JSON, answers with another, and ends with its input. How far the subscribers are is
told to the publisher past the libraries, over a socket: it never has more than a window under way, so that no library
and no server has to drop anything, and the window is the same for all.
"""

import asyncio
import socket
import sys
import time
from struct import Struct

import msgspec
import numpy as np

from nearcast.cli.bench.client_sides import Side, Style, Where, connect
from nearcast.fleet.timer import Timers

SIZE_BYTES = 1024
BLOCK = 128  # messages; the subscribers say so when all have got as many
WINDOW = 1024
_BATCH = 64  # messages that a publisher hands over before anything else gets a turn
_STALLED_S = 2.0

_STAMP = Struct("<Bd")
_FLOOD_PAYLOAD = bytes(SIZE_BYTES)
_PADDING = bytes(SIZE_BYTES - _STAMP.size)


class Job(msgspec.Struct, frozen=True):
    """`subscribers` is 0 in the publisher's process. `fd` is this end of the socket between the two."""

    where: Where
    subscribers: int
    style: Style
    fd: int


class Flood(msgspec.Struct, frozen=True, tag=True):
    """Publish as fast as the window allows."""

    seconds: float


class Pace(msgspec.Struct, frozen=True, tag=True):
    """Publish by schedule."""

    rate_hz: float
    count: int


class Collect(msgspec.Struct, frozen=True, tag=True):
    """Wait until every subscriber has got so many since the last time, or nothing comes any more."""

    count: int


class Sent(msgspec.Struct, frozen=True):
    count: int
    began_s: float
    late_ms: float = 0.0  # behind schedule, median


class Collected(msgspec.Struct, frozen=True):
    """`last_s` is when the last block was complete; `latency_ms` the median of what was paced."""

    delivered: int
    last_s: float
    latency_ms: float | None


class _Publisher:
    def __init__(self, side: Side, told: socket.socket) -> None:
        self._side = side
        self._told = told
        self._blocks = 0
        self._news = asyncio.Event()
        asyncio.get_running_loop().add_reader(told, self._hear)

    def _hear(self) -> None:
        self._blocks += len(self._told.recv(4096))
        self._news.set()

    async def flood(self, seconds: float) -> Sent:
        """A whole number of blocks."""
        self._blocks = sent = 0
        began_s = time.monotonic()
        while sent % BLOCK or time.monotonic() < began_s + seconds:
            while sent + _BATCH - self._blocks * BLOCK > WINDOW:
                self._news.clear()
                try:
                    await asyncio.wait_for(self._news.wait(), _STALLED_S)
                except TimeoutError:
                    return Sent(sent, began_s)
            await self._side.publish_many(_FLOOD_PAYLOAD, _BATCH)
            sent += _BATCH
        return Sent(sent, began_s)

    async def pace(self, rate_hz: float, count: int) -> Sent:
        timers = Timers()
        due = asyncio.Event()
        late_s = []
        began_s = time.monotonic() + 0.05
        try:
            for number in range(count):
                at_s = began_s + number / rate_hz
                if time.monotonic() < at_s:
                    due.clear()
                    timers.call_at(at_s, lambda _now_s: due.set())
                    await due.wait()
                late_s.append(time.monotonic() - at_s)
                await self._side.publish(_STAMP.pack(1, at_s) + _PADDING)
        finally:
            timers.close()
        return Sent(count, began_s, float(np.median(late_s)) * 1e3)


class _Progress:
    """What all subscribers of the process have got."""

    def __init__(self, subscribers: int, tell: socket.socket) -> None:
        self.tallies = [_Tally(self) for _ in range(subscribers)]
        self.latencies_s: list[float] = []
        self.last_s = 0.0
        self._tell = tell
        self._complete: list[int] = []

    def block(self, number: int) -> None:
        """One of them has got its so-manieth block."""
        self.last_s = time.monotonic()
        while len(self._complete) <= number:
            self._complete.append(0)
        self._complete[number] += 1
        if self._complete[number] == len(self.tallies):
            self._tell.send(b".")

    async def collect(self, count: int) -> Collected:
        before, since_s = -1, time.monotonic()
        while (delivered := self._delivered()) < count * len(self.tallies):
            if delivered > before:
                before, since_s = delivered, time.monotonic()
            elif time.monotonic() > since_s + _STALLED_S:
                break
            await asyncio.sleep(0.01)
        latencies_s, self.latencies_s = self.latencies_s, []
        self._complete.clear()
        for tally in self.tallies:
            tally.count = 0
        return Collected(delivered, self.last_s, float(np.median(latencies_s)) * 1e3 if latencies_s else None)

    def _delivered(self) -> int:
        return sum(tally.count for tally in self.tallies)


class _Tally:
    __slots__ = ("_progress", "count")

    def __init__(self, progress: _Progress) -> None:
        self.count = 0
        self._progress = progress

    def take(self, payload: bytes) -> None:
        self.count += 1
        if payload[0]:
            _, at_s = _STAMP.unpack_from(payload)
            self._progress.latencies_s.append(time.monotonic() - at_s)
        elif not self.count % BLOCK:
            self._progress.block(self.count // BLOCK - 1)


async def _work(job: Job) -> None:
    between = socket.socket(fileno=job.fd)
    between.setblocking(False)
    sides = await asyncio.gather(*(connect(job.where) for _ in range(max(1, job.subscribers))))
    publisher = _Publisher(sides[0], between) if not job.subscribers else None
    progress = _Progress(job.subscribers, between)
    await asyncio.gather(
        *(side.subscribe(tally.take, job.style) for side, tally in zip(sides, progress.tallies, strict=False))
    )
    print("{}", flush=True)
    commands = msgspec.json.Decoder(Flood | Pace | Collect)
    while line := await asyncio.to_thread(sys.stdin.readline):
        answer: Sent | Collected
        match commands.decode(line):
            case Flood(seconds) if publisher is not None:
                answer = await publisher.flood(seconds)
            case Pace(rate_hz, count) if publisher is not None:
                answer = await publisher.pace(rate_hz, count)
            case Collect(count) if publisher is None:
                answer = await progress.collect(count)
            case other:
                raise AssertionError(f"this process does not {other}")
        print(msgspec.json.encode(answer).decode(), flush=True)
    if publisher is not None:
        asyncio.get_running_loop().remove_reader(between)
    await asyncio.gather(*(side.close() for side in sides))
    between.close()


if __name__ == "__main__":
    asyncio.run(_work(msgspec.json.decode(sys.argv[1], type=Job)))
