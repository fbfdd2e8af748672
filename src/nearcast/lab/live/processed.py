"""Publishers and subscribers of processed topics in one process, and how late messages were.

    python -m nearcast.lab.live.processed CONFIG

Takes orders on standard input, one JSON line each, and answers each with one, until the input ends. A topic has as many
publishers as it has messages a second: what one client sends, and when, is what all of them would.
"""

import asyncio
import contextlib
import gc
import struct
import sys
import time
from pathlib import Path

import msgspec
import numpy as np

from nearcast.client import Client, open_client
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.processing import published_s
from nearcast.transport.config import Config, load_config
from nearcast.transport.process import run, say_ready

_HEAD = struct.Struct("<IIq")  # which topic, which message, when it was sent
_AT_ONCE = 24  # clients that subscribe at a time
_FIRST_S = 60.0  # until the first message has come through each processor
_TURN_S = 0.0005  # who is due within it is not waited for
_LAG = 99.0
_MOST_LAG_MS = 5.0
_MOST_STOLEN = 0.02


class Traffic(msgspec.Struct, frozen=True):
    """Of each topic its name, its rate and how many subscribe to it. What was due in the first `warm_up_s` does not
    count; what has not come `drain_s` after the last message is lost."""

    topics: tuple[tuple[str, float, int], ...]
    lasting_s: float
    warm_up_s: float
    drain_s: float
    seed: int
    publisher_hz: float = 1.0
    size_bytes: int = 4096


class Heard(msgspec.Struct, frozen=True):
    """Of each topic what its messages took, at every subscriber. `lag_ms`: how far messages were sent behind their
    schedule, the 99th percentile. `lost`: deliveries that did not come; `reports`: gaps that were told of. `stolen`:
    the part of the time in which the machine's host had a processor that was wanted here."""

    late_ms: tuple[tuple[float, ...], ...]
    lag_ms: float
    lost: int
    reports: int
    stolen: float = 0.0

    @property
    def fault(self) -> str | None:
        """Why this tells nothing of the broker; None where it does."""
        if self.stolen > _MOST_STOLEN:
            return f"the machine's host took {self.stolen:.1%} of a processor"
        if self.lag_ms > _MOST_LAG_MS:
            return f"the load generator was {self.lag_ms:.1f} ms late"
        if self.lost or not all(self.late_ms):
            return f"{self.lost} messages were lost"
        return None


class _Run:
    def __init__(self, config: Config, order: Traffic, number: int) -> None:
        self._config = config
        self._order = order
        self._number = number
        self._clients: list[Client] = []
        self._late_ns: list[list[int]] = [[] for _ in order.topics]
        self._first: list[int] = []  # of each topic the first message that counts
        self._sent = [0] * len(order.topics)
        self._owed = 0  # deliveries
        self._all_came = asyncio.Event()
        self._reports = 0

    async def run(self) -> Heard:
        try:
            await self._subscribe()
            publisher = self._client("publisher")
            await self._come_through(publisher)
            lag_ms = await self._publish(publisher)
            lost = await self._drain()
        finally:
            await asyncio.gather(*(client.close() for client in self._clients))
        late_ms = tuple(tuple((np.array(each) / 1e6).tolist()) for each in self._late_ns)
        return Heard(late_ms, lag_ms, lost, self._reports)

    def _client(self, name: str) -> Client:
        client = open_client(self._config, name=f"{name}-{self._number}-{time.monotonic_ns():x}")
        self._clients.append(client)
        return client

    async def _subscribe(self) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)

        async def listen(topics: list[str], number: int) -> None:
            async with gate:
                client = self._client(f"subscriber{number}")
                for topic in topics:
                    await client.subscribe(topic, self._received, on_report=self._reported)

        most = max(subscribers for _, _, subscribers in self._order.topics)
        at = [[name for name, _, count in self._order.topics if count > number] for number in range(most)]
        await asyncio.gather(*(listen(topics, number) for number, topics in enumerate(at)))

    async def _come_through(self, publisher: Client) -> None:
        """One message on each topic, so that routes are known and processors loaded."""
        self._first = [1 << 31] * len(self._order.topics)
        for at, (name, _, _) in enumerate(self._order.topics):
            await publisher.publish(name, self._payload(at))
        async with asyncio.timeout(_FIRST_S):
            await self._all_came.wait()

    def _payload(self, at: int) -> bytes:
        self._owed += self._order.topics[at][2]
        self._all_came.clear()
        head = _HEAD.pack(at, self._sent[at], time.monotonic_ns())
        self._sent[at] += 1
        return head + bytes(self._order.size_bytes - len(head))

    def _received(self, message: Message) -> None:
        now_ns = time.monotonic_ns()
        at, number, sent_ns = _HEAD.unpack_from(message.payload)
        self._owed -= 1
        if not self._owed:
            self._all_came.set()
        if number >= self._first[at]:
            self._late_ns[at].append(now_ns - sent_ns)

    def _reported(self, _report: Gap | Discontinuity) -> None:
        self._reports += 1

    async def _publish(self, publisher: Client) -> float:
        order, rng = self._order, np.random.default_rng(self._order.seed)
        due_s = [published_s(rate, order.publisher_hz, order.lasting_s, rng) for _, rate, _ in order.topics]
        self._first = [self._sent[at] + int(np.sum(each < order.warm_up_s)) for at, each in enumerate(due_s)]
        when = np.concatenate(due_s)
        whose = np.repeat(np.arange(len(due_s)), [len(each) for each in due_s])
        rank = np.argsort(when, kind="stable")
        begun_s, lag_s = time.monotonic(), []
        names = [name for name, _, _ in order.topics]
        for at_s, at in zip(when[rank].tolist(), whose[rank].tolist(), strict=True):
            if (early_s := begun_s + at_s - time.monotonic()) > _TURN_S:
                await asyncio.sleep(early_s)
            lag_s.append(time.monotonic() - begun_s - at_s)
            await publisher.publish(names[at], self._payload(at))
        await asyncio.sleep(max(0.0, begun_s + order.lasting_s - time.monotonic()))
        return 1e3 * float(np.percentile(np.maximum(lag_s, 0.0), _LAG)) if lag_s else 0.0

    async def _drain(self) -> int:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._order.drain_s):
                await self._all_came.wait()
        return self._owed


async def _serve(config: Config) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    gc.disable()  # a collection in the middle of a run would be measured; between runs it is done by hand
    say_ready()
    number = 0
    while line := await reader.readline():
        heard = await _Run(config, msgspec.json.decode(line, type=Traffic), number).run()
        sys.stdout.write(msgspec.json.encode(heard).decode() + "\n")
        sys.stdout.flush()
        gc.collect()
        number += 1


def main() -> None:
    sys.exit(run(_serve(load_config(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
