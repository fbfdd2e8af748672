"""Who is let in, and to what: a token in a header, or in a cookie that a link with a token has left."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from http.cookies import CookieError, SimpleCookie

import msgspec
from starlette.datastructures import Headers, QueryParams
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from nearcast.domain.errors import ConfigError
from nearcast.transport.tokens import ApiRole, Token, Tokens
from nearcast.web.endpoints import PREFIX
from nearcast.web.models import Problem

LINK = "token"  # the parameter of a link to the dashboard
_COOKIE_S = 7 * 86_400
_READS = {"GET", "HEAD", "OPTIONS"}
_AGAIN = "`nearcast token create` makes another"
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>nearcast</title>
<h1>Who are you?</h1><p>{why}.</p>
<p>Open the link that <code>nearcast token link</code> prints.</p></html>"""


@dataclass(frozen=True, slots=True)
class Refused:
    status: int
    why: str


class Entry:
    """Before an application. What lives below /api needs a token; files of the dashboard, health, metrics and the
    document do not: they tell nothing of topics that a metric does not, and change nothing.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens, clock: Callable[[], float] = time.time) -> None:
        self._app = app
        self._tokens = tokens
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._answer(scope) if scope["type"] == "http" else None
        await (answer or self._app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        """None for who may pass."""
        path, headers = scope["path"], Headers(scope=scope)
        if path == "/":
            return self._page(scope, headers)
        if not path.startswith(PREFIX):
            return None
        needed = ApiRole.VIEWER if scope["method"] in _READS else ApiRole.OPERATOR
        found = self.judged(_bearer(headers) or _from_cookie(headers, scope), needed)
        if isinstance(found, Token):
            return None
        more = {"www-authenticate": 'Bearer realm="nearcast"'} if found.status == 401 else {}
        return Response(msgspec.json.encode(Problem(found.why)), found.status, more, "application/json")

    def judged(self, secret: str, needed: ApiRole) -> Token | Refused:
        if not secret:
            return Refused(401, "a token is needed: send Authorization: Bearer TOKEN; `nearcast token` has them")
        try:
            token = self._tokens.owner(secret)
        except ConfigError as error:
            return Refused(401, str(error))
        if token is None:
            return Refused(401, f"the token is not known here: it was revoked, or is another fleet's; {_AGAIN}")
        if token.expires_s is not None and token.expires_s <= self._clock():
            ended = datetime.fromtimestamp(token.expires_s, UTC).isoformat(timespec="seconds")
            return Refused(401, f"the token {token.name!r} expired at {ended}; {_AGAIN}")
        if needed is ApiRole.OPERATOR and token.role is not ApiRole.OPERATOR:
            return Refused(403, f"this needs the role operator; the token {token.name!r} has the role {token.role}")
        return token

    def _page(self, scope: Scope, headers: Headers) -> Response | None:
        """The dashboard: a link's token becomes a cookie, and is gone from the address."""
        linked = QueryParams(scope["query_string"]).get(LINK, "")
        found = self.judged(linked or _from_cookie(headers, scope), ApiRole.VIEWER)
        if isinstance(found, Refused):
            return HTMLResponse(_PAGE.format(why=escape(found.why)), found.status)
        if not linked:
            return None
        left_s = _COOKIE_S if found.expires_s is None else min(_COOKIE_S, found.expires_s - self._clock())
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            _cookie(scope),
            linked,
            max_age=max(1, int(left_s)),
            httponly=True,
            samesite="strict",
            secure=scope["scheme"] == "https",
        )
        return answer


def _bearer(headers: Headers) -> str:
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _from_cookie(headers: Headers, scope: Scope) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(_cookie(scope))
    except CookieError:
        return ""
    return "" if found is None else found.value


def _cookie(scope: Scope) -> str:
    """Browsers keep cookies by host, whatever the port: two fleets on one machine must not share one."""
    return f"nearcast-{scope['server'][1]}"
