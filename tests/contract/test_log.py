"""The site of a log, on real servers: append by compare-and-set, one seal, racks, limits, and what is refused."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from nearcast.brokers.log import LogSite
from nearcast.domain.errors import LogDown, LogRefused
from nearcast.domain.log import LogSpec
from nearcast.testing import Server, run_nats, run_nats_cluster, run_redis
from nearcast.transport.clock import SystemClock

P, Q = 7, 8
ONE = LogSpec(1)


@asynccontextmanager
async def site_of(*servers: Server) -> AsyncIterator[LogSite]:
    site = LogSite("b", lambda: [server.endpoint for server in servers], name="test", clock=SystemClock())
    site.start()
    try:
        yield site
    finally:
        await site.close()


async def insist(work: Callable[[], Awaitable[None]]) -> None:
    """A cluster that has just started has no leader yet."""
    until_s = time.monotonic() + 40
    while True:
        try:
            return await work()
        except LogDown:
            if time.monotonic() > until_s:
                raise
            await asyncio.sleep(0.2)


async def test_records_are_appended_behind_their_publishers_last_one_or_not_at_all() -> None:
    async with run_nats(jetstream=True) as server, site_of(server) as site:
        await site.open_segment("S", "t", ONE)
        await site.open_segment("S", "t", ONE)
        assert await site.last("S", P) is None
        assert await site.append("S", P, b"a", 0) == 1
        assert await site.append("S", Q, b"b", 0) == 2
        assert await site.append("S", P, b"c", 0) is None, "there is one already"
        assert await site.append("S", P, b"c", 1) == 3
        found = await site.last("S", P)
        assert found is not None
        assert (found.seq, found.data) == (3, b"c")
        reader = await site.read("S", after=1)
        records = [await reader.next() for _ in range(2)]
        assert [(each.seq, each.publisher, each.data) for each in records if each] == [(2, Q, b"b"), (3, P, b"c")]
        await reader.close()
        of_one = await site.read("S", publisher=P)
        records = [await of_one.next() for _ in range(2)]
        assert [each.seq for each in records if each] == [1, 3]
        await of_one.close()


async def test_a_segment_has_one_mark_and_an_empty_one_ends_at_nothing() -> None:
    async with run_nats(jetstream=True) as server, site_of(server) as site:
        await site.open_segment("S", "t", ONE)
        await site.open_segment("E", "t", ONE)
        await site.append("S", P, b"a", 0)
        assert await site.mark("S") is None
        assert await site.seal("S") == 2
        assert await site.mark("S") == 2
        await site.append("S", P, b"late", 1)
        assert await site.seal("S") == 2
        assert await site.seal("E") == 0
        await site.remove("E")
        await site.remove("E")
        assert await site.state("E") is None
        assert await site.mark("E") is None
        state = await site.state("S")
        assert state is not None
        assert (state.first, state.last) == (1, 3)


async def test_limits_remove_the_oldest_and_can_be_changed() -> None:
    async with run_nats(jetstream=True) as server, site_of(server) as site:
        await site.open_segment("S", "t", LogSpec(1, retain_messages=3))
        after = 0
        for _ in range(5):
            after = await site.append("S", P, b"a", after) or 0
        state = await site.state("S")
        assert state is not None
        assert (state.first, state.last) == (3, 5)
        await site.limit("S", "t", LogSpec(1, retain_messages=1))
        state = await site.state("S")
        assert state is not None
        assert state.records == 1


async def test_a_time_leads_to_the_first_record_that_is_not_older() -> None:
    async with run_nats(jetstream=True) as server, site_of(server) as site:
        await site.open_segment("S", "t", ONE)
        await site.append("S", P, b"a", 0)
        await asyncio.sleep(0.05)
        at_s = time.time()
        await site.append("S", P, b"b", 1)
        assert await site.first_since("S", at_s) == 2
        assert await site.first_since("S", time.time() + 60) is None


async def test_servers_without_jetstream_and_redis_keep_no_logs_and_say_why() -> None:
    async with run_nats() as server, site_of(server) as site:
        with pytest.raises(LogRefused, match="without JetStream"):
            await site.open_segment("S", "t", ONE)
    async with run_nats(jetstream=True) as server, site_of(server) as site:
        with pytest.raises(LogRefused, match="cannot have 3 replicas"):
            await site.open_segment("S", "t", LogSpec(3))
    async with run_redis() as server:
        with pytest.raises(LogRefused, match="Redis cannot confirm that a message is on disk"):
            async with site_of(server):
                pass


async def test_replicas_are_on_distinct_racks() -> None:
    async with run_nats_cluster(servers=4, racks=3) as servers, site_of(*servers) as site:
        await insist(lambda: site.open_segment("S", "t", LogSpec(3)))
        replicas = [each.server for each in await site.replicas("S")]
        assert len(replicas) == 3
        assert not {"nats-1", "nats-4"} <= set(replicas), "they are on the same rack"
    async with run_nats_cluster(servers=3, racks=2) as servers, site_of(*servers) as site:
        with pytest.raises(LogRefused, match="cannot have 3 replicas"):
            await insist(lambda: site.open_segment("S", "t", LogSpec(3)))
