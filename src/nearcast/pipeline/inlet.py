"""What is answered to those who hand records to feeds from `http`. Needs `nearcast[web]`."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nearcast.pipeline.http_source import HttpSource

MOST_BYTES = 8 << 20
_MOST_KEY = 200


def routes_to(sources: Mapping[str, HttpSource]) -> list[Route]:
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

    return [Route("/feeds/{name}", take, methods=["POST"])]
