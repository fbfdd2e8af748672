"""HTTP in the pipeline's process: one application for whatever is asked and sent there, on loopback by default."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from nearcast.domain.errors import ConfigError

LOOPBACK = "127.0.0.1"


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own: it ends the server."""
        yield


@asynccontextmanager
async def serving(routes: Sequence[Route], host: str = LOOPBACK, port: int = 0) -> AsyncIterator[str]:
    """Gives the address, with the port that was free. Raises ConfigError when it cannot listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
            listening.listen()  # who comes before the server has started waits
        except OSError as error:
            raise ConfigError(f"http: cannot listen on {host}:{port}: {error.strerror}") from error
        config = uvicorn.Config(
            Starlette(routes=list(routes)), log_config=None, log_level="warning", access_log=False, lifespan="off"
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listening]), name="http")
        try:
            bound = listening.getsockname()[1]
            yield f"http://[{host}]:{bound}" if ":" in host else f"http://{host}:{bound}"
        finally:
            server.should_exit = True
            await task
