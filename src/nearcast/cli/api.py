"""How operators' commands reach a coordinator: by its API, whichever of them answers, with a token."""

import asyncio
import getpass
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from nearcast.domain.errors import ApiRefused, ConfigError, LeaseLost, LinkDown, NearcastError
from nearcast.domain.task import Task
from nearcast.fleet.status import read_status
from nearcast.transport.config import Config, load_config
from nearcast.transport.endpoint import Tls
from nearcast.transport.http import BadStatus, Unreached, ask
from nearcast.web.models import Accepted, Problem

API, TOKEN = "NEARCAST_API", "NEARCAST_TOKEN"
_PREFIX = "/api/v1/"
_MOST_BYTES = 256 << 20
_AGAIN_S = 0.3
_PATIENCE_S = 5.0
_WAIT_S = 20.0
_WHERE = f"{API} or web.api says where coordinators are"
_NO_SUCH_PAGE = "Not Found"
_HEADERS = {"Content-Type": "application/json"}

_T = TypeVar("_T")


class CoordinatorApi:
    """Those of one deployment. What nobody answers yet, as while leadership changes, is asked again for a while.

    Not promised: that an order which was not answered in time was not carried out.
    """

    def __init__(self, urls: Sequence[str], token: str, tls: Tls | None = None) -> None:
        """`tls`: whom coordinators at https addresses must be certified by, if not by the machine's own authorities."""
        self._urls = tuple(urls)
        self._tls = tls
        self._headers = {**_HEADERS, **({"Authorization": f"Bearer {token}"} if token else {})}

    async def get(self, path: str, kind: type[_T], *, timeout_s: float = 10.0, **query: object) -> _T:
        """Raises ApiRefused, ConfigError when it is not let in, LeaseLost when nobody leads, or LinkDown."""
        asked = f"{path}?{urlencode(query)}" if query else path
        return await self._ask(asked, None, kind, timeout_s)

    async def post(self, path: str, body: msgspec.Struct, kind: type[_T], *, timeout_s: float = 30.0) -> _T:
        """Raises likewise."""
        return await self._ask(path, msgspec.json.encode(body), kind, timeout_s)

    async def order(self, path: str, body: msgspec.Struct, *, timeout_s: float = 30.0) -> Task:
        """Has it carried out, and waits until it is. Raises likewise; ApiRefused also for what the leader refused."""
        begun_s = asyncio.get_running_loop().time()
        found = await self.post(f"{path}?dry_run=false", body, Accepted, timeout_s=timeout_s)
        while True:
            left_s = begun_s + timeout_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                raise LeaseLost(f"not done within {timeout_s:g} s; it may be done yet: task {found.task}")
            wait_s = round(min(_WAIT_S, left_s), 2)
            task = await self.get(f"tasks/{found.task}", Task, timeout_s=wait_s + _PATIENCE_S, wait_s=wait_s)
            if task.state == "refused":
                raise ApiRefused(task.outcome)
            if task.state == "done":
                return task

    async def _ask(self, path: str, body: bytes | None, kind: type[_T], timeout_s: float) -> _T:
        loop = asyncio.get_running_loop()
        patient_s = loop.time() + min(_PATIENCE_S, timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    away, nobody = [], None
                    for url in self._urls:
                        try:
                            return await self._ask_one(url, path, body, kind)
                        except _Away as error:
                            away.append(f"{url} ({error})")
                        except LeaseLost as error:
                            nobody = error
                    if nobody is None:
                        raise LinkDown(f"no coordinator answers at {' or '.join(away)}; does one run? {_WHERE}")
                    if loop.time() > patient_s:
                        raise nobody
                    await asyncio.sleep(_AGAIN_S)
        except TimeoutError:
            at = " or ".join(self._urls)
            raise LeaseLost(f"no coordinator answered within {timeout_s:g} s at {at}; does one lead?") from None

    async def _ask_one(self, url: str, path: str, body: bytes | None, kind: type[_T]) -> _T:
        try:
            content = await ask(url, _PREFIX + path, body, most_bytes=_MOST_BYTES, headers=self._headers, tls=self._tls)
        except BadStatus as error:
            raise _refusal(error, url) from error
        except (OSError, EOFError, ValueError) as error:
            why = str(error) or type(error).__name__
            if body is None or isinstance(error, Unreached):  # a question may be asked twice
                raise _Away(why) from error
            raise LinkDown(f"{url} broke off ({why}): whether it is carried out is not known") from error
        try:
            return msgspec.json.decode(content, type=kind)
        except msgspec.MsgspecError as error:
            raise ApiRefused(
                f"{url} answers what this version cannot read ({error}); is it another version?"
            ) from error


class _Away(Exception):
    """This coordinator does not answer; another may."""


def api_of(file: Path | None) -> CoordinatorApi:
    """Of the deployment in `file`, as commands are given it. NEARCAST_API and NEARCAST_TOKEN are enough by themselves.

    Raises ConfigError when nothing says where a coordinator is.
    """
    named = _urls(os.environ[API].split(","), API) if os.environ.get(API) else ()
    if named and TOKEN in os.environ:
        return CoordinatorApi(named, os.environ[TOKEN])
    config = load_config(file)
    return CoordinatorApi(named or pages_of(config), token_of(config), config.tls)


def pages_of(config: Config) -> tuple[str, ...]:
    """Where coordinators serve API and dashboard."""
    if config.web.api:
        return _urls(config.web.api, f"{config.path}: web.api")
    status = read_status(config.path.parent)
    found = [str(child.facts["web"]) for child in status.children if "web" in child.facts] if status else []
    if found:
        return tuple(found)
    if config.web.address is None:
        raise ConfigError(
            f"{config.path}: no coordinator serves an API: set web.address, or `nearcast up` with 'nearcast[web]' and"
            f" without --no-web; {_WHERE}"
        )
    return (f"{'http' if config.web.tls is None else 'https'}://{config.web.address}",)


def token_of(config: Config) -> str:
    """Empty where nothing says one: a coordinator that asks for it then says so."""
    if secret := os.environ.get(TOKEN):
        return secret
    if config.web.token is None:
        return ""
    try:
        return config.web.token.read_text().strip()
    except OSError as error:
        raise ConfigError(
            f"web.token_file {str(config.web.token)!r} cannot be read: {error.strerror}; set {TOKEN}, or make a token:"
            " `nearcast token create`"
        ) from error


def topic_path(topic: str, verb: str = "") -> str:
    return f"topics/{quote(topic, safe='')}{f'/{verb}' if verb else ''}"


def because(reason: str) -> str:
    """What is written down with an order: somebody must answer for it."""
    if reason.strip():
        return reason
    try:
        who = getpass.getuser()
    except (KeyError, OSError):  # a container without a name for who runs it
        who = "somebody"
    return f"ordered by {who} on the command line"


def _refusal(error: BadStatus, url: str) -> NearcastError:
    try:
        said = msgspec.json.decode(error.body, type=Problem)
    except msgspec.MsgspecError:
        said = Problem(_NO_SUCH_PAGE)
    if said.error == _NO_SUCH_PAGE:
        return ApiRefused(f"{url}: {error}; is a coordinator of this version there?")
    if error.status in {401, 403}:
        return ConfigError(f"{url}: {said.error} ({TOKEN}, or web.token_file, has it)")
    if error.status == 503:
        return LeaseLost(said.error)
    return ApiRefused(said.error)


def _urls(given: Sequence[str], where: str) -> tuple[str, ...]:
    found = tuple(each.strip().rstrip("/") for each in given if each.strip())
    for each in found:
        if urlsplit(each).scheme not in {"http", "https"} or not urlsplit(each).hostname:
            raise ConfigError(f"{where} is {each!r}; expected addresses like http://10.0.0.5:8790")
    return found
