"""What a server's latency follows: traffic of many shapes, one after the other.

The shapes are the OpenMessaging benchmark's: topics, publishers and subscribers of each, sizes and rates, drawn apart
from each other. First the rate is doubled until it is too much; what would be far more than that, or next to nothing,
is drawn again. A run in which the load generator itself was late tells nothing of the server: it is counted, and left
out.
"""

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from nearcast.domain.errors import FleetError
from nearcast.lab.experiment import Progress
from nearcast.lab.knee import best_tellers, knee
from nearcast.lab.live.traffic import Heard, Traffic
from nearcast.transport.endpoint import Endpoint

TOPICS = (1, 2, 4, 8, 16, 32, 64)
PUBLISHERS = (1, 2, 4)
SUBSCRIBERS = (1, 2, 4, 8, 16)
SIZES = (64, 256, 1024, 4096)
RATES_HZ = (1.0, 10_000.0)  # per topic
OUTPUT = "output_rate_hz"

_MOST_CLIENTS = 300
_LEAST, _MOST = 0.002, 1.3  # of what was too much in the first runs; the floor must be seen to see where it ends
_FIRST_HZ, _LAST_HZ = 500.0, 1e6
_MOST_LATE_MS = 100.0
_NEARLY_ALL = 0.99
_LATE_MS = 2.0
_LATE_PART = 0.25
_ANSWER_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """One run. Rates are what was asked for, of all topics together."""

    topics: int
    publishers: int
    subscribers: int
    size_bytes: int
    topic_rate_hz: float
    input_rate_hz: float
    output_rate_hz: float
    input_bytes_per_s: float
    output_bytes_per_s: float
    clients: int
    delivered_ratio: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    late_ms: float
    cores: float | None

    @property
    def told(self) -> bool:
        """Whether the load generator kept up."""
        return self.late_ms <= max(_LATE_MS, _LATE_PART * self.p95_ms)

    @property
    def carried(self) -> bool:
        """Nearly all came, and in time."""
        return self.delivered_ratio >= _NEARLY_ALL and self.p95_ms <= _MOST_LATE_MS


PARAMETERS = (
    "topics",
    "publishers",
    "subscribers",
    "clients",
    "size_bytes",
    "topic_rate_hz",
    "input_rate_hz",
    OUTPUT,
    "input_bytes_per_s",
    "output_bytes_per_s",
)


@dataclass(frozen=True, slots=True)
class Profile:
    """`tellers`: the rank correlation of each parameter with the 95th percentile, the strongest first. `watermark_hz`:
    the output rate at the knee; None where none was found."""

    rows: tuple[Row, ...]
    discarded: int
    limit_hz: float
    tellers: dict[str, float]
    watermark_hz: float | None


def profile_of(rows: Sequence[Row], limit_hz: float) -> Profile:
    told = tuple(row for row in rows if row.told)
    p95_ms = [row.p95_ms for row in told]
    tellers = best_tellers({name: [getattr(row, name) for row in told] for name in PARAMETERS}, p95_ms) if told else {}
    at = knee([row.output_rate_hz for row in told], np.maximum(p95_ms, 1e-3))
    return Profile(told, len(rows) - len(told), limit_hz, tellers, at)


def draw(chance: np.random.Generator, limit_hz: float) -> tuple[int, int, int, int, float]:
    """Topics, publishers and subscribers of each, size, and rate of each publisher."""
    while True:
        topics, publishers = int(chance.choice(TOPICS)), int(chance.choice(PUBLISHERS))
        subscribers, size_bytes = int(chance.choice(SUBSCRIBERS)), int(chance.choice(SIZES))
        rate_hz = math.exp(chance.uniform(math.log(RATES_HZ[0]), math.log(RATES_HZ[1])))
        few = topics * (publishers + subscribers) <= _MOST_CLIENTS
        if few and _LEAST * limit_hz <= topics * subscribers * rate_hz <= _MOST * limit_hz:
            return topics, publishers, subscribers, size_bytes, rate_hz / publishers


async def measure(
    endpoint: Endpoint, *, pid: int | None, for_s: float, run_s: float, seed: int, progress: Progress
) -> Profile:
    """As many runs of `run_s` as `for_s` has room for, and at least one."""
    chance = np.random.default_rng(seed)
    rows: list[Row] = []
    where = (endpoint.kind, endpoint.host, endpoint.port)
    async with _generator() as generator:
        begun_s = time.monotonic()

        async def run(*shape: float) -> Row:
            topics, publishers, subscribers, size_bytes = map(int, shape[:4])
            traffic = Traffic(
                *where, topics, publishers, subscribers, size_bytes, shape[4], run_s / 4, run_s, len(rows) + seed, pid
            )
            heard = await generator.ask(traffic)
            progress(int(min(for_s, time.monotonic() - begun_s)), int(for_s), "seconds of traffic")
            return _row(traffic, heard)

        limit_hz = _FIRST_HZ
        while (await run(8, 1, 4, 256, limit_hz / 32)).carried and limit_hz < _LAST_HZ:
            limit_hz *= 2
        while not rows or time.monotonic() < begun_s + for_s:
            rows.append(await run(*draw(chance, limit_hz)))
    return profile_of(rows, limit_hz)


def _row(traffic: Traffic, heard: Heard) -> Row:
    topic_rate_hz = traffic.rate_hz * traffic.publishers
    input_hz = topic_rate_hz * traffic.topics
    output_hz = input_hz * traffic.subscribers
    return Row(
        traffic.topics,
        traffic.publishers,
        traffic.subscribers,
        traffic.size_bytes,
        round(topic_rate_hz, 2),
        round(input_hz, 1),
        round(output_hz, 1),
        round(input_hz * traffic.size_bytes),
        round(output_hz * traffic.size_bytes),
        traffic.topics * (traffic.publishers + traffic.subscribers),
        round(heard.delivered / heard.expected, 4) if heard.expected else 1.0,
        round(heard.p50_ms, 3),
        round(heard.p95_ms, 3),
        round(heard.p99_ms, 3),
        round(heard.late_ms, 3),
        None if heard.cores is None else round(heard.cores, 3),
    )


class _Generator:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    async def ask(self, order: Traffic) -> Heard:
        self._stdin.write(msgspec.json.encode(order) + b"\n")
        try:
            line = await asyncio.wait_for(self._stdout.readline(), _ANSWER_S)
        except TimeoutError:
            line = b""
        if not line:
            raise FleetError("the load generator ended, or does not answer; what it said is above")
        return msgspec.json.decode(line, type=Heard)


@contextlib.asynccontextmanager
async def _generator() -> AsyncIterator[_Generator]:
    """It ends with its input, so with us."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "nearcast.lab.live.traffic",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield _Generator(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
