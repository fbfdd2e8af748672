"""Real servers with known distances between them: what agents and clients find out, and what the commands say."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nearcast.client import Client, open_client
from nearcast.transport.config import Config, load_config
from tests.live.conftest import Fleet

HOP_MS = 20.0  # one way between neighbouring sites
NEAR_MS = 0.5  # and within one
WITHIN_S = 90.0  # a loaded machine measures what it loads itself with


@pytest.fixture
def fleet(tmp_path: Path, kind: str) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, "--brokers", kind, "--sites", "3", "--delay", str(HOP_MS))
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


def trip_ms(sites: int) -> float:
    """The least that a round trip over so many sites takes."""
    return 2 * (sites * HOP_MS or NEAR_MS)


def close_to(found_ms: float | None, expected_ms: float) -> bool:
    """Within 15 % or 2 ms."""
    return found_ms is not None and abs(found_ms - expected_ms) <= max(0.15 * expected_ms, 2.0)


def is_trip(found_ms: float | None, sites: int) -> bool:
    """Never less than emulated, and not half as much again: a busy machine adds to what it emulates."""
    least_ms = trip_ms(sites)
    return found_ms is not None and least_ms <= found_ms <= 1.5 * least_ms + 5.0


async def ask(fleet: Fleet, *command: str) -> Any:
    found = await asyncio.to_thread(fleet.run, *command, "--json")
    assert found.code == 0, found.err
    return found.json


@asynccontextmanager
async def paced(client: Client, topic: str) -> AsyncIterator[None]:
    async def publish() -> None:
        while True:
            await client.publish(topic, b"x" * 100)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(publish())
    try:
        yield
    finally:
        task.cancel()


def test_distances_clocks_and_latencies_are_what_the_emulator_makes_them(fleet: Fleet, kind: str) -> None:
    assert kind in {"nats", "redis"}
    asyncio.run(found_out(fleet, load_config(fleet.config)))


async def found_out(fleet: Fleet, config: Config) -> None:
    topic = next(f"t{number}" for number in range(100) if config.ring.owner(f"t{number}") == "b1")
    here, there = config.brokers["b1"].site, config.brokers["b2"].site
    async with open_client(config, site=here) as sender, open_client(config, site=there) as receiver:
        await receiver.subscribe(topic, lambda _message: None)
        async with paced(sender, topic):
            until_s = time.monotonic() + WITHIN_S
            while wrong := await what_is_wrong(fleet, topic):
                assert time.monotonic() < until_s, wrong
                await asyncio.sleep(2.0)
        assert sender.time_uncertainty_s() is not None
        assert abs(sender.time_ns() - time.time_ns()) < 50e6, "one machine has one clock"


async def what_is_wrong(fleet: Fleet, topic: str) -> list[object]:
    rows = {row["broker"]: row for row in await ask(fleet, "rtt", "--count", "1")}
    pairs = {(one, each["broker"]): each for one, row in rows.items() for each in row["between"]}
    wrong: list[object] = [sorted(pairs)] if len(pairs) < 6 else []
    for each in pairs.values():  # three sites in a circle: all are neighbours
        measured_ms = each["measured_ms"]
        if not is_trip(measured_ms, 1) or not close_to(each["predicted_ms"], measured_ms):
            wrong.append(each)
    places = [each for each in (await ask(fleet, "topic", "show", topic))["places"] if each["broker"] == "b1"]
    if not places or not places[0]["latencies_ms"]:
        return [*wrong, places]
    (place,) = places
    # From a client at the broker's own site to one at the next: half of either's round trip.
    one_way_ms, p50_ms = place["worst_ms"] / 2, place["latencies_ms"]["p50"]
    if not is_trip(2 * one_way_ms, 1) or not abs(p50_ms - one_way_ms) <= max(0.15 * one_way_ms, 2.0) + 2 * NEAR_MS:
        wrong.append(place)
    clocks = [(each["clock_offset_ms"], each["clock_uncertainty_ms"]) for each in await ask(fleet, "broker", "list")]
    if not all(offset is not None and abs(offset) <= uncertainty + 1.0 for offset, uncertainty in clocks):
        wrong.append(clocks)
    return wrong
