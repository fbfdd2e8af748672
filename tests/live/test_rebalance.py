"""An operator's view of rebalancing, on real servers under traffic."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from nearcast.client import open_client
from nearcast.domain.message import Message
from nearcast.transport.config import load_config
from tests.live.conftest import Fleet

CAPACITY = 60_000
RATE = 20.0
SIZE = 500


@pytest.fixture
def small(tmp_path: Path, kind: str) -> Iterator[Fleet]:
    """Servers that can send little."""
    fleet = Fleet(tmp_path, "--brokers", kind, "--capacity", str(CAPACITY))
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


async def traffic(config: Path, topics: list[str], over: asyncio.Event, got: list[Message]) -> None:
    """One publisher and one subscriber per topic; a second more until what was sent last has come."""
    loaded = load_config(config)
    sent = 0
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(open_client(loaded, name="listener"))
        sender = await stack.enter_async_context(open_client(loaded, name="sender"))
        for topic in topics:
            await listener.subscribe(topic, got.append)
        while not over.is_set():
            for topic in topics:
                await sender.publish(topic, bytes(SIZE))
                sent += 1
            await asyncio.sleep(1 / RATE)
        async with asyncio.timeout(10):
            while len(got) < sent:  # noqa: ASYNC110  # what comes over the network sets no event
                await asyncio.sleep(0.05)
    assert len(got) == sent
    by_publisher: dict[tuple[str, int], list[int]] = {}
    for message in got:
        by_publisher.setdefault((message.topic, message.publisher), []).append(message.seq)
    assert all(seqs == list(range(1, len(seqs) + 1)) for seqs in by_publisher.values())


def test_what_would_move_is_shown_with_its_reason_and_moved_when_it_is_applied(small: Fleet) -> None:
    ring = load_config(small.config).ring
    topics = [topic for topic in map("room{}".format, range(200)) if ring.owner(topic) == "b1"][:5]

    async def scenario() -> tuple[Any, Any]:
        over, got = asyncio.Event(), list[Message]()
        flowing = asyncio.create_task(traffic(small.config, topics, over, got))
        try:
            until_s = time.monotonic() + 30
            while not (shown := await ask("rebalance", "plan", "--json"))["steps"]:
                assert time.monotonic() < until_s, shown
                await asyncio.sleep(0.5)
            done = await ask("rebalance", "apply", str(shown["plan"]), "--wait", "--json")
        finally:
            over.set()
        await flowing
        return shown, done

    async def ask(*arguments: str) -> Any:
        result = await asyncio.to_thread(small.run, *arguments)
        assert result.code == 0, result
        return result.json

    shown, done = asyncio.run(scenario())
    assert all(step["was_brokers"] == ["b1"] and step["reason"] for step in shown["steps"])
    assert (done["plan"], done["state"], done["counts"]["done"]) == (shown["plan"], "done", len(shown["steps"]))
    for step in shown["steps"]:
        found = small.run("topic", "show", step["topic"], "--json").json
        assert found["brokers"] == step["brokers"], found
    again = small.run("rebalance", "stop")
    assert (again.code, "no plan is being carried out" in again.err) == (1, True)
    assert "plan 999 is not known to this leader" in small.run("rebalance", "apply", "999").err
