"""Known traffic on real servers, and what the commands then say of it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nearcast.brokers.connect import connector
from nearcast.client import Client, open_client
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.wire.control import AGENT_SUBJECT, seal
from nearcast.wire.dialect import Dialect
from nearcast.wire.envelope import HEADER_BYTES
from nearcast.wire.loads import Counts, TopicCount
from tests.live.conftest import Fleet
from tests.live.plain import plain_nats, plain_redis

PAYLOAD = bytes(1000 - HEADER_BYTES)
RATE_HZ = 100.0
FANOUT = 3
WITHIN_S = 40.0
CAPACITY = 2_000_000

Publish = Callable[[], Any]


def near(value: float, part: float = 0.2) -> Any:
    return pytest.approx(value, rel=part)


@pytest.fixture
def fleet(tmp_path: Path, kind: str) -> Any:
    fleet = Fleet(tmp_path, "--brokers", kind, "--sites", "2", "--capacity", str(CAPACITY))
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


async def pace(publish: Publish, rate_hz: float) -> None:
    begun_s = time.monotonic()
    number = 0
    while True:
        await publish()
        number += 1
        await asyncio.sleep(max(0.0, begun_s + number / rate_hz - time.monotonic()))


@asynccontextmanager
async def plain_client(config: Config, kind: str, topic: str) -> AsyncIterator[Publish]:
    """Subscribed to the topic where the ring has it, with a way to publish there."""
    home = config.brokers[config.ring.owner(topic)].endpoint
    if kind == "nats":
        plain = await plain_nats(home)

        async def took(_message: object) -> None:
            pass

        await plain.subscribe(topic, cb=took)
        await plain.flush()
        await plain.flush()
        try:
            yield lambda: plain.publish(topic, bytes(1000))
        finally:
            await plain.close()
        return
    crew = Crew()
    async with (
        plain_redis(home) as server,
        server.pubsub() as listener,
    ):
        await listener.subscribe(topic)

        async def listen() -> None:
            async for _ in listener.listen():
                pass

        crew.start(listen(), "plain listener")
        try:
            yield lambda: server.publish(topic, bytes(1000))
        finally:
            await crew.close()


async def ask(fleet: Fleet, *command: str) -> dict[str, Any]:
    found = await asyncio.to_thread(fleet.run, *command, "--json")
    assert found.code == 0, found.err
    return {each.get("topic") or each["name"]: each for each in found.json}


def what_is_wrong(topics: dict[str, Any], brokers: dict[str, Any], owner: str) -> list[object]:
    """In what is reported now: a busy machine makes up in one second for what it did not publish in another."""
    if topics.keys() != {"ours", "mixed", "theirs", "quiet"}:
        return [[*topics]]
    every, one_more = FANOUT * RATE_HZ, (FANOUT + 1) * RATE_HZ
    expected = {
        "ours": (near(RATE_HZ), near(every), near(1e3 * RATE_HZ), near(1e3 * every), 2, FANOUT),
        "mixed": (near(RATE_HZ), near(one_more), near(1e3 * RATE_HZ), near(1e3 * one_more), 2, FANOUT + 1),
        "theirs": (near(RATE_HZ), near(one_more), near(1e3 * RATE_HZ), near(1e3 * one_more), 1, FANOUT + 1),
        "quiet": (0.0, 0.0, 0.0, 0.0, 0, 1),
    }
    names = ("publications_hz", "deliveries_hz", "bytes_in_per_s", "bytes_out_per_s", "publishers", "subscribers")
    found = {topic: tuple(each[name] for name in names) for topic, each in topics.items()}
    wrong: list[object] = [(topic, found[topic]) for topic in expected if found[topic] != expected[topic]]
    at = [each["broker"] for each in topics["ours"]["loads"]]
    loads = [each["load"] for each in brokers.values()]
    sent = sum(load["out_bytes_per_s"] for load in loads)
    right = (
        at == [owner],
        sum(load["topics"] for load in loads) == 4,
        sent == near(1e3 * (every + 2 * one_more)),
        sum(load["counted_bytes_per_s"] for load in loads) == near(sent),
        all(load["capacity_bytes_per_s"] == CAPACITY for load in loads),
        all(load["load_ratio"] == pytest.approx(load["out_bytes_per_s"] / CAPACITY, abs=1e-3) for load in loads),
        all(load["age_s"] < 3 for load in loads),
    )
    return wrong if all(right) else [*wrong, right, at, loads]


def test_known_traffic_is_reported_as_it_is(fleet: Fleet, kind: str) -> None:
    asyncio.run(known_traffic(fleet, kind))


async def known_traffic(fleet: Fleet, kind: str) -> None:
    config = load_config(fleet.config)
    crew = Crew()
    async with asyncio.timeout(90), AsyncExitStack() as stack:
        clients: list[Client] = [await stack.enter_async_context(open_client(config)) for _ in range(FANOUT + 2)]
        await stack.enter_async_context(plain_client(config, kind, "mixed"))
        plain_publish = await stack.enter_async_context(plain_client(config, kind, "theirs"))
        for client in clients[:FANOUT]:
            for topic in ("ours", "mixed", "theirs"):
                await client.subscribe(topic, lambda _message: None)
        await clients[0].subscribe("quiet", lambda _message: None)
        for topic in ("ours", "mixed"):
            for client in clients[FANOUT:]:
                crew.start(pace(lambda c=client, t=topic: c.publish(t, PAYLOAD), RATE_HZ / 2), topic)  # type: ignore[misc]
        crew.start(pace(plain_publish, RATE_HZ), "a plain publisher")
        until_s = time.monotonic() + WITHIN_S
        while wrong := what_is_wrong(
            await ask(fleet, "topic", "list"), await ask(fleet, "broker", "list"), config.ring.owner("ours")
        ):
            assert time.monotonic() < until_s, wrong
        shown = await asyncio.to_thread(fleet.run, "broker", "list")
        await crew.close()
        assert "of what it can" in " ".join(shown.out.split())

        until_s = time.monotonic() + 10
        while going_on := [each for each in (await ask(fleet, "topic", "list")).values() if each["deliveries_hz"] > 20]:
            assert time.monotonic() < until_s, going_on


def test_topics_that_only_plain_clients_use_are_reported_too(fleet: Fleet, kind: str) -> None:
    asyncio.run(plain_traffic(fleet, kind))


def told(*, publications_hz: float, bytes_in_per_s: float, bytes_out_per_s: float, **_more: object) -> bool:
    """What comes in and what goes out are not measured in the same moment, and the first second counts in part."""
    expected = (near(40.0, 0.4), near(1e3 * publications_hz, 0.1), near(bytes_in_per_s, 0.2))
    return (publications_hz, bytes_in_per_s, bytes_out_per_s) == expected


async def plain_traffic(fleet: Fleet, kind: str) -> None:
    """Redis counts no messages by channel: the agent listens for a moment, and to a busy topic not even that."""
    config = load_config(fleet.config)
    crew = Crew()
    async with asyncio.timeout(90), AsyncExitStack() as stack:
        for topic, rate_hz in (("calm", 40.0), ("busy", 500.0)):
            publish = await stack.enter_async_context(plain_client(config, kind, topic))
            crew.start(pace(publish, rate_hz), topic)
        until_s = time.monotonic() + 40
        while True:
            topics = await ask(fleet, "topic", "list")
            if topics.keys() >= {"calm", "busy"} and topics["busy"]["publications_hz"] > 0 and told(**topics["calm"]):
                break
            assert time.monotonic() < until_s, topics
        await crew.close()
    calm, busy = topics["calm"], topics["busy"]
    assert (calm["subscribers"], calm["publishers"]) == (1, 1)
    if kind == "redis":
        assert 0 < busy["publications_hz"] <= 251, "no more of it was heard"


def test_counts_that_are_forged_or_absurd_change_nothing(fleet: Fleet, kind: str) -> None:
    assert kind in {"nats", "redis"}
    asyncio.run(forged_counts(fleet))


async def forged_counts(fleet: Fleet) -> None:
    config = load_config(fleet.config)
    good = Counts("honest", 10.0, (TopicCount("t", 100, 100_000),))  # held for twice as long
    forged = Counts("forger", 1.0, (TopicCount("forged", 100, 100_000),))
    absurd = seal(good, config.dialect)
    body = absurd[17:].replace(b"\xa1t", b"\xa1*")
    link = await connector(config.endpoints(), name="forger")("b1", lambda _up: None)
    for data in (
        seal(forged, Dialect(bytes(32))),
        seal(forged, Dialect(bytes(32), 1)),
        seal(forged, config.dialect)[:-3],
        absurd[:1] + config.dialect.signature(body, absurd[0]) + body,
        b"Counts",
        seal(good, config.dialect),
    ):
        link.publish(AGENT_SUBJECT, data)
    await link.flush()
    await link.close()
    until_s = time.monotonic() + 10
    while "t" not in (topics := await ask(fleet, "topic", "list")):
        assert time.monotonic() < until_s
    assert list(topics) == ["t"]
    assert (topics["t"]["publications_hz"], topics["t"]["publishers"]) == (10.0, 1)
    log = (fleet.state / "logs" / "agent-b1.log").read_text()
    assert "dropped an unreadable message from clients of b1" in log
    assert fleet.run("status").code == 0
