"""Brokers that come and go, by the commands that operators use."""

import asyncio
import json
import subprocess
from pathlib import Path

from nearcast.fleet.credentials import role_passwords
from nearcast.fleet.permissions import Guard
from nearcast.fleet.servers import Server, ServerSpec
from tests.live.conftest import Fleet, on_nats, on_redis
from tests.live.test_commands import received, subscribed


def names(fleet: Fleet) -> list[str]:
    return [each["name"] for each in fleet.run("broker", "list", "--json").json]


@on_nats
def test_a_broker_is_added_used_drained_and_removed(fleet: Fleet) -> None:
    listener = subscribed(fleet, "greetings", 5, seconds=150)  # nobody uses a broker only after two leases
    assert fleet.run("pub", "greetings", "one").code == 0
    added = fleet.run("broker", "add", "extra", "--json")
    assert added.code == 0, added
    assert (added.json["done"], added.json["standing"]["state"]) == (True, "present")
    assert {"extra", "agent-extra"} <= set(fleet.children())
    assert fleet.run("topic", "move", "greetings", "extra").code == 0
    assert fleet.run("pub", "greetings", given="two\nthree\n").code == 0

    refused = fleet.run("broker", "remove", "extra")
    assert (refused.code, "drain it first" in refused.err) == (1, True)
    begun = fleet.run("broker", "drain", "extra", "--timeout", "0", "--json").json
    assert (begun["done"], begun["standing"]["state"], begun["standing"]["leaving"]) == (
        False,
        "draining",
        ["greetings"],
    )
    assert "1 topics are still there (greetings)" in fleet.run("broker", "remove", "extra").err
    assert "is draining: nothing moves to it" in fleet.run("topic", "move", "other", "extra").err
    assert fleet.run("pub", "greetings", "four").code == 0

    drained = fleet.run("broker", "drain", "extra")
    assert (drained.code, drained.out) == (0, "extra: empty; `nearcast broker remove extra` removes it\n")
    assert fleet.run("broker", "remove", "extra", "--json").json["done"] is True
    assert names(fleet) == ["b1", "b2", "b3"]
    assert not {"extra", "agent-extra"} & set(fleet.children())
    assert fleet.run("pub", "greetings", "five").code == 0
    assert received(listener) == ["one", "two", "three", "four", "five"]
    assert fleet.run("doctor").code == 0


def test_a_server_that_runs_is_taken_in_when_its_agent_is_started(fleet: Fleet, tmp_path: Path, kind: str) -> None:
    async def take_in() -> None:
        guard = Guard(role_passwords(fleet.state))  # it must let in the fleet's roles
        server = await Server.start(ServerSpec(kind, "mine", guard=guard), tmp_path / "elsewhere")
        agent: subprocess.Popen[str] | None = None
        try:
            waits = await asyncio.to_thread(fleet.run, "broker", "add", "mine", "--url", server.url, "--timeout", "1")
            assert (waits.code, "mine: joining (its agent has not been heard)" in waits.err) == (1, True)
            agent = fleet.start("agent", "--broker", "mine", "--url", server.url)
            assert agent.stdout is not None
            ready = await asyncio.to_thread(agent.stdout.readline)
            assert json.loads(ready)["ready"] is True
            await asyncio.to_thread(until_listed, fleet, "mine")
            moved = await asyncio.to_thread(fleet.run, "topic", "move", "t", "mine")
            assert moved.code == 0, moved
            listener = await asyncio.to_thread(subscribed, fleet, "t", 1)
            assert (await asyncio.to_thread(fleet.run, "pub", "t", "hello")).code == 0
            assert await asyncio.to_thread(received, listener) == ["hello"]
        finally:
            if agent is not None:
                agent.terminate()
                await asyncio.to_thread(agent.communicate)
            await server.stop()

    asyncio.run(take_in())


def until_listed(fleet: Fleet, broker: str) -> None:
    states: list[str] = []
    while not states or states[-1] != "present":
        states = [each["presence"] for each in fleet.run("broker", "list", "--json").json if each["name"] == broker]


def test_the_fleet_is_never_drained_below_its_minimum(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "--sites", "1")
    try:
        fleet.until_well()
        refused = fleet.run("broker", "drain", "b1")
        assert (refused.code, "the configured minimum is 1" in refused.err) == (1, True)
    finally:
        fleet.stop()


@on_redis
def test_a_rented_server_is_there_again_when_the_fleet_is_started_again(tmp_path: Path, kind: str) -> None:
    fleet = Fleet(tmp_path, "--sites", "1", "--brokers", kind)
    try:
        fleet.until_well()
        assert fleet.run("broker", "add", "extra").code == 0
        assert fleet.run("topic", "move", "t", "extra").code == 0
    finally:
        fleet.stop()
    fleet = Fleet(tmp_path, "--sites", "1", "--brokers", kind)
    try:
        fleet.until_well(60.0)
        assert names(fleet) == ["b1", "extra"]
        listener = subscribed(fleet, "t", 1)
        assert fleet.run("pub", "t", "again").code == 0
        assert received(listener) == ["again"]
    finally:
        fleet.stop()
