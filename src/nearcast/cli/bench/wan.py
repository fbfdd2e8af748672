"""`nearcast bench wan`."""

import asyncio
import gc
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, cast

import numpy as np
import typer
import uvloop

from nearcast.cli.output import print_json, print_table
from nearcast.domain.errors import FleetError
from nearcast.fleet.commands import CommandSpec
from nearcast.fleet.ports import HOST, free_port
from nearcast.fleet.servers import ServerSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.supervisor import Supervisor
from nearcast.fleet.timer import Timers
from nearcast.fleet.wan_main import WanLink, WanPlan
from nearcast.transport.endpoint import NATS, Endpoint

_DELAY_S = 0.02
_SIZE_BYTES = 200
_STAMP = struct.Struct("<qd")
_PADDING = bytes(_SIZE_BYTES - _STAMP.size)
_TURN_S = 0.25  # short, so that what else the machine does falls on both ways alike
_WARM_UP_S = 0.5
_DRAIN_S = 5.0
_QUANTILES = (50, 90, 99)


@dataclass(frozen=True, slots=True)
class Round:
    """Milliseconds: sent by schedule until received, without the asked delay.

    `added` is the difference of the two quantiles, not a quantile of differences: on a busy machine it may be negative.
    """

    direct: dict[str, float]
    emulated: dict[str, float]
    added: dict[str, float]


def bench_wan(
    *,
    rate: Annotated[int, typer.Option(min=1, help="Messages per second.")] = 5000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure, per way and round.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure what the WAN emulator adds beyond the delay that it is asked for.

    Messages of 200 bytes go to a real NATS server, directly and through an emulator process with a delay of 20 ms, by
    turns; a subscriber beside the server takes the time. Each message counts from the time at which it should have
    been sent, also when the sender was late.
    """
    found = uvloop.run(_measure(rate, seconds, rounds))
    spread = {
        key: {"median": median(values), "min": min(values), "max": max(values)}
        for key in found[0].added
        for values in [[each.added[key] for each in found]]
    }
    if as_json:
        facts = {"rate_hz": rate, "seconds": seconds, "size_bytes": _SIZE_BYTES, "delay_ms": _DELAY_S * 1e3}
        print_json({**facts, "rounds": [asdict(each) for each in found], "added": spread})
        return
    print(f"{rate:,} messages of {_SIZE_BYTES} B a second, {seconds:g} s per way; milliseconds without the asked delay")
    rows = [
        (str(number), way, *(f"{value:.2f}" for value in quantiles.values()))
        for number, each in enumerate(found, 1)
        for way, quantiles in asdict(each).items()
    ]
    print_table(("round", "way", *spread), rows)
    for key, over in spread.items():
        print(f"added {key}: {over['median']:.2f} ms ({over['min']:.2f} to {over['max']:.2f} over {rounds} rounds)")


async def _measure(rate: int, seconds: float, rounds: int) -> list[Round]:
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name:
        state = Path(name)
        async with Supervisor(state) as fleet:
            server = await fleet.start(ServerSpec(NATS, "nats"))
            link = WanLink("far", "nats", server.url, free_port(), Shape(_DELAY_S))
            plan = state / "wan.json"
            WanPlan((link,), str(state / "wan.sock")).write(plan)
            await fleet.start(CommandSpec("wan", "wan", (sys.executable, "-m", "nearcast.fleet.wan_main", str(plan))))
            relayed = Endpoint(NATS, HOST, link.port)
            return [await _round(server.endpoint, relayed, rate, seconds) for _ in range(rounds)]


async def _round(server: Endpoint, relayed: Endpoint, rate: int, seconds: float) -> Round:
    direct, emulated = await _latencies_ms(server, (server, relayed), rate, seconds)
    pairs = zip(_QUANTILES, np.percentile(direct, _QUANTILES), np.percentile(emulated, _QUANTILES), strict=True)
    quantiles = {f"p{quantile}": (round(float(one), 3), round(float(other), 3)) for quantile, one, other in pairs}
    return Round(
        {key: one for key, (one, _) in quantiles.items()},
        {key: other for key, (_, other) in quantiles.items()},
        {key: round(other - one, 3) for key, (one, other) in quantiles.items()},
    )


async def _latencies_ms(
    server: Endpoint, ways: tuple[Endpoint, Endpoint], rate: int, seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Over both ways by turns, each without its asked delay. Raises FleetError when a message is missing."""
    subscriber = await _Client.connect(server)
    publishers = [await _Client.connect(way) for way in ways]
    await subscriber.say(b"SUB wan 1\r\n")
    for publisher in publishers:
        await publisher.say(b"")
    count = int(rate * (2 * seconds + _WARM_UP_S))
    turn = max(1, int(rate * _TURN_S))
    gc.collect()
    gc.disable()
    try:
        with _Pacer(rate, count, lambda number, at_s: publishers[number // turn % 2].publish(number, at_s)):
            async with asyncio.timeout(2 * seconds + _WARM_UP_S + _DRAIN_S):
                await subscriber.receive(count)
    except TimeoutError:
        raise FleetError(f"bench wan: {len(subscriber.received)} of {count} messages arrived in time") from None
    finally:
        gc.enable()
        for client in (subscriber, *publishers):
            client.transport.abort()
    numbers, took_s = np.array(subscriber.received).T
    measured = numbers >= rate * _WARM_UP_S
    emulated = numbers // turn % 2 == 1
    return took_s[measured & ~emulated] * 1e3, (took_s[measured & emulated] - _DELAY_S) * 1e3


class _Pacer:
    """Calls `send(number, at_s)` for each message at its time, or as soon after as this process gets to it."""

    def __init__(self, rate: int, count: int, send: Callable[[int, float], None]) -> None:
        self._timers = Timers()
        self._rate = rate
        self._count = count
        self._send = send
        self._sent = 0
        self._start_s = time.monotonic() + 0.01
        self._timers.call_at(self._start_s, self._go_on)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_error: object) -> None:
        self._timers.close()

    def _go_on(self, now_s: float) -> None:
        due = min(self._count, int((now_s - self._start_s) * self._rate) + 1)
        for number in range(self._sent, due):
            self._send(number, self._start_s + number / self._rate)
        self._sent = due
        if due < self._count:
            self._timers.call_at(self._start_s + due / self._rate, self._go_on)


class _Client(asyncio.Protocol):
    """As little NATS as it takes, so that the client's own cost does not hide what is measured."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received: list[tuple[int, float]] = []  # a message's number, and how long it took
        self._buffer = b""
        self._wanted: Callable[[], bool] = lambda: False
        self._reached = asyncio.Event()
        self._answers = 0

    @classmethod
    async def connect(cls, at: Endpoint) -> "_Client":
        _, client = await asyncio.get_running_loop().create_connection(cls, at.host, at.port)
        return client

    def publish(self, number: int, at_s: float) -> None:
        self.transport.write(b"PUB wan %d\r\n%b%b\r\n" % (_SIZE_BYTES, _STAMP.pack(number, at_s), _PADDING))

    async def say(self, line: bytes) -> None:
        """Return when the server has taken it."""
        answers = self._answers
        self.transport.write(line + b"PING\r\n")
        await self._until(lambda: self._answers > answers)

    async def receive(self, count: int) -> None:
        await self._until(lambda: len(self.received) >= count)

    async def _until(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted
        self._reached.clear()
        await self._reached.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"0"}\r\n')

    def data_received(self, data: bytes) -> None:
        now_s = time.monotonic()
        data = self._buffer + data
        at = 0
        while (end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"MSG", at):
                following = end + 2 + _SIZE_BYTES + 2
                if following > len(data):
                    break
                number, at_s = _STAMP.unpack_from(data, end + 2)
                self.received.append((number, now_s - at_s))
            else:
                following = end + 2
                if data.startswith(b"PING", at):
                    self.transport.write(b"PONG\r\n")
                elif data.startswith(b"PONG", at):
                    self._answers += 1
            at = following
        self._buffer = data[at:]
        if self._wanted():
            self._reached.set()
