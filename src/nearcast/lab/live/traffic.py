"""Traffic of a given kind on one server, and how late it came: the other end of `profile`, a process of its own.

    python -m nearcast.lab.live.traffic

Reads a line of JSON per run, `Traffic`, and answers with another, `Heard`. Raw connections in one thread: frames of
one run are all of one length, so that thousands are read at a time. Messages carry when they were handed over; how far
behind its schedule that was is told apart, so that a run in which this process was slow can be thrown away. A server
that has too much may end connections: what these had yet to carry never comes.
"""

import selectors
import socket
import struct
import sys
import time
from collections import deque

import msgspec
import numpy as np
from numpy.typing import NDArray

from nearcast.fleet.cpu import used_s
from nearcast.lab.live.flood import Wire, connected, wire_of
from nearcast.transport.endpoint import Endpoint

STAMP_BYTES = 8
_STAMP = struct.Struct("<d")
_END = 2  # bytes behind the payload
_READ_BYTES = 1 << 18
_WAIT_S = 0.01
_DRAIN_S = 1.0


class Traffic(msgspec.Struct, frozen=True):
    """`publishers` and `subscribers` of each topic, each with its own connection; `rate_hz` of each publisher.

    `pid`: of the server, if its processor time can be seen.
    """

    kind: str
    host: str
    port: int
    topics: int
    publishers: int
    subscribers: int
    size_bytes: int
    rate_hz: float
    warm_up_s: float
    seconds: float
    seed: int
    pid: int | None = None


class Heard(msgspec.Struct, frozen=True):
    """Of what was handed over after the warm-up. What never came counts as late as it was when it was given up.

    `late_ms`: how far this process was behind its schedule, of 95 in 100 messages.
    """

    expected: int
    delivered: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    late_ms: float
    cores: float | None


class _Run:
    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        endpoint = Endpoint(traffic.kind, traffic.host, traffic.port)
        names = [b"bench.%04d" % number for number in range(traffic.topics)]
        wires = [wire_of(traffic.kind, traffic.size_bytes, name) for name in names]
        self._sockets: list[socket.socket] = []
        self._readers: dict[socket.socket, _Reader] = {}
        self._writers: list[_Writer] = []
        self._selector = selectors.DefaultSelector()
        try:
            for wire in wires:
                for _ in range(traffic.subscribers):
                    made = connected(endpoint, wire, wire.subscribe, wire.subscribed)
                    self._sockets.append(made)
                    self._readers[made] = _Reader(made, wire, traffic.size_bytes)
                for _ in range(traffic.publishers):
                    made = connected(endpoint, wire, b"PING\r\n", b"PONG\r\n")
                    self._sockets.append(made)
                    self._writers.append(_Writer(made, wire, traffic.size_bytes))
            for each in self._sockets:
                self._selector.register(each, selectors.EVENT_READ)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self._selector.close()

    def play(self) -> Heard:
        traffic = self._traffic
        chance = np.random.default_rng(traffic.seed)
        total_hz = traffic.rate_hz * len(self._writers)
        number = max(1, round(total_hz * (traffic.warm_up_s + traffic.seconds)))
        due_s = np.sort(chance.uniform(0.0, traffic.warm_up_s + traffic.seconds, number)) + time.monotonic() + 0.02
        who = chance.integers(0, len(self._writers), number).tolist()
        from_s = float(due_s[0]) + traffic.warm_up_s
        late_s = self._send(due_s.tolist(), who, from_s)
        expected = len(late_s) * traffic.subscribers
        took_s, delivered = self._drain(from_s, expected)
        p50, p95, p99 = (1e3 * np.percentile(took_s, (50, 95, 99))).tolist() if len(took_s) else (0.0, 0.0, 0.0)
        late_ms = 1e3 * float(np.percentile(late_s, 95)) if late_s else 0.0
        return Heard(expected, delivered, p50, p95, p99, late_ms, self._cores)

    def _send(self, due_s: list[float], who: list[int], from_s: float) -> list[float]:
        """How late each was, from the end of the warm-up on."""
        late_s: list[float] = []
        cpu: tuple[float, float] | None = None
        at, number = 0, len(due_s)
        while at < number:
            now_s = time.monotonic()
            if cpu is None and now_s >= from_s:
                cpu = self._used(now_s)
            while at < number and due_s[at] <= now_s:
                self._writers[who[at]].send(now_s)
                if now_s >= from_s:
                    late_s.append(now_s - due_s[at])
                at += 1
            self._turn(due_s[at] - now_s if at < number else 0.0)
        ended = self._used(time.monotonic())
        known = self._traffic.pid is not None and cpu is not None and ended[0] > cpu[0]
        self._cores = (ended[1] - cpu[1]) / (ended[0] - cpu[0]) if known and cpu is not None else None
        return late_s

    def _drain(self, from_s: float, expected: int) -> tuple[NDArray[np.float64], int]:
        until_s = time.monotonic() + _DRAIN_S
        while True:
            took_s = self._took(from_s)
            if len(took_s) >= expected or time.monotonic() >= until_s:
                break
            self._turn(_WAIT_S)
        missing = max(0, expected - len(took_s))
        return np.concatenate((took_s, np.full(missing, _DRAIN_S + self._traffic.seconds / 2))), len(took_s)

    def _took(self, from_s: float) -> NDArray[np.float64]:
        whole = [part for reader in self._readers.values() for part in reader.heard]
        stamps, at_s = (np.concatenate([part[side] for part in whole] or [np.zeros(0)]) for side in (0, 1))
        return np.asarray((at_s - stamps)[stamps >= from_s])

    def _turn(self, wait_s: float) -> None:
        for writer in self._writers:
            if writer.waiting:
                writer.flush()
        for key, _ in self._selector.select(max(0.0, min(wait_s, _WAIT_S))):
            assert isinstance(key.fileobj, socket.socket)
            reader = self._readers.get(key.fileobj)
            try:
                going = reader.read() if reader is not None else bool(key.fileobj.recv(_READ_BYTES))
            except ConnectionError:
                going = False
            if not going:
                self._selector.unregister(key.fileobj)

    def _used(self, now_s: float) -> tuple[float, float]:
        return now_s, used_s(self._traffic.pid) if self._traffic.pid is not None else 0.0


class _Writer:
    def __init__(self, to: socket.socket, wire: Wire, size_bytes: int) -> None:
        self._to = to
        self._head = wire.message[: -(size_bytes + _END)]
        self._tail = wire.message[-(size_bytes + _END) + STAMP_BYTES :]
        self.waiting: deque[memoryview] = deque()
        self._ended = False

    def send(self, now_s: float) -> None:
        if self._ended:
            return
        self.waiting.append(memoryview(self._head + _STAMP.pack(now_s) + self._tail))
        self.flush()

    def flush(self) -> None:
        """As far as the server takes it."""
        try:
            while self.waiting:
                sent = self._to.send(self.waiting[0])
                if sent == len(self.waiting[0]):
                    self.waiting.popleft()
                else:
                    self.waiting[0] = self.waiting[0][sent:]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._ended = True
            self.waiting.clear()


class _Reader:
    """`heard`: pairs of when messages were handed over and when they came."""

    def __init__(self, of: socket.socket, wire: Wire, size_bytes: int) -> None:
        self._of = of
        self._frame = wire.heard_bytes
        self._stamp = wire.heard_bytes - size_bytes - _END
        self._first = b"*"[0] if wire.message.startswith(b"*") else b"M"[0]
        self._rest = b""
        self.heard: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []

    def read(self) -> bool:
        """False, or ConnectionError, when the server has ended the connection."""
        data = self._of.recv(_READ_BYTES)
        if not data:
            return False
        now_s = time.monotonic()
        data = self._rest + data
        while len(data) >= self._frame or (data and data[0] != self._first):
            count = len(data) // self._frame
            frames = np.frombuffer(data, dtype=np.uint8, count=count * self._frame).reshape(count, self._frame)
            other = np.flatnonzero(frames[:, 0] != self._first)
            count = int(other[0]) if len(other) else count
            if count:
                stamps = frames[:count, self._stamp : self._stamp + STAMP_BYTES].copy().view("<f8")[:, 0]
                self.heard.append((stamps, np.full(count, now_s)))
                data = data[count * self._frame :]
            elif (end := data.find(b"\r\n")) >= 0:  # NATS asks whether we are still there, or says something
                if data.startswith(b"PING"):
                    self._of.send(b"PONG\r\n")
                data = data[end + 2 :]
            else:
                break
        self._rest = data
        return True


def play(traffic: Traffic) -> Heard:
    """OSError when the server takes no connection."""
    run = _Run(traffic)
    try:
        return run.play()
    finally:
        run.close()


def main() -> None:
    orders = msgspec.json.Decoder(Traffic)
    for line in sys.stdin:
        sys.stdout.write(msgspec.json.encode(play(orders.decode(line))).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
