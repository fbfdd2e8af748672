"""Who is let in to API and dashboard, and what is said to who is not."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from nearcast.domain.errors import ConfigError
from nearcast.transport.tokens import ApiRole, Tokens
from nearcast.web.entry import Entry
from nearcast.web.openapi import document

PATHS = ("/", "/healthz", "/metrics", "/static/main.js", "/openapi.json", "/api/v1/status", "/api/v1/brokers")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str


class Doors:
    def __init__(self, file: Path) -> None:
        async def inside(_request: Request) -> Response:
            return PlainTextResponse("inside")

        self.now_s = 0.0
        self.tokens = Tokens(file)
        app = Starlette(routes=[Route(path, inside, methods=["GET", "POST"]) for path in PATHS])
        self.entry = Entry(app, self.tokens, clock=lambda: self.now_s)

    def ask(self, path: str, method: str = "GET", query: str = "", **headers: str) -> Answer:
        return asyncio.run(self._ask(path, method, query, headers))

    async def _ask(self, path: str, method: str, query: str, headers: dict[str, str]) -> Answer:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": raw,
            "scheme": "http",
            "server": ("127.0.0.1", 8790),
            "root_path": "",
        }
        said: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await self.entry(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in said[0]["headers"]}
        return Answer(said[0]["status"], found, b"".join(each.get("body", b"") for each in said[1:]).decode())


@pytest.fixture
def doors(tmp_path: Path) -> Doors:
    return Doors(tmp_path / "tokens")


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_a_viewer_looks_and_an_operator_acts(doors: Doors) -> None:
    viewer, operator = doors.tokens.add("ann", ApiRole.VIEWER), doors.tokens.add("bob", ApiRole.OPERATOR)
    assert doors.ask("/api/v1/status", **bearer(viewer)).body == "inside"
    assert doors.ask("/api/v1/status", **bearer(operator)).body == "inside"
    assert doors.ask("/api/v1/brokers", "POST", **bearer(operator)).body == "inside"
    refused = doors.ask("/api/v1/brokers", "POST", **bearer(viewer))
    assert refused.status == 403
    said = json.loads(refused.body)["error"]
    assert said == "this needs the role operator; the token 'ann' has the role viewer"


def test_without_a_token_or_with_a_wrong_one_nothing_of_the_api_is_told(doors: Doors) -> None:
    secret = doors.tokens.add("ann", ApiRole.OPERATOR)
    wrong = [
        {},
        bearer(""),
        bearer("x"),
        bearer(secret + "x"),
        {"authorization": f"Basic {secret}"},
        {"cookie": "a;=b"},
    ]
    for headers in wrong:
        for path in ("/api/v1/status", "/api/v1/nothing"):
            refused = doors.ask(path, **headers)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, 'Bearer realm="nearcast"'), headers
            assert "token" in json.loads(refused.body)["error"]
            assert secret not in refused.body


def test_health_metrics_files_and_the_document_are_for_anybody(doors: Doors) -> None:
    for path in ("/healthz", "/metrics", "/static/main.js", "/openapi.json"):
        assert doors.ask(path).body == "inside"


def test_an_expired_token_is_refused_and_it_is_said_when_it_ended(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearcast.transport.tokens.time.time", lambda: 1000.0)
    secret = doors.tokens.add("ann", ApiRole.OPERATOR, lasting_s=60.0)
    doors.now_s = 1059.9
    assert doors.ask("/api/v1/status", **bearer(secret)).status == 200
    doors.now_s = 1060.0
    refused = doors.ask("/api/v1/status", **bearer(secret))
    assert refused.status == 401
    assert "the token 'ann' expired at 1970-01-01T00:17:40+00:00" in refused.body
    assert doors.ask("/", query=f"token={secret}").status == 401


def test_a_token_that_is_revoked_or_replaced_is_refused_at_once(doors: Doors) -> None:
    first = doors.tokens.add("ann", ApiRole.VIEWER)
    assert doors.ask("/api/v1/status", **bearer(first)).status == 200
    second = Tokens(doors.tokens.file).add("ann", ApiRole.VIEWER)
    assert [doors.ask("/api/v1/status", **bearer(each)).status for each in (first, second)] == [401, 200]
    assert Tokens(doors.tokens.file).revoke("ann")
    assert not Tokens(doors.tokens.file).revoke("ann")
    assert doors.ask("/api/v1/status", **bearer(second)).status == 401


def test_a_link_leaves_a_cookie_that_scripts_cannot_read_and_other_sites_cannot_send(doors: Doors) -> None:
    secret = doors.tokens.add("ann", ApiRole.OPERATOR)
    assert "nearcast token link" in doors.ask("/").body
    assert doors.ask("/").status == 401
    opened = doors.ask("/", query=f"token={secret}")
    assert (opened.status, opened.headers["location"]) == (303, "/"), "the token is gone from the address"
    cookie, *terms = opened.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {*terms}
    assert doors.ask("/", cookie=cookie).body == "inside"
    assert doors.ask("/api/v1/brokers", "POST", cookie=cookie).body == "inside"
    other = cookie.replace("8790", "8791")
    assert doors.ask("/api/v1/status", cookie=other).status == 401, "another fleet's on the same machine"
    assert doors.ask("/", query="token=<b>").status == 401


def test_the_file_has_digests_only_and_is_its_owners(doors: Doors) -> None:
    secret = doors.tokens.add("ann", ApiRole.OPERATOR)
    assert secret not in doors.tokens.file.read_text()
    assert doors.tokens.file.stat().st_mode & 0o777 == 0o600
    doors.tokens.file.write_text('{"tokens": 1}')
    with pytest.raises(ConfigError, match=r"web\.tokens_file '.*tokens' cannot be used"):
        doors.tokens.known()
    assert doors.ask("/api/v1/status", **bearer(secret)).status == 401, "what cannot be read lets nobody in"


def test_the_document_says_who_may_ask_what() -> None:
    made = document()
    assert made["security"] == [{"token": []}, {"cookie": []}]
    assert set(made["components"]["securitySchemes"]) == {"token", "cookie"}
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            asks = path.startswith("/api/")
            assert ("401" in operation["responses"]) == asks, path
            assert ("403" in operation["responses"]) == (asks and method == "post"), path
            assert operation.get("security", "the same") == ("the same" if asks else []), path
