"""HTTP served by a process of ours: one application for whatever is asked and sent there, on loopback by default."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from nearcast.domain.errors import ConfigError
from nearcast.transport.endpoint import Tls
from nearcast.transport.http import parse_address

LOOPBACK = "127.0.0.1:0"
_LAST_S = 5  # for requests that are under way when it ends


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own: it ends the server."""
        yield


@asynccontextmanager
async def serving(
    app: ASGIApp | Sequence[BaseRoute], address: str = LOOPBACK, tls: Tls | None = None
) -> AsyncIterator[str]:
    """Until the block is left; requests under way are answered. `address` is HOST:PORT, where port 0 is a free one.

    Gives the address with the port. With `tls` over HTTPS, showing its certificate. Raises ConfigError when it cannot
    listen there, or has nothing to show.
    """
    with _listening(address) as listening:
        config = uvicorn.Config(
            app if callable(app) else Starlette(routes=list(app)),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=_LAST_S,
            ssl_certfile=None if tls is None else tls.cert_file,
            ssl_keyfile=None if tls is None else tls.key_file,
        )
        try:
            config.load()
        except OSError as error:
            raise ConfigError(f"http: {address} cannot be served over TLS: {error}") from error
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        try:
            host, port = listening.getsockname()[:2]
            yield f"{'https' if config.is_ssl else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"
        finally:
            server.should_exit = True
            await task


def _listening(address: str) -> socket.socket:
    host, port = parse_address(address)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]
        raise ConfigError(f"http: cannot listen on {address}: {why}; choose another port") from error
