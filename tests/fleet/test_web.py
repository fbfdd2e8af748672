"""A web server where it cannot be."""

import asyncio
import socket

import pytest

from nearcast.domain.errors import ConfigError
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


async def served(address: str) -> None:
    async with serving([], address):
        pass
