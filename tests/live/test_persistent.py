"""Persistent topics on real servers: what was acknowledged is there, once, wherever the topic has been meanwhile."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from nearcast.cli.connect import operator_of
from nearcast.client import Client, open_client
from nearcast.domain.errors import ConfigError, LogRefused, MoveRefused, TopicChanged
from nearcast.domain.log import LogSpec, Position
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.route import Strategy
from nearcast.transport.config import Config, load_config
from tests.live.conftest import Fleet

SPEC = LogSpec(3)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two sites, each with a cluster of three servers."""
    fleet = Fleet(tmp_path_factory.mktemp("persistent"), "--sites", "2", "--cluster", "3")
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


def on(fleet: Fleet, test: Callable[[Config], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await test(load_config(fleet.config))

    asyncio.run(limited())


async def keep(config: Config, topic: str, spec: LogSpec = SPEC) -> None:
    """A cluster that has just started has no leader yet."""
    until_s = time.monotonic() + 20
    while True:
        try:
            async with operator_of(config) as operator:
                await operator.status(timeout_s=10)
                await operator.keep(topic, spec)
                return
        except LogRefused:
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(0.2)


async def move(config: Config, topic: str, broker: str) -> None:
    async with operator_of(config) as operator:
        await operator.move(topic, Strategy.SINGLE, (broker,))


async def publish(client: Client, topic: str, first: int, last: int) -> None:
    await asyncio.gather(*(client.publish(topic, str(number).encode()) for number in range(first, last + 1)))


async def take(client: Client, topic: str, count: int, since: Position | float | str) -> list[Message]:
    async with await client.subscribe(topic, since=since) as subscription:
        return [await anext(subscription) for _ in range(count)]


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.payload) for message in messages]


def test_what_was_acknowledged_is_read_live_and_again_across_moves(kept: Fleet) -> None:
    async def test(config: Config) -> None:
        await keep(config, "moved")
        got: asyncio.Queue[Message] = asyncio.Queue()
        async with open_client(config) as sender, open_client(config) as receiver:
            await receiver.subscribe("moved", got.put_nowait)
            await publish(sender, "moved", 1, 50)
            for number, broker in enumerate(("b1", "b2", "b1"), 1):
                await move(config, "moved", broker)
                await publish(sender, "moved", 50 * number + 1, 50 * number + 50)
            live = [await got.get() for _ in range(200)]
            assert numbers(live) == list(range(1, 201))
            async with open_client(config) as later:
                assert numbers(await take(later, "moved", 200, "first")) == list(range(1, 201))
            assert live[79].position is not None
            async with open_client(config) as later:
                assert numbers(await take(later, "moved", 120, live[79].position)) == list(range(81, 201))

    on(kept, test)


def test_a_reader_begins_at_a_time_or_with_what_is_new(kept: Fleet) -> None:
    async def test(config: Config) -> None:
        await keep(config, "timed")
        async with open_client(config) as sender, open_client(config) as old, open_client(config) as new:
            await publish(sender, "timed", 1, 5)
            await asyncio.sleep(0.05)
            between_s = time.time()
            await publish(sender, "timed", 6, 9)
            assert numbers(await take(old, "timed", 4, between_s)) == [6, 7, 8, 9]
            async with await new.subscribe("timed") as subscription:
                await publish(sender, "timed", 10, 10)
                assert numbers([await anext(subscription)]) == [10]

    on(kept, test)


def test_a_killed_server_loses_nothing_that_was_acknowledged(kept: Fleet) -> None:
    async def test(config: Config) -> None:
        await keep(config, "killed")
        got: asyncio.Queue[Message] = asyncio.Queue()
        reports: list[Gap | Discontinuity] = []
        async with open_client(config) as sender, open_client(config) as receiver:
            await receiver.subscribe("killed", got.put_nowait, on_report=reports.append)
            await publish(sender, "killed", 1, 20)
            os.kill(kept.children()[config.ring.owner("killed")], signal.SIGKILL)
            await publish(sender, "killed", 21, 40)
            assert numbers([await got.get() for _ in range(40)]) == list(range(1, 41))
            assert not reports
            async with open_client(config) as later:
                assert numbers(await take(later, "killed", 40, "first")) == list(range(1, 41))

    on(kept, test)
    kept.until_well()


ONCE = [b"%d" % number for number in range(100_000)]
PUBLISH_ONCE = """
import asyncio, sys
from pathlib import Path
from nearcast.client import open_client
from tests.live.test_persistent import ONCE

async def main():
    async with open_client(Path(sys.argv[1])) as client:
        await client.publish_once("once", ONCE, name="it")

asyncio.run(main())
"""


def test_what_is_published_once_is_there_once_although_its_publisher_is_killed_halfway(kept: Fleet) -> None:
    async def written(config: Config) -> int:
        async with open_client(config) as client:
            return sum((await (await client.view("once")).lasts()).values())

    async def test(config: Config) -> None:
        await keep(config, "once")
        for broker in ("b1", "b2"):
            enough = await written(config) + 3
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", PUBLISH_ONCE, str(kept.config))
            while await written(config) < enough:
                assert child.returncode is None
            child.kill()
            await child.wait()
            await move(config, "once", broker)
        before = await written(config)
        async with open_client(config) as client:
            with pytest.raises(LogRefused, match="not among these 7: what is published again must be the same"):
                await client.publish_once("once", ONCE[:7], name="it")
            await client.publish_once("once", ONCE[::-1], name="it")
            assert await written(config) > before > 6, "some were there, some were not"
            await client.publish_once("once", ONCE, name="it")
        async with open_client(config) as later:
            await later.publish("once", b"-1")
            assert sorted(numbers(await take(later, "once", len(ONCE) + 1, "first"))) == list(range(-1, len(ONCE)))

    on(kept, test)


def test_what_cannot_be_kept_is_refused_with_the_reason(kept: Fleet) -> None:
    async def test(config: Config) -> None:
        with pytest.raises(ConfigError, match="replicas is 2; expected 1, 3, 5"):
            LogSpec(2)
        with pytest.raises(ConfigError, match="quorum is 3; with 3 replicas it is 2"):
            SPEC.must_be_quorum(3)
        async with operator_of(config) as operator, open_client(config) as client:
            await operator.status(timeout_s=10)
            with pytest.raises(LogRefused, match="5 replicas at broker"):
                await operator.keep("five", LogSpec(5))
            with pytest.raises(ConfigError, match="not persistent: nothing is kept"):
                await client.subscribe("plain", since="first")
            await keep(config, "single")
            with pytest.raises(MoveRefused, match="its log is written at one broker"):
                await operator.move("single", Strategy.ALL_PUBLISHERS, ("b1", "b2"))

    on(kept, test)


def test_a_topic_in_use_becomes_persistent_and_says_so_to_who_was_subscribed(kept: Fleet) -> None:
    async def test(config: Config) -> None:
        async with open_client(config) as sender, open_client(config) as receiver:
            subscription = await receiver.subscribe("converted")
            await sender.publish("converted", b"1")
            assert numbers([await anext(subscription)]) == [1]
            await keep(config, "converted")
            with pytest.raises(TopicChanged):
                await anext(subscription)
            again = await receiver.subscribe("converted", since="first")
            await sender.publish("converted", b"2")
            assert numbers([await anext(again)]) == [2]

    on(kept, test)


def test_a_redis_broker_refuses_persistent_topics_and_says_why(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "--sites", "1", "--brokers", "redis")
    try:
        fleet.until_well()
        refused = fleet.run("topic", "set", "t", "--persistent")
        assert refused.code == 1
        assert "Redis cannot confirm that a message is on disk" in refused.err
        assert fleet.run("topic", "set", "t", "--persistent", "--retain", "soon").code == 1
    finally:
        fleet.stop()


def test_a_slow_reader_is_told_what_retention_removed_and_sub_reads_from_the_first(kept: Fleet) -> None:
    async def test(config: Config) -> None:
        await keep(config, "short", LogSpec(3, retain_messages=2))
        reports: list[Gap | Discontinuity] = []
        async with open_client(config) as sender, open_client(config) as receiver:
            for number in range(1, 4):
                await publish(sender, "short", number, number)
            (oldest, _) = await take(receiver, "short", 2, "first")
            assert int(oldest.payload) == 2, "two records are kept"
            for number in range(4, 8):
                await publish(sender, "short", number, number)
            assert oldest.position is not None
            later = await receiver.subscribe("short", since=oldest.position, on_report=reports.append)
            assert numbers([await anext(later), await anext(later)]) == [6, 7]
            assert [type(report) for report in reports] == [Discontinuity]

    on(kept, test)
    shown = kept.run("sub", "short", "--since", "first", "--count", "2")
    assert shown.out.split() == ["6", "7"]
    assert "2 of 3 replicas acknowledge" in kept.run("topic", "show", "short").out
