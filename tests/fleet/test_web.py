"""A web server where it cannot be, and one over HTTPS."""

import asyncio
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from nearcast.domain.errors import ConfigError
from nearcast.fleet.certificates import kept_certificates
from nearcast.transport.endpoint import Tls
from nearcast.transport.http import Unreached, ask
from nearcast.transport.web import serving


@pytest.mark.parametrize("address", ["8780", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536"])
def test_what_is_no_address_is_told(address: str) -> None:
    with pytest.raises(ConfigError, match=f"'{address}'; expected HOST:PORT"):
        asyncio.run(served(address))


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"cannot listen on {address}: Address already in use; choose another"):
            asyncio.run(served(address))


def test_over_https_only_who_trusts_its_authority_is_answered(tmp_path: Path) -> None:
    ours, others = kept_certificates(tmp_path / "ours"), kept_certificates(tmp_path / "others")

    async def scenario() -> None:
        page = Route("/page", lambda _request: PlainTextResponse("hello"))
        async with serving([page], "127.0.0.1:0", ours) as url:
            assert url.startswith("https://127.0.0.1:")
            assert await ask(url, "/page", most_bytes=100, tls=Tls(ours.ca_file)) == b"hello"
            for tls in (None, Tls(others.ca_file)):
                with pytest.raises(Unreached, match="certificate verify failed"):
                    await ask(url, "/page", most_bytes=100, tls=tls)
            with pytest.raises((OSError, EOFError)):
                await ask(url.replace("https", "http"), "/page", most_bytes=100)

    asyncio.run(scenario())


def test_a_certificate_that_is_not_there_is_told(tmp_path: Path) -> None:
    missing = replace(kept_certificates(tmp_path), cert_file=tmp_path / "absent.pem")
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:0 cannot be served over TLS: .*No such file"):
        asyncio.run(served("127.0.0.1:0", missing))


async def served(address: str, tls: Tls | None = None) -> None:
    async with serving([], address, tls):
        pass
