"""Where a server is and how to be let in."""

import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nearcast.domain.errors import ConfigError

NATS = "nats"
REDIS = "redis"
DEFAULT_PORTS = {NATS: 4222, REDIS: 6379}

# scheme -> (kind, whether TLS is asked for)
_SCHEMES = {"nats": (NATS, False), "tls": (NATS, True), "redis": (REDIS, False), "rediss": (REDIS, True)}
_EXPECTED = "expected nats://, tls://, redis:// or rediss://, then [user:password@]host[:port]"
_HOST = re.compile(r"[\w.:%-]+")


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust and what to show. Without `ca_file` the machine's own authorities are trusted."""

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None  # what the server's certificate must say, when that is not the host connected to

    def client_context(self) -> ssl.SSLContext:
        """Checks the server's certificate and name, always. Raises ConfigError naming the file that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise ConfigError(f"tls: ca_file {str(self.ca_file)!r} cannot be used: {error}") from error
        if self.cert_file is not None:
            try:
                # With the empty password a key that needs one is refused; without, OpenSSL asks on the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password="")
            except OSError as error:
                names = f"cert_file {str(self.cert_file)!r} with key_file {str(self.key_file or self.cert_file)!r}"
                raise ConfigError(f"tls: {names} cannot be used: {error}") from error
        elif self.key_file is not None:
            raise ConfigError(f"tls: key_file {str(self.key_file)!r} has no cert_file to go with it")
        return context


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one server, with the credentials that it asks for. Nothing here shows the password."""

    kind: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    def __post_init__(self) -> None:
        if self.kind not in DEFAULT_PORTS:
            raise ConfigError(f"kind {self.kind!r} is not a kind of server ({', '.join(DEFAULT_PORTS)})")
        if not _HOST.fullmatch(self.host):
            raise ConfigError(f"host {self.host!r} is not a host name or an address")
        if not 0 < self.port < 65536:
            raise ConfigError(f"port {self.port} is not between 1 and 65535")
        if self.user is not None and self.password is None:
            raise ConfigError(f"user {self.user!r} has no password")
        if self.kind == NATS and self.password is not None and self.user is None:
            raise ConfigError("a password without a user is known to Redis only; NATS asks for both")

    @classmethod
    def parse(cls, url: str, *, tls: Tls | None = None) -> "Endpoint":
        """`tls` says how to use TLS; it is used also when the scheme does not ask for it."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:  # Not chained: its message may quote a password that has an unescaped character.
            raise ConfigError(f"{_shown(url)} is not an address: {_EXPECTED}") from None
        if parts.scheme not in _SCHEMES:
            raise ConfigError(f"{_shown(url)} has the scheme {parts.scheme!r}: {_EXPECTED}")
        if not parts.hostname:
            raise ConfigError(f"{_shown(url)} names no host: {_EXPECTED}")
        if parts.path not in {"", "/"} or parts.query or parts.fragment:
            raise ConfigError(f"{_shown(url)} has more than an address: {_EXPECTED}")
        kind, wants_tls = _SCHEMES[parts.scheme]
        if tls is None and wants_tls:
            tls = Tls()
        user, password = (unquote(part) if part else None for part in (parts.username, parts.password))
        try:
            return cls(kind, parts.hostname, DEFAULT_PORTS[kind] if port is None else port, user, password, tls)
        except ConfigError as error:
            raise ConfigError(f"{_shown(url)}: {error}") from None

    @property
    def url(self) -> str:
        """Without user and password: it may be shown, and given to a library beside the credentials."""
        scheme = next(name for name, meant in _SCHEMES.items() if meant == (self.kind, self.tls is not None))
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}"


def _shown(url: str) -> str:
    before, at, after = url.rpartition("@")
    return repr(f"{before.partition('//')[0]}//...@{after}" if at else url)
