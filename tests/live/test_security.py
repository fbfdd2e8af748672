"""A client of the fleet that means ill: with a client's password and the fleet's key, as every client has them."""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.client import open_client
from nearcast.domain.errors import AccessRefused, LeaseLost, LinkDown
from nearcast.domain.load import BrokerReport, TopicLoad
from nearcast.domain.message import Message
from nearcast.domain.route import Route, Strategy
from nearcast.transport.config import BUS, Config, load_config
from nearcast.wire.control import (
    AGENT_SUBJECT,
    COORDINATOR_SUBJECT,
    Alive,
    Broken,
    Control,
    Gone,
    MoveOrder,
    OnTopic,
    Prepare,
    Release,
    Switch,
    Tell,
    Unsure,
    Welcome,
    agent_bus_subject,
    client_subject,
    seal,
)
from nearcast.wire.envelope import encode, notice
from nearcast.wire.loads import load_of
from tests.contract.test_link import until
from tests.live.conftest import Fleet

TOPIC = "t"
TERM = 1 << 30  # higher than any leader's


def test_a_forged_move_a_forged_report_and_forged_notices_are_refused(fleet: Fleet) -> None:
    asyncio.run(forged(fleet))
    assert fleet.run("status").code == 0


def test_a_tenant_has_its_topics_wherever_they_go_and_nobody_elses(tmp_path: Path, kind: str) -> None:
    options = ("--sites", "2", "--brokers", kind, "--tenant", "drones=fleet.>,alerts", "--tenant", "others=game.>")
    fleet = Fleet(tmp_path, *options)
    try:
        fleet.until_well()
        asyncio.run(rented(fleet))
        refused = fleet.run("pub", "game.x", "hello", NEARCAST_CONFIG=str(fleet.state / "drones.toml"))
        assert (refused.code, "may use fleet.>, alerts" in refused.err) == (1, True), refused
    finally:
        fleet.stop()


async def rented(fleet: Fleet) -> None:
    ours, drones, others = (load_config(fleet.state / f"{name}.toml") for name in ("nearcast", "drones", "others"))
    got: list[bytes] = []
    at_game: asyncio.Queue[Message] = asyncio.Queue()
    async with asyncio.timeout(90), open_client(drones) as sender, open_client(ours) as anybody:
        hears = await sender.subscribe("fleet.pose", lambda message: got.append(message.payload))
        home = ours.ring.owner("fleet.pose")
        for number in range(300):
            await sender.publish("fleet.pose", b"%d" % number)
            if number == 100:
                away = next(broker for broker in ours.brokers if broker != home)
                await asyncio.to_thread(fleet.ok, "topic", "move", "fleet.pose", away)
            await asyncio.sleep(0.005)
        await until(lambda: len(got) == 300)
        assert got == [b"%d" % number for number in range(300)]
        assert hears.topic == "fleet.pose"
        for client, topic in ((sender, "game.x"), (sender, "fleet")):
            with pytest.raises(AccessRefused, match=r"may use fleet\.>, alerts"):
                await client.publish(topic, b"not ours")
            with pytest.raises(AccessRefused, match=r"may use fleet\.>, alerts"):
                await client.subscribe(topic)
        await anybody.subscribe("game.x", at_game.put_nowait)
        # Whoever does not keep to what its configuration says is refused by the servers.
        async with open_client(replace(drones, own=replace(drones.own, topics=()))) as bold:
            with pytest.raises((LeaseLost, LinkDown)):
                await bold.publish("game.x", b"forged", timeout_s=3.0)
            async with open_client(others) as entitled:
                await entitled.publish("game.x", b"said")
                assert (await at_game.get()).payload == b"said"
            await asyncio.sleep(1.0)
        assert at_game.empty()


async def forged(fleet: Fleet) -> None:
    config = load_config(fleet.config)
    here = config.ring.owner(TOPIC)
    away = next(broker for broker in config.brokers if broker != here)
    got: asyncio.Queue[Message] = asyncio.Queue()
    async with asyncio.timeout(60), open_client(config, name="victim") as victim, open_client(config) as sender:
        await victim.subscribe(TOPIC, got.put_nowait)
        await sender.publish(TOPIC, b"before")
        assert (await got.get()).payload == b"before"
        await forge_moves(config, here, away)
        await forge_notices(config, here, away)
        for number in range(20):
            await sender.publish(TOPIC, str(number).encode())
        assert [(await got.get()).payload for _ in range(20)] == [str(number).encode() for number in range(20)]
        assert victim.rejects.count == 4
        routed = await asyncio.to_thread(fleet.run, "topic", "show", TOPIC, "--json")
        assert routed.json["brokers"] == [here], "it is where it was"
        with pytest.raises(LinkDown, match=r"(?i)authorization"):
            await connector(config.endpoints(), name="forger")(BUS, lambda _up: None)


async def forge_moves(config: Config, here: str, away: str) -> None:
    """Signed as they must be: what refuses them is who may say what, and where."""
    route = Route(9, Strategy.SINGLE, (away,))
    commands: list[Control] = [
        Prepare(TOPIC, TERM, 9, (route,), 9, ()),
        Tell(TOPIC, TERM, 9, ()),
        Release(TOPIC, TERM, 9),
        MoveOrder(TOPIC, "forger", 1, Strategy.SINGLE, (away,)),
    ]
    link = await connector(config.endpoints(), name="forger")(here, lambda _up: None)
    for command in commands:  # where a client may speak, but where no agent takes commands from
        link.publish(AGENT_SUBJECT, seal(command, config.dialect))
    await link.flush()
    report = BrokerReport(here, time.time(), 1e6, 1e6, (TopicLoad(TOPIC, 1e6, 1e6, 1e9, 1e9, 1, 1),))
    for subject, message in (
        (agent_bus_subject(here), commands[0]),
        (COORDINATOR_SUBJECT, commands[3]),
        (COORDINATOR_SUBJECT, load_of(report)),
        (COORDINATOR_SUBJECT, Alive(here, 1, 0.0, 0)),
        (client_subject("victim"), Welcome(TOPIC, route, (away,), 9, (), 60.0, 0.0, 0, ())),
        (client_subject("victim"), Unsure(TOPIC, 0.0, 0, True, 0, ())),
    ):
        await refused(link, subject, seal(message, config.dialect))
    await link.close()


async def refused(link: Link, subject: str, data: bytes) -> None:
    """A server that refuses something says so, and the link tells by breaking: it is back a moment later."""
    link.publish(subject, data)
    with pytest.raises(LinkDown):
        await link.flush()
    await until(lambda: link.up)


async def forge_notices(config: Config, here: str, away: str) -> None:
    """On the topic itself anybody may publish; these have the fleet's key, and no agent's signature."""
    route = Route(9, Strategy.SINGLE, (away,))
    notices: list[OnTopic] = [
        Switch(TOPIC, route, (away,), 9),
        Switch(TOPIC, route, (away,), 9, (), ((away, "nats://127.0.0.1:9"),)),
        Gone(TOPIC, 1),
        Broken(TOPIC, here),
    ]
    link = await connector(config.endpoints(), name="forger")(here, lambda _up: None)
    for each in notices:
        link.publish(TOPIC, encode(notice(each, 9), config.dialect))
    await link.flush()
    await link.close()


def test_what_a_client_needs_is_no_more_than_its_own_password_and_the_fleets_key(fleet: Fleet, tmp_path: Path) -> None:
    """A client's machine has neither the agents' secrets nor the coordinators'. The authority's certificate is none."""
    far = tmp_path / "elsewhere"
    (far / "credentials").mkdir(parents=True)
    for name in ("nearcast.toml", "key", "credentials/client", "credentials/authority.pem"):
        (far / name).write_bytes((fleet.state / name).read_bytes())

    async def use() -> None:
        got: asyncio.Queue[Message] = asyncio.Queue()
        async with asyncio.timeout(30), open_client(load_config(far / "nearcast.toml")) as client:
            await client.subscribe(TOPIC, got.put_nowait)
            await client.publish(TOPIC, b"mine")
            assert (await got.get()).payload == b"mine"

    asyncio.run(use())
    asked = fleet.run("status", "--config", str(far / "nearcast.toml"))
    assert asked.code == 1
    assert "access.coordinator.password_file" in asked.err
    assert "cannot be read: No such file" in asked.err
