"""Who may ask a coordinator over HTTP: tokens with a role, a name and perhaps an end.

The file holds digests only: whoever reads it can ask nothing. A token is 256 random bits, so that a plain digest does.
It is read anew when it has changed: a token that is revoked is refused at the next request.
"""

import enum
import hashlib
import hmac
import os
import secrets
import tempfile
import time
from pathlib import Path

import msgspec

from nearcast.domain.errors import ConfigError

_PREFIX = "nct_"  # by which scanners of repositories and logs can know one


class ApiRole(enum.StrEnum):
    VIEWER = "viewer"  # whatever changes nothing
    OPERATOR = "operator"  # everything


class Token(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is known of one; `expires_s` is seconds since 1970, None for one without an end."""

    name: str
    role: ApiRole
    sha256: str
    expires_s: float | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tokens: tuple[Token, ...] = ()


class Tokens:
    """Those of one file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._known: tuple[Token, ...] = ()
        self._seen: tuple[int, int, int] | None = None

    def known(self) -> tuple[Token, ...]:
        """Raises ConfigError. A file that is absent has none: nobody is let in."""
        try:
            found = self.file.stat()
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._known, self._seen = msgspec.json.decode(self.file.read_bytes(), type=_File).tokens, seen
        except FileNotFoundError:
            self._known, self._seen = (), None
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"web.tokens_file {str(self.file)!r} cannot be used: {error}") from error
        return self._known

    def owner(self, secret: str) -> Token | None:
        """The token that this is, expired or not. Every one is compared, in a time that does not tell how alike."""
        digest, found = _digest(secret), None
        for each in self.known():
            if hmac.compare_digest(each.sha256, digest):
                found = each
        return found

    def add(self, name: str, role: ApiRole, *, lasting_s: float | None = None, secret: str | None = None) -> str:
        """Gives the token itself, which nobody can read again. One of the same name is replaced."""
        secret = secret or new_token()
        expires_s = None if lasting_s is None else time.time() + lasting_s
        others = [each for each in self.known() if each.name != name]
        self._write((*others, Token(name, role, _digest(secret), expires_s)))
        return secret

    def revoke(self, name: str) -> bool:
        """Whether there was one."""
        left = tuple(each for each in self.known() if each.name != name)
        gone = len(left) < len(self.known())
        if gone:
            self._write(left)
        return gone

    def _write(self, tokens: tuple[Token, ...]) -> None:
        """At once or not at all, and readable by its owner only."""
        data = msgspec.json.format(msgspec.json.encode(_File(tokens)), indent=2)
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            number, name = tempfile.mkstemp(dir=self.file.parent)  # made with mode 0600
            with os.fdopen(number, "wb") as out:
                out.write(data)
            Path(name).replace(self.file)
        except OSError as error:
            raise ConfigError(f"web.tokens_file {str(self.file)!r} cannot be written: {error}") from error


def new_token() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
