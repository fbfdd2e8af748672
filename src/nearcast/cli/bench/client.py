"""`nearcast bench client`."""

import asyncio
import contextlib
import enum
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Annotated, TypeVar

import msgspec
import typer
import uvloop

from nearcast.cli.bench.client_ends import SIZE_BYTES, WINDOW, Collect, Collected, Flood, Job, Pace, Sent
from nearcast.cli.bench.client_sides import Style, Where
from nearcast.cli.output import HOLDS, print_json, print_table
from nearcast.domain.errors import FleetError
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.transport.config import load_config
from nearcast.transport.endpoint import NATS, REDIS

_T = TypeVar("_T")

RATES_HZ = {1: 500.0, 50: 50.0}  # fan-out -> how fast messages are sent while latencies are taken
LEAST_THROUGHPUT = {Style.ITERATOR: 1.0, Style.CALLBACK: 0.75}
MOST_LATENCY = 1.15
CALLBACK_AIM = 0.9
# By a profile of both processes: receiving costs less than in nats-py, and with one subscriber the publisher decides.
_WHAT_IT_TAKES = (
    "It would take a publish() as cheap as nats-py's, which takes two thirds of the time: ask whether the route may be"
    " used once per turn of the event loop and not per message, and write the header straight into the server's"
    " command, without an envelope and an instruction in between"
)
_WARM_UP_S = 0.3
_ANSWER_S = 30.0


class Brokers(enum.StrEnum):
    NATS = "nats"
    REDIS = "redis"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one side in one round. Only what was delivered counts; `dropped` is what was published and never came."""

    delivered_hz: float
    latency_ms: float
    late_ms: float  # how far the publisher was behind its schedule when it sent, within `latency_ms`
    dropped: int


@dataclass(frozen=True, slots=True)
class Round:
    raw: Figures
    nearcast: Figures

    @property
    def throughput(self) -> float:
        return self.nearcast.delivered_hz / self.raw.delivered_hz

    @property
    def latency(self) -> float:
        return self.nearcast.latency_ms / self.raw.latency_ms


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    style: Style
    fan_out: int

    def __str__(self) -> str:
        return f"{self.kind}, {self.style}, fan-out {self.fan_out}"


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    min: float
    max: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.min:.2f} to {self.max:.2f})"


@dataclass(frozen=True, slots=True)
class Summary:
    """Ratios are nearcast's figure divided by the raw client's. The median decides whether a goal is met."""

    case: Case
    throughput: Spread
    throughput_goal: float
    throughput_met: bool
    latency: Spread
    latency_goal: float
    latency_met: bool
    rounds: list[Round]


def bench_client(
    *,
    brokers: Annotated[Brokers, typer.Option(help="Which servers.")] = Brokers.BOTH,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure, per side, figure and round.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure nearcast's client against nats-py and redis-py at the same server.

    Iterator against iterator and callback against callback, messages of 1 kB to 1 and to 50 subscribers. One process
    publishes and one has all subscribers, each with its own connection. Both sides take turns within every round.
    Ratios are nearcast's figure divided by the raw client's.
    """
    kinds = (NATS, REDIS) if brokers is Brokers.BOTH else (brokers.value,)
    found: dict[Case, list[Round]] = {}
    for kind in kinds:
        found |= uvloop.run(_measure(kind, rounds, seconds))
    rows = [summary(case, each) for case, each in found.items()]
    if as_json:
        facts = {"size_bytes": SIZE_BYTES, "window": WINDOW, "seconds": seconds, "rounds": rounds}
        rates = {str(fan_out): rate_hz for fan_out, rate_hz in RATES_HZ.items()}
        print_json({**facts, "latency_rates_hz": rates, "cases": rows, "notes": notes(rows)})
        return
    print(f"{SIZE_BYTES} B, {rounds} rounds, {seconds:g} s each; ratios are nearcast / raw: median (min to max)")
    _print_rows(rows)
    for note in notes(rows):
        print(note)


# Measuring


async def _measure(kind: str, rounds: int, seconds: float) -> dict[Case, list[Round]]:
    cases = [Case(kind, style, fan_out) for fan_out, style in product(RATES_HZ, Style)]
    found: dict[Case, list[Round]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name:
        async with Supervisor(Path(name)) as fleet:
            config = await launch(fleet, LocalSpec(sites=1, kind=kind, coordinators=1, secure=False))
            url = load_config(config).endpoints("")("b1").url
            for number, case in product(range(rounds), cases):
                raw = Where(kind, url, f"raw.{number}.{case.style}.{case.fan_out}")
                ours = Where(kind, url, f"nearcast.{number}.{case.style}.{case.fan_out}", str(config))
                # Who goes first changes: what else the machine does falls on both alike.
                order = (raw, ours) if number % 2 == 0 else (ours, raw)
                figures = {where: await _figures(where, case, seconds) for where in order}
                found[case].append(Round(figures[raw], figures[ours]))
    return found


async def _figures(where: Where, case: Case, seconds: float) -> Figures:
    rate_hz, within_s = RATES_HZ[case.fan_out], seconds + _ANSWER_S
    one, other = socket.socketpair()
    with one, other:
        async with (
            _process(Job(where, case.fan_out, case.style, one.fileno())) as subscribers,
            _process(Job(where, 0, case.style, other.fileno())) as publisher,
        ):
            await subscribers.answer()
            await publisher.answer()
            warm_up = await publisher.ask(Flood(_WARM_UP_S), Sent, within_s)
            await subscribers.ask(Collect(warm_up.count), Collected, within_s)
            flood = await publisher.ask(Flood(seconds), Sent, within_s)
            flooded = await subscribers.ask(Collect(flood.count), Collected, within_s)
            paced = await publisher.ask(Pace(rate_hz, max(1, int(rate_hz * seconds))), Sent, within_s)
            timed = await subscribers.ask(Collect(paced.count), Collected, within_s)
    if not flooded.delivered or timed.latency_ms is None:
        raise FleetError(f"bench client: nothing arrived on {where.topic} at {where.url}")
    took_s = flooded.last_s - flood.began_s
    dropped = (flood.count + paced.count) * case.fan_out - flooded.delivered - timed.delivered
    return Figures(flooded.delivered / took_s, timed.latency_ms, paced.late_ms, dropped)


class _Process:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._stdout = process.stdout

    async def ask(self, command: Flood | Pace | Collect, answer: type[_T], within_s: float) -> _T:
        self._stdin.write(msgspec.json.encode(command) + b"\n")
        return msgspec.json.decode(await self.answer(within_s), type=answer)

    async def answer(self, within_s: float = _ANSWER_S) -> bytes:
        try:
            line = await asyncio.wait_for(self._stdout.readline(), within_s)
        except TimeoutError:
            line = b""
        if not line:
            raise FleetError("bench client: a measuring process ended, or does not answer; what it said is above")
        return line


@contextlib.asynccontextmanager
async def _process(job: Job) -> AsyncIterator[_Process]:
    """Its first answer says that it is ready to publish, or subscribed. It ends with its input, so with us."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "nearcast.cli.bench.client_ends",
        msgspec.json.encode(job).decode(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        pass_fds=(job.fd,),
    )
    try:
        yield _Process(process)
        assert process.stdin is not None
        process.stdin.close()
        await asyncio.wait_for(process.wait(), _ANSWER_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# Showing


def summary(case: Case, rounds: list[Round]) -> Summary:
    throughput = spread([each.throughput for each in rounds])
    latency = spread([each.latency for each in rounds])
    return Summary(
        case,
        throughput,
        LEAST_THROUGHPUT[case.style],
        throughput.median >= LEAST_THROUGHPUT[case.style],
        latency,
        MOST_LATENCY,
        latency.median <= MOST_LATENCY,
        rounds,
    )


def spread(values: list[float]) -> Spread:
    return Spread(round(median(values), 3), round(min(values), 3), round(max(values), 3))


def _print_rows(rows: list[Summary]) -> None:
    for figure, unit, shown in (("throughput", "msg/s", "{:,.0f}"), ("latency", "ms", "{:.2f}")):
        print(figure)
        print_table(
            ("broker", "style", "fan-out", f"raw {unit}", f"our {unit}", "ratio", "goal", "met"),
            [
                (
                    row.case.kind,
                    row.case.style.value,
                    str(row.case.fan_out),
                    shown.format(median(_figure(each.raw, figure) for each in row.rounds)),
                    shown.format(median(_figure(each.nearcast, figure) for each in row.rounds)),
                    str(row.throughput if figure == "throughput" else row.latency),
                    f">= {row.throughput_goal:g}" if figure == "throughput" else f"<= {row.latency_goal:g}",
                    HOLDS[row.throughput_met if figure == "throughput" else row.latency_met],
                )
                for row in rows
            ],
        )


def _figure(of: Figures, figure: str) -> float:
    return of.delivered_hz if figure == "throughput" else of.latency_ms


def notes(rows: list[Summary]) -> list[str]:
    told = []
    for row in rows:
        for side in ("raw", "nearcast"):
            dropped = sum(getattr(each, side).dropped for each in row.rounds)
            if dropped:
                told.append(f"{row.case}: {side} did not deliver {dropped} of its messages; they do not count")
    if not told:
        told.append("nothing was dropped: all that was published was delivered")
    below = [row for row in rows if row.case.style is Style.CALLBACK and row.throughput.median < CALLBACK_AIM]
    if below:
        told.append(f"below the aim of {CALLBACK_AIM:g}: {'; '.join(str(row.case) for row in below)}. {_WHAT_IT_TAKES}")
    else:
        told.append(f"no callback is below the aim of {CALLBACK_AIM:g} by its median")
    if any(row.case.kind == REDIS for row in rows):
        told.append(
            "redis-py publishes in pipelines of 64 and waits for each: with fan-out 1 it is that which is compared,"
            " with fan-out 50 it is receiving"
        )
    return told
