"""TLS and credentials: who is let in, who is trusted, and what is said when not."""

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from nearcast.brokers.connect import connector
from nearcast.domain.errors import ConfigError, LinkDown
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.transport.endpoint import NATS, REDIS, Endpoint, Tls
from tests.contract.test_link import until

USER, PASSWORD = "ann", "correct-horse"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tls]:
    """Two authorities that do not know each other, each with a server of the name broker.test."""
    return {name: _certified(tmp_path_factory.mktemp(name)) for name in ("ours", "theirs")}


def _certified(where: Path) -> Tls:
    tls = Tls(where / "ca.pem", where / "cert.pem", where / "key.pem", "broker.test")
    new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    extensions = "-addext basicConstraints=critical,CA:FALSE -addext subjectAltName=DNS:broker.test"
    signed_by = f"-days 2 -CA {tls.ca_file} -CAkey {where}/ca.key"
    for command in (
        f"openssl req -x509 {new} -subj /CN=authority -keyout {where}/ca.key -out {tls.ca_file}",
        f"openssl req {new} -subj /CN=broker.test {extensions} -keyout {tls.key_file} -out {where}/asked.pem",
        f"openssl x509 -req -in {where}/asked.pem -copy_extensions copy {signed_by} -out {tls.cert_file}",
    ):
        subprocess.run(command.split(), check=True, capture_output=True)
    return tls


@pytest.fixture(params=[NATS, REDIS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(scenario: Callable[[Server], Awaitable[None]], spec: ServerSpec, state: Path) -> None:
    async def on_server() -> None:
        server = await Server.start(spec, state)
        try:
            async with asyncio.timeout(60):
                await scenario(server)
        finally:
            await server.stop()

    asyncio.run(on_server())


async def complaint_of(endpoint: Endpoint) -> str:
    with pytest.raises(LinkDown) as refused:
        await connector(lambda _broker: endpoint, name="party")("b1", lambda _up: None)
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


def test_who_has_the_password_and_trusts_the_authority_is_let_in(
    kind: str, certificates: dict[str, Tls], tmp_path: Path
) -> None:
    async def scenario(server: Server) -> None:
        assert server.endpoint.tls is not None
        states: list[bool] = []
        got: list[bytes] = []
        link = await connector(lambda _broker: server.endpoint, name="party")("b1", states.append)
        await link.subscribe("t", got.append)
        payloads = [b"", b"1", bytes(range(256)) * 3_500]
        for data in payloads:
            link.publish("t", data)
        await link.flush()
        assert got == payloads
        await server.kill()
        await until(lambda: states == [False])
        await server.restart()
        await until(lambda: states == [False, True])
        link.publish("t", b"after")
        await link.flush()
        assert got[3:] == [b"after"]
        await link.close()

    run(scenario, ServerSpec(kind, "b1", user=USER, password=PASSWORD, tls=certificates["ours"]), tmp_path)


def test_who_is_not_let_in_learns_why(kind: str, certificates: dict[str, Tls], tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        right = server.endpoint
        assert right.tls is not None
        where = f"broker 'b1' at {right.url}"

        wrong_password = await complaint_of(replace(right, password="wrong-" + PASSWORD))
        assert wrong_password.startswith(f"{where} as user 'ann' cannot be reached: ")
        assert "Authorization Violation" in wrong_password or "invalid username-password pair" in wrong_password

        no_password = await complaint_of(replace(right, user=None, password=None))
        assert "Authorization Violation" in no_password or "authenticat" in no_password

        unknown = await complaint_of(replace(right, tls=replace(right.tls, ca_file=certificates["theirs"].ca_file)))
        assert "certificate verify failed" in unknown

        machines_own = await complaint_of(replace(right, tls=Tls(server_name="broker.test")))
        assert "certificate verify failed" in machines_own

        other_name = await complaint_of(replace(right, tls=replace(right.tls, server_name="other.test")))
        assert "other.test" in other_name

        assert where.replace(right.url, replace(right, tls=None).url) in await complaint_of(replace(right, tls=None))

        no_file = await complaint_of(replace(right, tls=replace(right.tls, ca_file=tmp_path / "absent.pem")))
        assert "absent.pem' cannot be used" in no_file

    run(scenario, ServerSpec(kind, "b1", user=USER, password=PASSWORD, tls=certificates["ours"]), tmp_path)


def test_a_server_without_tls_is_not_told_the_password(kind: str, certificates: dict[str, Tls], tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        tls = Tls(certificates["ours"].ca_file)
        complaint = await complaint_of(replace(server.endpoint, tls=tls))
        assert kind == REDIS or "TLS is asked for, and the server has none" in complaint

    run(scenario, ServerSpec(kind, "b1", user=USER, password=PASSWORD), tmp_path)


@pytest.mark.parametrize("url", ["tls", "rediss"])
def test_nothing_but_a_handshake_is_sent_to_one_that_pretends(url: str) -> None:
    async def scenario() -> None:
        heard = bytearray()
        left = asyncio.Event()

        async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            info = {"server_id": "x", "version": "2.10.0", "max_payload": 1024, "auth_required": True}
            writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(1024):
                    heard.extend(data)
            writer.close()
            left.set()

        async with await asyncio.start_server(pretend, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            endpoint = Endpoint.parse(f"{url}://{USER}:{PASSWORD}@127.0.0.1:{port}")
            await complaint_of(endpoint)
            await left.wait()
        assert PASSWORD.encode() not in heard
        assert USER.encode() not in heard

    asyncio.run(scenario())


def test_a_broker_without_an_address_is_down_and_it_is_said_why() -> None:
    def endpoint_of(broker: str) -> Endpoint:
        raise ConfigError(f"brokers has no {broker!r} (b1, b2)")

    async def scenario() -> None:
        with pytest.raises(LinkDown, match=r"broker 'b9' cannot be reached: brokers has no 'b9' \(b1, b2\)"):
            await connector(endpoint_of, name="party")("b9", lambda _up: None)

    asyncio.run(scenario())
