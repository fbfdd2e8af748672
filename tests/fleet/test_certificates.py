"""The certificates of a local fleet: made once, renewed in time, and checked by real servers' clients."""

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nearcast.brokers.connect import connector
from nearcast.domain.errors import FleetError, LinkDown
from nearcast.fleet.certificates import kept_certificates
from nearcast.fleet.local import LocalSpec, launch
from nearcast.fleet.supervisor import Supervisor
from nearcast.transport.config import load_config
from nearcast.transport.endpoint import NATS, REDIS, Endpoint, Tls
from tests.fleet.test_supervisor import within

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def shown(tls: Tls) -> tuple[bytes, bytes]:
    assert tls.ca_file is not None
    assert tls.cert_file is not None
    return tls.ca_file.read_bytes(), tls.cert_file.read_bytes()


def test_they_are_made_once_and_their_keys_are_for_the_owners_eyes(tmp_path: Path) -> None:
    first = shown(kept_certificates(tmp_path, NOW))
    assert shown(kept_certificates(tmp_path, NOW + timedelta(days=300))) == first
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "credentials").iterdir()}
    assert {name: oct(mode) for name, mode in modes.items() if name.endswith(".key")} == {
        "authority.key": "0o600",
        "servers.key": "0o600",
    }


def test_servers_get_a_new_one_of_the_same_authority_before_theirs_runs_out(tmp_path: Path) -> None:
    authority, servers = shown(kept_certificates(tmp_path, NOW))
    later = shown(kept_certificates(tmp_path, NOW + timedelta(days=340)))
    assert later[0] == authority, "who trusted the fleet goes on to"
    assert later[1] != servers


def test_an_authority_that_was_removed_takes_the_servers_certificate_with_it(tmp_path: Path) -> None:
    authority, servers = shown(kept_certificates(tmp_path, NOW))
    for file in (tmp_path / "credentials").glob("authority.*"):
        file.unlink()
    later = shown(kept_certificates(tmp_path, NOW))
    assert later[0] != authority
    assert later[1] != servers


def test_what_is_no_certificate_is_refused_with_what_to_do(tmp_path: Path) -> None:
    kept_certificates(tmp_path, NOW)
    (tmp_path / "credentials" / "servers.pem").write_text("nonsense")
    with pytest.raises(
        FleetError, match=r"certificates there cannot be used: .*; remove authority\.\* and servers\.\*"
    ):
        kept_certificates(tmp_path, NOW)


@pytest.mark.parametrize("kind", [NATS, REDIS])
def test_every_server_of_a_fleet_shows_one_and_lets_nobody_in_without_tls(kind: str, tmp_path: Path) -> None:
    others = kept_certificates(tmp_path / "others")

    async def reached(endpoint: Endpoint) -> None:
        link = await connector(lambda _broker: endpoint, name="party")("b1", lambda _up: None)
        await link.flush()
        await link.close()

    async def scenario() -> None:
        async with Supervisor(tmp_path / "fleet") as fleet:
            spec = LocalSpec(sites=1, kind=kind, coordinators=0, tls=True, hop_s=0.001, near_s=0.001)
            config = load_config(await launch(fleet, spec))
            direct, relayed = config.brokers["b1"].endpoint, config.servers("b1", "site1")[0]
            assert direct.port != relayed.port
            known = replace(direct, user=relayed.user, password=relayed.password)
            for endpoint in (known, relayed):
                await reached(endpoint)
                with pytest.raises(LinkDown):
                    await reached(replace(endpoint, tls=None))
                with pytest.raises(LinkDown, match="certificate verify failed"):
                    await reached(replace(endpoint, tls=Tls(others.ca_file)))
            assert config.control.tls is not None

    within(60, scenario())


def test_clients_of_every_version_of_tls_that_is_still_safe_accept_it(tmp_path: Path) -> None:
    """X.509 as RFC 5280 wants it: newer Pythons check that by default."""
    tls = kept_certificates(tmp_path)
    assert tls.cert_file is not None
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tls.cert_file, tls.key_file)
    client = tls.client_context()
    client.verify_flags |= ssl.VERIFY_X509_STRICT

    async def scenario() -> None:
        listening = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=server)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            for name in ("127.0.0.1", "localhost"):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
                writer.close()
                await writer.wait_closed()

    within(20, scenario())
