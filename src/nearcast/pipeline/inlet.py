"""The web server in front of feeds from `http`, on the pipeline's own event loop. Needs `nearcast[web]`."""

import asyncio
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nearcast.domain.errors import ConfigError
from nearcast.pipeline.http_source import HttpSource

MOST_BYTES = 8 << 20
_MOST_KEY = 200


def application(sources: Mapping[str, HttpSource]) -> Starlette:
    """POST /feeds/NAME. `sources` are looked up at each request: feeds come and go."""

    def refused(status: int, why: str) -> Response:
        return JSONResponse({"error": why}, status)

    async def take(request: Request) -> Response:
        name = request.path_params["name"]
        source = sources.get(name)
        if source is None:
            return refused(404, f"no feed {name!r} from http runs here")
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= _MOST_KEY:
            return refused(400, f"Idempotency-Key has {len(key)} characters; expected 1 to {_MOST_KEY}")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return refused(413, f"at most {MOST_BYTES} bytes are taken at once: send less, more often")
        try:
            texts = tuple(line for line in body.decode().splitlines() if line.strip())
        except UnicodeDecodeError as error:
            return refused(400, f"the body is not UTF-8: byte {error.start}")
        if not texts:
            return refused(400, "the body is empty; expected a JSON object, or one per line")
        try:
            count, repeated = await source.take(texts, key)
        except OSError as error:
            return refused(503, f"cannot be written: {error.strerror}; try again")
        return JSONResponse({"accepted": count, "repeated": repeated}, 200 if repeated else 202)

    return Starlette(routes=[Route("/feeds/{name}", take, methods=["POST"])])


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the process's signals are the pipeline's


def listen(address: str) -> socket.socket:
    """`address` is HOST:PORT; port 0 is any. Raises ConfigError."""
    host, colon, port = address.rpartition(":")
    if not (colon and port.isdecimal()):
        raise ConfigError(f"--http is {address!r}; expected HOST:PORT, like 127.0.0.1:8780")
    try:
        return socket.create_server((host, int(port)))
    except OSError as error:
        raise ConfigError(f"--http {address}: cannot listen there: {error.strerror}; choose another port") from error


async def serve(sources: Mapping[str, HttpSource], listening: socket.socket) -> None:
    """Until it is cancelled; requests under way are answered."""
    settings = uvicorn.Config(application(sources), log_level="warning", lifespan="off")
    server = _Server(settings)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await asyncio.wait({serving})
