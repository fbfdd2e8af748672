"""What real servers say of themselves, and what is made of a server that does not answer."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
import redis.asyncio

from nearcast.agent.analyzer import Analyzer
from nearcast.agent.counters import Counters, NatsCounters, RedisCounters, counters_of
from nearcast.brokers.connect import connector
from nearcast.domain.errors import LinkDown
from nearcast.fleet.cpu import used_s
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import BrokerAt
from nearcast.transport.endpoint import NATS, REDIS
from nearcast.wire.control import client_subject

KINDS = pytest.mark.parametrize("kind", [NATS, REDIS])


@asynccontextmanager
async def served(kind: str, state: Path) -> AsyncIterator[tuple[Server, Counters]]:
    server = await Server.start(ServerSpec(kind, "b1", monitor=kind == NATS), state)
    at = BrokerAt(server.endpoint, "", None, server.monitor_url)
    counters = counters_of(at, agent="agent-b1", clock=SystemClock())
    assert counters is not None
    try:
        yield server, counters
    finally:
        await counters.close()
        await server.kill()


@KINDS
async def test_bytes_that_a_server_takes_and_sends_are_in_its_totals(kind: str, tmp_path: Path) -> None:
    async with served(kind, tmp_path) as (server, counters):
        link = await connector(lambda _broker: server.endpoint, name="alice")("b1", lambda _up: None)
        await link.subscribe("t", lambda _data: None)
        before = await counters.totals()
        for _ in range(100):
            link.publish("t", bytes(1000))
        await link.flush()
        after = await counters.totals()
        await link.close()
    assert 100_000 <= after.out_bytes - before.out_bytes < 130_000
    assert before.in_bytes is not None
    assert after.in_bytes is not None
    assert 100_000 <= after.in_bytes - before.in_bytes < 130_000
    assert after.at_s > before.at_s
    assert after.memory_bytes is not None
    assert 500_000 < after.memory_bytes < 1e9
    if kind == NATS:
        assert after.out_messages is not None
        assert before.out_messages is not None
        assert after.out_messages - before.out_messages == 100


@KINDS
async def test_a_server_that_works_says_how_much_of_a_processor_it_uses(kind: str, tmp_path: Path) -> None:
    """Soon: a server's own figure is of the seconds before, which a busy machine shares out unevenly."""
    async with served(kind, tmp_path) as (server, counters), asyncio.timeout(60):
        analyzer = Analyzer("b1")
        link = await connector(lambda _broker: server.endpoint, name="alice")("b1", lambda _up: None)
        used, truth = None, math.inf
        while used is None or used != pytest.approx(truth, rel=0.3):
            began_s, before_s = time.monotonic(), used_s(server.pid)
            for _ in range(20):
                for _ in range(5):
                    for _ in range(4000):
                        link.publish("t", bytes(1000))
                    await link.flush()
                analyzer.totals(await counters.totals())
                used = analyzer.report(SystemClock().now(), 0.0, {}).used.cores
                await asyncio.sleep(0.1)
            truth = (used_s(server.pid) - before_s) / (time.monotonic() - began_s)
        await link.close()
    assert truth > 0.02, "it had something to do"


async def test_nats_names_plain_subscriptions_with_what_each_was_sent(tmp_path: Path) -> None:
    async with served(NATS, tmp_path) as (server, counters):
        ours = await connector(lambda _broker: server.endpoint, name="alice")("b1", lambda _up: None)
        await ours.subscribe(client_subject("alice"), lambda _data: None)
        await ours.subscribe("t", lambda _data: None)
        plain = await nats.connect(server.url)
        await plain.subscribe("t")
        await plain.subscribe("all.>")
        await plain.flush()
        await plain.flush()
        for _ in range(10):
            ours.publish("t", bytes(500))
        await ours.flush()
        found = await counters.listening()
        await plain.close()
        await ours.close()
    assert list(found.topics) == ["t"], "neither ours nor wildcards"
    assert found.topics["t"].number == 1
    assert found.topics["t"].plain is not None
    assert list(found.topics["t"].plain.values()) == [(10, 5000.0)]


async def test_redis_says_how_many_listen_and_whether_any_is_not_ours(tmp_path: Path) -> None:
    async with served(REDIS, tmp_path) as (server, counters):
        ours = await connector(lambda _broker: server.endpoint, name="alice")("b1", lambda _up: None)
        await ours.subscribe(client_subject("alice"), lambda _data: None)
        await ours.subscribe("t", lambda _data: None)
        alone = await counters.listening()
        plain = redis.asyncio.Redis.from_url(server.url)
        pubsub = plain.pubsub()
        await pubsub.subscribe("t", "u")
        for _ in range(2):
            await pubsub.get_message(timeout=5.0)  # what confirms it
        both = await counters.listening()
        await pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py's
        await plain.aclose()
        await ours.close()
    assert {topic: each.number for topic, each in alone.topics.items()} == {"t": 1}
    assert not alone.plain
    assert {topic: each.number for topic, each in both.topics.items()} == {"t": 2, "u": 1}
    assert both.plain


@KINDS
async def test_a_server_that_is_away_is_a_link_down_and_is_asked_again_when_it_is_back(
    kind: str, tmp_path: Path
) -> None:
    async with served(kind, tmp_path) as (server, counters):
        await counters.totals()
        await server.kill()
        with pytest.raises(LinkDown):
            await counters.totals()
        with pytest.raises(LinkDown):
            await counters.listening()
        await server.restart()
        assert (await counters.totals()).out_bytes >= 0


async def test_what_answers_and_is_no_nats_server_is_a_link_down() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readline()
        writer.write(b"HTTP/1.0 404 Not Found\r\n\r\n" if b"varz" in request else b"HTTP/1.0 200 OK\r\n\r\nhello")
        writer.close()
        await writer.wait_closed()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with other:
        counters = NatsCounters(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}", SystemClock())
        with pytest.raises(LinkDown, match="404"):
            await counters.totals()
        with pytest.raises(LinkDown):
            await counters.listening()


async def test_a_redis_server_that_asks_for_a_password_is_given_it(tmp_path: Path) -> None:
    server = await Server.start(ServerSpec(REDIS, "b1", password="secret"), tmp_path)  # noqa: S106  # a test's
    counters = RedisCounters(server.endpoint, "agent-b1", SystemClock())
    try:
        assert (await counters.totals()).out_bytes > 0
    finally:
        await counters.close()
        await server.kill()


def test_a_nats_server_without_a_monitoring_port_has_no_counters() -> None:
    endpoint = ServerSpec(NATS, "b1").endpoint_at(4222)
    assert counters_of(BrokerAt(endpoint, ""), agent="agent-b1", clock=SystemClock()) is None
