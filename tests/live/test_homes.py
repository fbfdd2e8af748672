"""Homes of subscribers on real servers: a crowd comes to one broker by name, and the leader spreads it."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nearcast.transport.config import load_config
from tests.live.conftest import Fleet, on_nats
from tests.live.test_delivery import Subscriber, Writer, commit, delivering, until_served

HOMES = """
[homes]
policy = "bad-ldm"
every_s = 2.0
rest_s = 5.0

[rebalance.balancing]
beta_bytes_per_s = 10.0
"""
KINDS = ("fire", "flood", "ice")


def lead_anew(fleet: Fleet, settings: str) -> None:
    """Coordinators that are started again read the file as it is then."""
    with fleet.config.open("a") as file:
        file.write(settings)
    for name, pid in fleet.children().items():
        if name.startswith("coordinator"):
            os.kill(pid, signal.SIGTERM)
    fleet.until_well()


def by_broker(found: Any) -> dict[str, int]:
    return {each["broker"]: each["subscribers"] for each in found["brokers"]}


@on_nats
def test_a_crowd_that_comes_to_one_broker_is_spread_and_misses_nothing(fleet: Fleet, tmp_path: Path) -> None:
    lead_anew(fleet, HOMES)

    async def shown() -> Any:
        found = await asyncio.to_thread(fleet.run, "homes", "--json")
        assert found.code == 0, found
        return found.json

    async def until(good: Callable[[Any], bool]) -> Any:
        until_s = time.monotonic() + 60.0
        while not good(found := await shown()):
            assert time.monotonic() < until_s, found
        return found

    async def test() -> None:
        config = load_config(fleet.config)
        crowded = next(iter(config.brokers))
        writer, over = Writer(tmp_path), asyncio.Event()

        async def committing() -> None:
            while not over.is_set():
                await commit(config, writer, every_s=0.05, count=5)

        people = [Subscriber(config, f"person{number}", crowded, KINDS[number % 3]) for number in range(12)]
        async with delivering(config, writer):
            for each in people:
                await each.come()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(committing())
                found = await until(lambda found: min(by_broker(found).values()) > 0 and found["cov"] < 0.3)
                over.set()
            assert (found["subscribers"], found["policy"]) == (12, "bad-ldm")
            await until_served(people, writer)
            await until(lambda found: by_broker(found) == Counter(each.subscription.home for each in people))
            for each in people:
                assert each.had() == each.owed(len(writer.done)), each.values
                assert not each.missed
            text = (await asyncio.to_thread(fleet.run, "homes")).out
            assert "12 subscribers, 3 distinct subscriptions, cov" in text
            assert "last plan (bad-ldm)" in text
            for each in people:
                await each.client.close()

    async def limited() -> None:
        async with asyncio.timeout(150):
            await test()

    asyncio.run(limited())
