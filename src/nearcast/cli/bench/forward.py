"""`nearcast bench forward`."""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.cli.bench.client import Brokers, Spread, spread
from nearcast.cli.connect import operator_of
from nearcast.cli.output import print_json, print_table, show_rate
from nearcast.domain.errors import FleetError
from nearcast.domain.route import Strategy
from nearcast.fleet.cpu import used_s
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.lab.live.led import until_led
from nearcast.transport.config import Config, load_config
from nearcast.transport.endpoint import NATS, REDIS

SIZES_BYTES = (100, 16_000)
_TAG = b"carried!"  # how each message ends, whatever was put before it
_MOST_MESSAGES, _MOST_BYTES = 512, 1 << 20  # under way at a time: nothing is dropped, and nobody waits for nothing
_WARM_UP_S = 0.5
_STALLED_S = 30.0
_FROM, _TO = "b1", "b2"


@dataclass(frozen=True, slots=True)
class Round:
    """Messages a second from one server to the other, and how many processors the agent took meanwhile.

    `direct_hz`: the same process through one server alone. Where that is not well above, the agent was not the limit.
    """

    forwarded_hz: float
    agent_cores: float
    direct_hz: float


@dataclass(frozen=True, slots=True)
class Summary:
    """`per_core_hz`: messages per second of the agent's own processor time; what else the machine does is not in it."""

    kind: str
    size_bytes: int
    forwarded_hz: Spread
    bytes_per_s: Spread
    per_core_hz: Spread
    direct_hz: Spread
    rounds: list[Round]


def bench_forward(
    *,
    brokers: Annotated[Brokers, typer.Option(help="Which servers.")] = Brokers.BOTH,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 5,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long to measure, per size, way and round.")] = 3.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure how much one agent can forward from its server to another while a topic moves.

    A topic has moved from one real server to another, and a plain publisher stays on the old one: its messages, of
    100 B and of 16 kB, are forwarded for ever. As many are under way as the servers keep without dropping one.
    """
    kinds = (NATS, REDIS) if brokers is Brokers.BOTH else (brokers.value,)
    rows = [row for kind in kinds for row in uvloop.run(_measure(kind, rounds, seconds))]
    if as_json:
        print_json({"seconds": seconds, "rounds": rounds, "cases": rows})
        return
    print(f"{rounds} rounds, {seconds:g} s each: median (min to max)")
    print_table(
        ("broker", "size", "forwarded msg/s", "forwarded", "per processor of the agent", "without it, msg/s"),
        [
            (
                row.kind,
                f"{row.size_bytes:,} B",
                _shown(row.forwarded_hz),
                show_rate(row.bytes_per_s.median),
                f"{_shown(row.per_core_hz)} msg/s",
                _shown(row.direct_hz),
            )
            for row in rows
        ],
    )
    print("Policies keep moves below `forward_messages_per_s` and `forward_bytes_per_s` ([rebalance] in the file).")


def summary(kind: str, size_bytes: int, rounds: list[Round]) -> Summary:
    return Summary(
        kind,
        size_bytes,
        spread([each.forwarded_hz for each in rounds]),
        spread([each.forwarded_hz * size_bytes for each in rounds]),
        spread([each.forwarded_hz / max(each.agent_cores, 0.01) for each in rounds]),
        spread([each.direct_hz for each in rounds]),
        rounds,
    )


async def _measure(kind: str, rounds: int, seconds: float) -> list[Summary]:
    found: dict[int, list[Round]] = {size_bytes: [] for size_bytes in SIZES_BYTES}
    with tempfile.TemporaryDirectory(prefix="nearcast-bench-") as name:
        async with Supervisor(Path(name)) as fleet:
            config = load_config(await launch(fleet, LocalSpec(sites=2, kind=kind, coordinators=1)))
            await until_led(config, (_FROM, _TO))
            agent = fleet.child(f"agent-{_FROM}").pid
            connect = connector(config.endpoints(), name="bench")
            old, new = [await connect(broker, lambda _up: None) for broker in (_FROM, _TO)]
            for number, size_bytes in product(range(rounds), SIZES_BYTES):
                topic = f"bench.{number}.{size_bytes}"
                direct_hz, _ = await _pump(Way(old, old, f"{topic}.direct", size_bytes), seconds, agent)
                await _move(config, topic)
                forwarded_hz, cores = await _pump(Way(old, new, topic, size_bytes), seconds, agent)
                found[size_bytes].append(Round(forwarded_hz, cores, direct_hz))
            for link in (old, new):
                await link.close()
    return [summary(kind, size_bytes, each) for size_bytes, each in found.items()]


async def _move(config: Config, topic: str) -> None:
    """To the old server by a route of its own, wherever the ring has it, and from there to the new one."""
    async with operator_of(config) as operator:
        for broker in (_FROM, _TO):
            await operator.move(topic, Strategy.SINGLE, (broker,))


@dataclass(frozen=True, slots=True)
class Way:
    source: Link
    target: Link
    topic: str
    size_bytes: int


async def _pump(way: Way, seconds: float, agent: int) -> tuple[float, float]:
    """Messages a second that come out at the target, with as many under way all the time as may be; and how many
    processors the agent took meanwhile.
    """
    most = min(_MOST_MESSAGES, _MOST_BYTES // way.size_bytes)
    data = bytes(way.size_bytes - len(_TAG)) + _TAG
    sent = came = 0
    room = asyncio.Event()

    def receive(frame: bytes) -> None:
        nonlocal came
        if frame.endswith(_TAG):
            came += 1
            if sent - came <= most // 2:
                room.set()

    async def keep_up(until_s: float) -> None:
        nonlocal sent
        while time.monotonic() < until_s:
            while sent - came < most:
                way.source.publish(way.topic, data)
                sent += 1
            room.clear()
            await asyncio.wait_for(room.wait(), _STALLED_S)

    await way.target.subscribe(way.topic, receive)
    try:
        await keep_up(time.monotonic() + _WARM_UP_S)
        before, began_s, began_cpu_s = came, time.monotonic(), used_s(agent)
        await keep_up(began_s + seconds)
        took_s = time.monotonic() - began_s
        return (came - before) / took_s, (used_s(agent) - began_cpu_s) / took_s
    except TimeoutError as error:
        raise FleetError(f"bench forward: {sent - came} messages on {way.topic} do not come through") from error
    finally:
        await way.target.unsubscribe(way.topic)


def _shown(of: Spread) -> str:
    return f"{of.median:,.0f} ({of.min:,.0f} to {of.max:,.0f})"
