"""The application: the API from its table of endpoints, events, metrics, and the dashboard's files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nearcast.domain.errors import LeaseLost, LinkError, NearcastError, StoreDown
from nearcast.transport.tokens import Tokens
from nearcast.web.api import Api
from nearcast.web.endpoints import ENDPOINTS, PREFIX, Endpoint
from nearcast.web.entry import Entry
from nearcast.web.models import Accepted, Problem
from nearcast.web.openapi import document
from nearcast.web.problems import Refusal, unreadable

STATIC = Path(__file__).parent / "static"
MOST_BYTES = 100_000
_KEEP_ALIVE_S = 15.0
_SOONEST_S = 0.3
_encoder = msgspec.json.Encoder()

# Everything the dashboard needs is its own; nothing of another host is loaded, and nobody may frame it.
_HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)


def application(
    api: Api, closing: asyncio.Event, metrics: Callable[[], bytes], tokens: Tokens | None = None
) -> ASGIApp:
    """`closing`: when it is set, streams of events end. Without `tokens` anybody is let in."""
    routes: list[BaseRoute] = [_route(api, each) for each in _ordered(ENDPOINTS)]
    body = _encoder.encode(document())

    async def openapi(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    async def events(_request: Request) -> Response:
        return StreamingResponse(_events(api, closing), media_type="text/event-stream")

    async def measured(_request: Request) -> Response:
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def dashboard(_request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    routes += [
        Route("/openapi.json", openapi),
        Route(f"{PREFIX}/events", events),
        Route("/metrics", measured),
        Route("/", dashboard),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_problem})
    return _with_headers(app if tokens is None else Entry(app, tokens))


def _ordered(endpoints: tuple[Endpoint, ...]) -> list[Endpoint]:
    """Where two paths fit, the longer one is meant: a topic's name may have slashes."""
    return sorted(endpoints, key=lambda each: (":path" in each.path, -len(each.path)))


def _route(api: Api, endpoint: Endpoint) -> Route:
    async def answer(request: Request) -> Response:
        try:
            return _answered(await _asked(api, endpoint, request))
        except Refusal as refusal:
            return _json(refusal.problem, refusal.status)
        except (LeaseLost, LinkError, StoreDown) as error:
            return _json(Problem(str(error)), 503)
        except NearcastError as error:
            return _json(Problem(str(error)), 409)

    return Route(endpoint.path, answer, methods=[endpoint.method])


async def _asked(api: Api, endpoint: Endpoint, request: Request) -> Any:
    given = dict(request.query_params.multi_items())
    try:
        query = msgspec.convert(given, endpoint.query, strict=False)
    except msgspec.ValidationError as error:
        raise unreadable(error, "query", endpoint.query) from error
    named = {name: request.path_params[name] for name in endpoint.names}
    if endpoint.body is None:
        return await endpoint.answer(api, query, **named)
    return await endpoint.answer(api, query, await _body(endpoint.body, request), **named)


async def _body(kind: type[msgspec.Struct], request: Request) -> msgspec.Struct:
    """JSON, and said to be: no page of another site can send that without being asked whether it may."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "the body must be JSON: send Content-Type: application/json", field="content-type")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BYTES:
            raise Refusal(413, f"a body of more than {MOST_BYTES} bytes")
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise unreadable(error, "body", kind) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"the body is no JSON: {error}") from error


def _answered(value: Any) -> Response:
    if isinstance(value, Accepted):
        return _json(value, 202, {"location": f"{PREFIX}/tasks/{value.task}"})
    return _json(value, 200)


def _json(value: object, status: int, headers: dict[str, str] | None = None) -> Response:
    if status == 503:
        headers = {"retry-after": "2"}
    return Response(_encoder.encode(value), status, headers, "application/json")


async def _http_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(_encoder.encode(Problem(error.detail)), error.status_code, error.headers, "application/json")


async def _events(api: Api, closing: asyncio.Event) -> AsyncIterator[bytes]:
    """What is new is fetched where it is: this only says that there is something."""
    closed = asyncio.ensure_future(closing.wait())
    try:
        while not closing.is_set():
            facts = {"looks": api.lookout.looks, "trouble": api.lookout.trouble}
            yield b"event: look\ndata: " + _encoder.encode(facts) + b"\n\n"
            await asyncio.wait((closed,), timeout=_SOONEST_S)
            seen = asyncio.ensure_future(api.lookout.wait())
            while not seen.done() and not closed.done():
                await asyncio.wait((seen, closed), timeout=_KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if not seen.done() and not closed.done():
                    yield b": nothing new\n\n"
            seen.cancel()
    finally:
        closed.cancel()


def _with_headers(app: ASGIApp) -> ASGIApp:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        await app(scope, receive, sent if scope["type"] == "http" else send)

    return answer
