"""Homed topics on real servers with known distances: the leader finds out where clients are and tells them where to be
at home, and they go there under traffic.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from nearcast.client import Client, open_client
from nearcast.sim.check import check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from tests.live.conftest import Fleet, until
from tests.live.test_homes import lead_anew

RELOC = """
[rebalance]
policy = "reloc"
every_s = 2.0
rest_s = 2.0

[homes]
rest_s = 4.0
"""
HOP_MS = 20.0
WITHIN_S = 90.0  # a loaded machine measures what it loads itself with
EVERY_S = 0.1
SITES = {"west": "b1", "east": "b3"}  # of the clients of each topic: the middle one is nobody's


@pytest.fixture
def fleet(tmp_path: Path, kind: str) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, "--brokers", kind, "--sites", "3", "--delay", str(HOP_MS))
    try:
        fleet.until_well()
        lead_anew(fleet, RELOC)
        yield fleet
    finally:
        fleet.stop()


@pytest.mark.slow
def test_clients_follow_the_homes_that_the_leader_tells_them_and_miss_nothing(fleet: Fleet) -> None:
    for topic in SITES:
        fleet.ok("topic", "move", topic, "b1", "b2", "b3", "--strategy", "homed")
    asyncio.run(_live(fleet, load_config(fleet.config)))


async def _live(fleet: Fleet, config: Config) -> None:
    history, over = History(), asyncio.Event()
    recorder = Recorder(history, time.time)

    async def talk(client: Client, topic: str) -> None:
        while not over.is_set():
            await recorder.publish(client, topic, b"m")
            await asyncio.sleep(EVERY_S)

    async with AsyncExitStack() as stack:
        clients: dict[Client, str] = {}
        for topic, near in (each for each in SITES.items() for _ in range(2)):
            client = await stack.enter_async_context(open_client(config, site=config.brokers[near].site))
            client.set_home("b2")
            clients[client] = topic
            await recorder.subscribe(client, topic)
        talking = [asyncio.create_task(talk(client, topic)) for client, topic in clients.items()]
        wanted = [SITES[topic] for topic in clients.values()]
        await until(WITHIN_S, lambda: [each.home for each in clients] == wanted, "not all were told of a near home")
        await _until_routes(fleet, {topic: [broker] for topic, broker in SITES.items()})
        await until(
            20.0, lambda: [_published_at(*each) for each in clients.items()] == wanted, "some publish elsewhere"
        )
        over.set()
        await asyncio.gather(*talking)
        await asyncio.sleep(3.0)
        history.finished(time.time())
    result = check(history, grace_s=5.0)
    assert result.delivered == 2 * result.published > 200
    assert result.clean, result.counts()


def _published_at(client: Client, topic: str) -> str:
    return ", ".join(client.publication(topic).machine.targets)


async def _until_routes(fleet: Fleet, wanted: dict[str, list[str]]) -> None:
    """Topics have left the brokers where nobody is at home any more."""
    until_s = time.monotonic() + 60.0
    while (found := await _routes(fleet, wanted)) != wanted:
        assert time.monotonic() < until_s, found
        await asyncio.sleep(0.5)


async def _routes(fleet: Fleet, topics: dict[str, list[str]]) -> dict[str, Any]:
    shown = await asyncio.to_thread(fleet.run, "topic", "list", "--json")
    assert shown.code == 0, shown
    return {each["topic"]: each["brokers"] for each in shown.json if each["topic"] in topics}
