"""What each role may do at real servers, tried with the libraries that whoever attacks would use."""

import asyncio
import fnmatch
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import nats
import pytest
import redis.asyncio
import redis.exceptions
from nats.aio.client import Client

from nearcast.brokers.connect import connector
from nearcast.domain.errors import LinkDown
from nearcast.fleet.credentials import FOLDER, role_passwords
from nearcast.fleet.permissions import Guard, Tenant, outside
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.transport.access import Role
from nearcast.transport.endpoint import NATS, REDIS, Endpoint
from nearcast.wire.channels import PIPELINE_SUBJECT, channel_subject
from nearcast.wire.control import AGENT_SUBJECT, COORDINATOR_SUBJECT, agent_bus_subject, client_subject, inlet_subject
from tests.contract.test_link import until

CONTROL = [COORDINATOR_SUBJECT, PIPELINE_SUBJECT, agent_bus_subject("b1")]
MAY_SAY = ["t", "game.room1", "_mine", "_nearcasting", AGENT_SUBJECT, inlet_subject("t")]
MAY_NOT_SAY = [client_subject("ann"), channel_subject("0" * 32), *CONTROL]
MAY_HEAR = ["t", "game.room1", "_mine", client_subject("ann"), channel_subject("0" * 32)]
MAY_NOT_HEAR = [AGENT_SUBJECT, inlet_subject("t"), *CONTROL]
DRONES, OTHERS = Tenant("drones", ("fleet.>", "alerts")), Tenant("others", ("game.>",))
TENANT_MAY_SAY = ["fleet.pose", "fleet.a.b", "alerts", AGENT_SUBJECT, inlet_subject("fleet.pose")]
TENANT_MAY_HEAR = ["fleet.pose", "fleet.a.b", "alerts", client_subject("drones.a"), channel_subject("0" * 32)]
TENANT_MAY_NOT = ["fleet", "fleets.a", "alerts.a", "game.a", inlet_subject("game.a"), client_subject("ann"), *CONTROL]
REDIS_ONLY = ["_nearcast.something", "_nearcast.agentx"]  # NATS has no way to refuse what it does not know yet


@pytest.fixture(params=[NATS, REDIS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Party(Protocol):
    """Each method gives the server's complaint, or "" when there was none."""

    async def say(self, subject: str) -> str: ...

    async def hear(self, subject: str) -> str: ...


class NatsParty:
    def __init__(self, client: Client, complaints: list[str]) -> None:
        self._client = client
        self._complaints = complaints

    async def say(self, subject: str) -> str:
        await self._client.publish(subject, b"forged")
        return await self._complaint()

    async def hear(self, subject: str) -> str:
        await self._client.subscribe(subject)
        return await self._complaint()

    async def _complaint(self) -> str:
        await self._client.flush()  # what is refused is told before the answer to this
        await self._client.flush()
        await asyncio.sleep(0.05)
        said, self._complaints[:] = "".join(self._complaints), []
        return said


class RedisParty:
    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client = client

    async def say(self, subject: str) -> str:
        return await self._tried(lambda: self._client.publish(subject, b"forged"))

    async def hear(self, subject: str) -> str:
        async with self._client.pubsub() as listener:

            async def heard() -> None:
                await listener.subscribe(subject)
                while (await listener.get_message(timeout=5)) is None:
                    pass

            return await self._tried(heard)

    async def _tried(self, do: Callable[[], Awaitable[object]]) -> str:
        try:
            await do()
        except redis.exceptions.NoPermissionError as error:
            return str(error)
        return ""


@asynccontextmanager
async def party(endpoint: Endpoint, who: Role | Tenant, guard: Guard) -> AsyncIterator[Party]:
    user = who.name if isinstance(who, Tenant) else who.value
    password = guard.tenants[who] if isinstance(who, Tenant) else guard.passwords[who]
    if endpoint.kind == NATS:
        complaints: list[str] = []

        async def complain(error: Exception) -> None:
            complaints.append(str(error))

        client = await nats.connect(
            endpoint.url, user=user, password=password, error_cb=complain, allow_reconnect=False, connect_timeout=10
        )
        try:
            yield NatsParty(client, complaints)
        finally:
            await client.close()
        return
    async with redis.asyncio.Redis(host=endpoint.host, port=endpoint.port, username=user, password=password) as server:
        yield RedisParty(server)


def run(kind: str, state: Path, scenario: Callable[[Server, Guard], Awaitable[None]], *, bus: bool = False) -> None:
    async def on_server() -> None:
        guard = Guard(role_passwords(state), bus, tenants={} if bus else {DRONES: "drones' own", OTHERS: "others' own"})
        server = await Server.start(ServerSpec(kind, "b1", jetstream=kind == NATS, guard=guard), state)
        try:
            async with asyncio.timeout(60):
                await scenario(server, guard)
        finally:
            await server.stop()

    asyncio.run(on_server())


def test_a_client_uses_topics_and_what_it_needs_of_an_agent_and_nothing_of_the_control_plane(
    kind: str, tmp_path: Path
) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        strict = REDIS_ONLY if kind == REDIS else []
        async with party(server.endpoint, Role.CLIENT, guard) as client:
            assert {subject: await client.say(subject) for subject in MAY_SAY} == dict.fromkeys(MAY_SAY, "")
            assert {subject: await client.hear(subject) for subject in MAY_HEAR} == dict.fromkeys(MAY_HEAR, "")
            for subject in [*MAY_NOT_SAY, *strict]:
                assert "permission" in (await client.say(subject)).lower(), subject
            for subject in [*MAY_NOT_HEAR, *strict]:
                assert "permission" in (await client.hear(subject)).lower(), subject

    run(kind, tmp_path, scenario)


def test_a_tenant_uses_its_topics_and_its_inboxes_and_nothing_of_anybody_else(kind: str, tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        inboxes = [client_subject("others.a"), client_subject("drones2.a"), AGENT_SUBJECT]
        forged = [client_subject("drones.a"), channel_subject("0" * 32)]
        servers_own = ["$JS.API.INFO", "_nearcast.log.x.0"] if kind == NATS else []
        async with party(server.endpoint, DRONES, guard) as drones, party(server.endpoint, OTHERS, guard) as others:
            for subject in TENANT_MAY_SAY:
                assert await drones.say(subject) == "", subject
            for subject in TENANT_MAY_HEAR:
                assert await drones.hear(subject) == "", subject
            for subject in [*TENANT_MAY_NOT, *forged, *servers_own]:
                assert "permission" in (await drones.say(subject)).lower(), subject
            for subject in [*TENANT_MAY_NOT, *inboxes]:
                assert "permission" in (await drones.hear(subject)).lower(), subject
            assert "permission" in (await others.hear(client_subject("drones.a"))).lower()
            assert "permission" in (await others.hear("fleet.pose")).lower()
            assert await others.hear("game.a") == ""

    run(kind, tmp_path, scenario)


def test_an_agent_does_what_clients_may_not_at_its_broker_and_nothing_of_the_bus(kind: str, tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        async with party(server.endpoint, Role.AGENT, guard) as agent:
            for subject in ["t", AGENT_SUBJECT, client_subject("ann"), channel_subject("0" * 32)]:
                assert await agent.say(subject) == ""
            for subject in ["t", AGENT_SUBJECT, inlet_subject("t"), client_subject("agent-b1")]:
                assert await agent.hear(subject) == ""
            if kind == NATS:
                assert "permission" in await agent.say("$JS.API.STREAM.DELETE.log")

    run(kind, tmp_path, scenario)


def test_a_client_is_not_let_in_at_the_bus_and_an_agent_reports_and_is_commanded_there(tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        client = replace(server.endpoint, user="client", password=guard.passwords[Role.CLIENT])
        with pytest.raises(LinkDown, match="Authorization Violation"):
            await connector(lambda _broker: client, name="party")("b1", lambda _up: None)
        async with party(server.endpoint, Role.AGENT, guard) as agent:
            assert [await agent.say(subject) for subject in (COORDINATOR_SUBJECT, PIPELINE_SUBJECT)] == ["", ""]
            assert await agent.hear(agent_bus_subject("b1")) == ""
            for subject in (
                agent_bus_subject("b2"),
                client_subject("operator"),
                "$KV.nearcast.topic.t",
                "$JS.API.INFO",
            ):
                assert "permission" in (await agent.say(subject)).lower(), subject
            for subject in (COORDINATOR_SUBJECT, PIPELINE_SUBJECT, "$KV.>", ">"):
                assert "permission" in (await agent.hear(subject)).lower(), subject

    run(NATS, tmp_path, scenario, bus=True)


def test_whoever_listens_to_everything_at_a_nats_broker_hears_nothing_of_what_it_may_not(tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        heard: list[str] = []
        at, passwords = server.endpoint, guard.passwords

        async def took(message: object) -> None:
            heard.append(message.subject)  # type: ignore[attr-defined]

        spy = await nats.connect(at.url, user="client", password=passwords[Role.CLIENT], allow_reconnect=False)
        await spy.subscribe(">", cb=took)
        await spy.flush()
        await spy.flush()
        async with party(at, Role.COORDINATOR, guard) as teller:
            for subject in [AGENT_SUBJECT, inlet_subject("t"), *CONTROL, "t"]:
                assert await teller.say(subject) == ""
        await until(lambda: "t" in heard)
        await spy.close()
        assert heard == ["t"]

    run(NATS, tmp_path, scenario)


def test_nobody_is_let_in_without_a_password_or_with_anothers(kind: str, tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        at = server.endpoint
        for user, password in ((None, None), ("client", guard.passwords[Role.AGENT]), ("agent", "x"), ("root", "x")):
            endpoint = replace(at, user=user, password=password)
            connect = connector(lambda _broker, to=endpoint: to, name="party")  # type: ignore[misc]
            with pytest.raises(LinkDown) as refused:
                await connect("b1", lambda _up: None)
            assert not any(each in str(refused.value) for each in guard.passwords.values())

    run(kind, tmp_path, scenario)


def test_a_client_neither_makes_nor_ends_the_logs_of_persistent_topics(tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        async with party(server.endpoint, Role.CLIENT, guard) as client:
            for verb in ("CREATE", "UPDATE", "DELETE", "PURGE", "MSG.DELETE"):
                assert "permission" in (await client.say(f"$JS.API.STREAM.{verb}.log")).lower(), verb
            assert "permission" in (await client.say("_nearcast.log.x.seal")).lower(), "a forged end of a segment"
            assert await client.say(f"_nearcast.log.x.{7:016x}") == ""

    run(NATS, tmp_path, scenario)


def test_secrets_are_for_their_owner_alone_and_shown_nowhere(kind: str, tmp_path: Path) -> None:
    async def scenario(server: Server, guard: Guard) -> None:
        files = [*(tmp_path / FOLDER).iterdir(), tmp_path / "b1" / "server.conf"]
        assert [file.stat().st_mode & 0o777 for file in files] == [0o600] * 4
        assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700
        assert role_passwords(tmp_path) == guard.passwords, "a fleet that starts again has the same"
        assert len({*guard.passwords.values()}) == 3
        shown = repr(server.spec) + repr(guard) + repr(server.endpoint) + server.log.read_text()
        shown += _started_with(server.pid)
        assert not any(password in shown for password in guard.passwords.values())

    run(kind, tmp_path, scenario)


def _started_with(pid: int) -> str:
    found = [Path(f"/proc/{pid}/{each}").read_text(errors="replace") for each in ("cmdline", "environ")]
    return "".join(found)


def test_patterns_for_redis_match_all_but_what_is_reserved() -> None:
    patterns = [each.replace("[^", "[!") for each in outside("_ab.")]  # as Python spells it
    for name in ("x", "_", "_a", "_ab", "_abc", "_a.x", "_x", "__ab.", "ab."):
        assert any(fnmatch.fnmatchcase(name, each) for each in patterns), name
    for name in ("_ab.", "_ab.x", "_ab.x.y"):
        assert not any(fnmatch.fnmatchcase(name, each) for each in patterns), name
