"""One deployment, as each of its processes knows it: read from one TOML file, with the environment over it.

`transport.config_file` shows the keys.
"""

import math
import os
import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from nearcast.control.loop import LoopSettings
from nearcast.control.rehoming import HomesSettings
from nearcast.control.timing import Timing
from nearcast.domain.broker import NAMES, is_name
from nearcast.domain.errors import ConfigError, ModelError
from nearcast.domain.load import UNKNOWN, Resources
from nearcast.domain.ring import Ring
from nearcast.domain.snapshot import RESOURCES
from nearcast.policies.epulsar import ALL_PAIRS
from nearcast.policies.epulsar import NAME as EPULSAR
from nearcast.policies.settings import Settings
from nearcast.predict.latency_model import model_from_json
from nearcast.transport.access import NOBODY, Access, RawAccess, Role, access_of
from nearcast.transport.config_file import BrokerTable, ConfigFile, TlsTable, WayTable, WebTable
from nearcast.transport.endpoint import NATS, Endpoint, Tls
from nearcast.transport.http import parse_address
from nearcast.transport.notice_keys import Checker, signing
from nearcast.wire.dialect import Check, Dialect, Sign

BUS = "_control"
"""The name by which links reach the control bus; no broker may have it."""

_NOTICE_KEY = "NEARCAST_NOTICE_KEY"
_PLACES = (Path("nearcast.toml"), Path(".nearcast/nearcast.toml"))


@dataclass(frozen=True, slots=True)
class BrokerAt:
    endpoint: Endpoint
    site: str
    out_bytes_per_s: float | None = None
    monitor: str | None = None
    most: Resources = UNKNOWN
    servers: tuple[Endpoint, ...] = ()  # of its cluster, beyond the first


@dataclass(frozen=True, slots=True)
class Web:
    """Where a coordinator serves its API and dashboard, and an agent or a pipeline its metrics: HOST:PORT, or None.

    `tokens`: the file of those who may use API and dashboard; None when anybody may. `api`: the addresses at which
    operators' commands find coordinators, if it is said; `token`: the file with which they are let in. With `tls`, all
    of it is served over HTTPS, with its certificate.
    """

    address: str | None = None
    metrics: str | None = None
    tokens: Path | None = None
    api: tuple[str, ...] = ()
    token: Path | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """`ways[site, broker]` is how that site reaches that broker's servers, or the control bus; where there is none, by
    their own addresses.

    A broker is its first server, for everything but persistent topics: any server of its cluster takes those.
    """

    name: str
    dialect: Dialect
    control: Endpoint
    brokers: Mapping[str, BrokerAt]
    ways: Mapping[tuple[str, str], tuple[Endpoint, ...]]
    timing: Timing
    path: Path
    analyzer: bool = True
    loop: LoopSettings = field(default_factory=LoopSettings)
    tls: Tls | None = None
    access: Access = NOBODY  # to brokers that are added later, if otherwise than `own`
    provisioner: Path | None = None  # the socket on which servers can be asked for
    minimum: int = 1
    sampled_topics: int = 4
    sampled_messages: int = 250
    tables: Path = Path("pipeline")  # the folder of the pipeline
    homes: HomesSettings = field(default_factory=HomesSettings)
    web: Web = Web()
    own: Access = NOBODY  # who this process is to every server whose address does not say otherwise
    roles: Mapping[str, RawAccess] = field(default_factory=dict)
    notice_key: Path | None = None  # the file with which agents sign

    def acting(self, role: Role) -> "Config":
        """As a process of this role uses it; a file that is loaded is a client's. Raises ConfigError when servers ask
        who it is and the role's password cannot be read.
        """
        own = access_of(role, self.roles, self.path)

        def let_in(endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
            return tuple(own.let_in(each, self.own) for each in endpoints)

        brokers = {
            name: replace(at, endpoint=own.let_in(at.endpoint, self.own), servers=let_in(at.servers))
            for name, at in self.brokers.items()
        }
        ways = {key: let_in(endpoints) for key, endpoints in self.ways.items()}
        control = own.let_in(self.control, self.own)
        sign = _sign(self) if role is Role.AGENT and self.dialect.check is not None else None
        dialect = replace(self.dialect, sign=sign)
        return replace(self, own=own, control=control, brokers=brokers, ways=ways, dialect=dialect)

    @property
    def counts(self) -> bool:
        """Whether clients count and agents report: only a fleet that reads it is told."""
        return self.analyzer and self.dialect.reports

    @property
    def ring(self) -> Ring:
        return Ring(tuple(self.brokers))

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.site for each in self.brokers.values() if each.site))

    def endpoints(self, site: str = "") -> Callable[[str], Endpoint]:
        """Where a process at `site` finds each broker, and the control bus. Raises ConfigError for unknown names."""
        known = dict.fromkeys((*self.sites, *(each for each, _ in self.ways)))
        if site and site not in known:
            raise ConfigError(
                f"{self.path}: no broker is at site {site!r}, and no way begins there; sites are"
                f" {', '.join(known) or 'none'}"
            )

        def endpoint_of(broker: str) -> Endpoint:
            if broker == BUS:
                return self.ways.get((site, BUS), (self.control,))[0]
            return self.servers(broker, site)[0]

        return endpoint_of

    def servers(self, broker: str, site: str = "") -> tuple[Endpoint, ...]:
        """Every server of the broker's cluster, as a process at `site` reaches it; the first is the broker's own."""
        if broker not in self.brokers:
            raise ConfigError(f"{self.path}: no broker {broker!r}; brokers are {', '.join(self.brokers)}")
        at = self.brokers[broker]
        return self.ways.get((site, broker)) or (at.endpoint, *at.servers)

    def added(self, url: str) -> Endpoint:
        """A broker that is not in the file, as this process reaches it. Raises ConfigError for what is no address."""
        endpoint = _endpoint(url, self.tls, "an address")
        access = self.own if self.access == NOBODY else self.access
        return replace(endpoint, user=access.user, password=access.password)


def find_config(path: Path | None = None) -> Path:
    """The file to use: the one that is named, NEARCAST_CONFIG, or one of the usual places."""
    named = path or (Path(os.environ["NEARCAST_CONFIG"]) if "NEARCAST_CONFIG" in os.environ else None)
    if named is not None:
        return named
    for place in _PLACES:
        if place.exists():
            return place
    places = " or ".join(map(str, _PLACES))
    raise ConfigError(
        f"no configuration: neither --config nor NEARCAST_CONFIG names a file, and there is no {places};"
        " `nearcast up` writes one"
    )


def load_config(path: Path | None = None) -> Config:
    """Raises ConfigError with the file, the key and what was expected."""
    path = find_config(path)
    try:
        raw = msgspec.convert(tomllib.loads(path.read_text()), ConfigFile)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: {error}") from error
    tls = _tls(raw.tls, path)
    control = _endpoint(os.environ.get("NEARCAST_CONTROL_URL", raw.control.url), tls, f"{path}: control.url")
    _must_be_bus(control, f"{path}: control.url")
    brokers = _brokers(raw.broker, tls, path)
    try:
        dialect = Dialect(_key(raw, path), raw.protocol, _check(raw), unsigned=raw.unsigned_notices)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    ways, timing = _ways(raw.way, brokers, tls, path), _timing(raw, path)
    socket = None if raw.provisioner.socket is None else path.parent / raw.provisioner.socket
    if raw.provisioner.minimum < 1:
        raise ConfigError(f"{path}: provisioner.minimum is {raw.provisioner.minimum}; at least one broker must stay")
    for role in raw.access:
        if role not in {*Role}:
            raise ConfigError(f"{path}: access.{role} is not known; one of {', '.join(Role)}")
    config = Config(
        raw.name,
        dialect,
        control,
        brokers,
        ways,
        timing,
        path,
        raw.analyzer,
        _loop(raw, path),
        tls,
        Access(raw.added.user, os.environ.get("NEARCAST_ADDED_PASSWORD", raw.added.password)),
        socket,
        raw.provisioner.minimum,
        raw.sampled_topics,
        raw.sampled_messages,
        (path.parent / raw.pipeline.folder).absolute(),
        _homes(raw, path),
        _web(raw.web, path),
        roles=raw.access,
        notice_key=None if raw.notice_key_file is None else path.parent / raw.notice_key_file,
    )
    return config.acting(Role.CLIENT) if Role.CLIENT in raw.access else config


def new_key() -> str:
    """A fresh key, as a key file holds it."""
    return secrets.token_hex(32)


def _brokers(raw: tuple[BrokerTable, ...], tls: Tls | None, path: Path) -> dict[str, BrokerAt]:
    out: dict[str, BrokerAt] = {}
    for number, each in enumerate(raw):
        where = f"{path}: broker[{number}]"
        if not is_name(each.name):
            raise ConfigError(f"{where}.name is {each.name!r}; {NAMES}")
        if each.name in out:
            raise ConfigError(f"{where}.name is {each.name!r}, as another broker's: names must differ")
        for key in ("out_bytes_per_s", *RESOURCES):
            value = getattr(each, key)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{where}.{key} is {value}; expected a number, more than 0")
        endpoint = _endpoint(each.url, tls, f"{where}.url")
        _must_be_monitor(each.monitor, endpoint, where)
        most = Resources(each.cores, each.memory_bytes, each.out_messages_per_s)
        servers = _servers(each.servers, endpoint, tls, where)
        out[each.name] = BrokerAt(endpoint, each.site, each.out_bytes_per_s, each.monitor, most, servers)
    if not out:
        raise ConfigError(f"{path}: broker is empty; at least one is needed")
    return out


def _servers(urls: tuple[str, ...], first: Endpoint, tls: Tls | None, where: str) -> tuple[Endpoint, ...]:
    """They let us in as the first does, unless their address says otherwise."""
    out = []
    for number, url in enumerate(urls):
        endpoint = _endpoint(url, tls, f"{where}.servers[{number}]")
        if endpoint.kind != NATS or first.kind != NATS:
            raise ConfigError(f"{where}.servers is for NATS servers, which keep persistent topics together")
        if endpoint.user is None:
            endpoint = replace(endpoint, user=first.user, password=first.password)
        out.append(endpoint)
    return tuple(out)


def _must_be_monitor(url: str | None, endpoint: Endpoint, where: str) -> None:
    if url is None:
        return
    if endpoint.kind != NATS:
        raise ConfigError(f"{where}.monitor is NATS's; a {endpoint.kind} server is asked at its own address")
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        good = False
    if not good:
        raise ConfigError(f"{where}.monitor is {url!r}; expected http:// or https://, then host[:port]")


def _ways(
    raw: tuple[WayTable, ...], brokers: dict[str, BrokerAt], tls: Tls | None, path: Path
) -> dict[tuple[str, str], tuple[Endpoint, ...]]:
    out: dict[tuple[str, str], tuple[Endpoint, ...]] = {}
    for number, each in enumerate(raw):
        where = f"{path}: way[{number}]"
        if each.broker not in {*brokers, BUS}:
            raise ConfigError(f"{where}.broker is {each.broker!r}; brokers are {', '.join(brokers)}")
        endpoint = _endpoint(each.url, tls, f"{where}.url")
        if each.broker == BUS:
            _must_be_bus(endpoint, f"{where}.url")
        out[each.site, each.broker] = (endpoint, *_servers(each.servers, endpoint, tls, where))
    return out


def _must_be_bus(endpoint: Endpoint, where: str) -> None:
    if endpoint.kind != NATS:
        raise ConfigError(f"{where} is {endpoint.url}; the control bus and the store need a NATS server")


def _endpoint(url: str, tls: Tls | None, where: str) -> Endpoint:
    try:
        endpoint = Endpoint.parse(url)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return replace(endpoint, tls=tls) if endpoint.tls is not None and tls is not None else endpoint


def _tls(raw: TlsTable | None, path: Path) -> Tls | None:
    if raw is None:
        return None
    files = {key: getattr(raw, key) for key in ("ca_file", "cert_file", "key_file")}
    found = {key: path.parent / name for key, name in files.items() if name is not None}
    for key, file in found.items():
        if not file.is_file():
            raise ConfigError(f"{path}: tls.{key} is {str(file)!r}, which is not a file")
    return Tls(**found)


def _timing(raw: ConfigFile, path: Path) -> Timing:
    known = Timing.__dataclass_fields__
    for key, value in raw.timing.items():
        if key not in known:
            raise ConfigError(f"{path}: timing.{key} is not known; one of {', '.join(known)}")
        if not 0 < value < 3600:
            raise ConfigError(f"{path}: timing.{key} is {value}; expected seconds, more than 0 and less than 3600")
    return Timing(**raw.timing)


def _loop(raw: ConfigFile, path: Path) -> LoopSettings:
    """The keys of LoopSettings and of Settings stand side by side; `replication`, `balancing`, `colocation` and
    `allocation` are tables. In that of `colocation`, `model` is a file.
    """
    own = {each.name for each in fields(LoopSettings)} - {"settings"}
    known = [*own, *(each.name for each in fields(Settings))]
    for key in raw.rebalance:
        if key not in known:
            raise ConfigError(f"{path}: rebalance.{key} is not known; one of {', '.join(sorted(known))}")
    if raw.rebalance.get("policy") == ALL_PAIRS:
        raise ConfigError(
            f"{path}: rebalance.policy is {ALL_PAIRS!r}, which needs the place of every client, as no fleet reports:"
            f" it is for the lab; {EPULSAR!r} does with the middles"
        )
    try:
        given = {key: value for key, value in raw.rebalance.items() if key in own}
        settings = {key: value for key, value in raw.rebalance.items() if key not in own}
        settings |= _with_model(settings.get("colocation"), path)
        return msgspec.convert({**given, "settings": settings}, LoopSettings)
    except (ConfigError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: rebalance: {error}") from error


def _with_model(colocation: object, path: Path) -> dict[str, object]:
    """The table with the model itself, in the place of its file's name."""
    if not isinstance(colocation, dict) or not isinstance(colocation.get("model"), str):
        return {}
    file = path.parent / colocation["model"]
    try:
        text = file.read_bytes()
        model_from_json(text, str(file))  # it says what is wrong, and where
        return {"colocation": {**colocation, "model": msgspec.json.decode(text)}}
    except OSError as error:
        raise ConfigError(f"rebalance.colocation.model {str(file)!r} cannot be read: {error.strerror}") from error
    except ModelError as error:
        raise ConfigError(f"rebalance.colocation.model: {error}") from error


def _homes(raw: ConfigFile, path: Path) -> HomesSettings:
    known = [each.name for each in fields(HomesSettings)]
    for key in raw.homes:
        if key not in known:
            raise ConfigError(f"{path}: homes.{key} is not known; one of {', '.join(known)}")
    try:
        return msgspec.convert(raw.homes, HomesSettings)
    except (ConfigError, msgspec.ValidationError) as error:
        raise ConfigError(f"{path}: homes: {error}") from error


def _web(raw: WebTable, path: Path) -> Web:
    for key, value in (("address", raw.address), ("metrics", raw.metrics)):
        try:
            parse_address(value if value is not None else "localhost:0")
        except ConfigError as error:
            raise ConfigError(f"{path}: web.{key}: {error}") from error
    tokens, token = (None if each is None else path.parent / each for each in (raw.tokens_file, raw.token_file))
    return Web(raw.address, raw.metrics, tokens, raw.api, token, _web_tls(raw, path))


def _web_tls(raw: WebTable, path: Path) -> Tls | None:
    """The files need not be there for those who only ask: they are opened where something is served."""
    if raw.cert_file is None:
        if raw.key_file is not None:
            raise ConfigError(f"{path}: web.key_file has no web.cert_file to go with it")
        return None
    key = None if raw.key_file is None else path.parent / raw.key_file
    return Tls(cert_file=path.parent / raw.cert_file, key_file=key)


def _check(raw: ConfigFile) -> Check | None:
    try:
        return None if raw.notice_key is None else Checker(raw.notice_key)
    except ConfigError as error:
        raise ConfigError(f"notice_key: {error}") from error


def _sign(config: Config) -> Sign:
    """Agents must have it where clients ask for it."""
    text, where = os.environ.get(_NOTICE_KEY), _NOTICE_KEY
    if text is None:
        if config.notice_key is None:
            raise ConfigError(f"{config.path}: notice_key_file is missing, and {_NOTICE_KEY} is not set: agents sign")
        where = f"{config.path}: notice_key_file {str(config.notice_key)!r}"
        try:
            text = config.notice_key.read_text()
        except OSError as error:
            raise ConfigError(f"{where} cannot be read: {error.strerror}") from error
    try:
        return signing(text)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _key(raw: ConfigFile, path: Path) -> bytes:
    text = os.environ.get("NEARCAST_KEY")
    where = "NEARCAST_KEY"
    if text is None:
        if raw.key_file is None:
            raise ConfigError(
                f"{path}: key_file is missing, and NEARCAST_KEY is not set; `openssl rand -hex 32` makes one"
            )
        file = path.parent / raw.key_file
        where = f"{path}: key_file {str(file)!r}"
        try:
            text = file.read_text()
        except OSError as error:
            raise ConfigError(f"{where} cannot be read: {error.strerror}") from error
    try:
        key = bytes.fromhex(text.strip())
    except ValueError as error:
        raise ConfigError(f"{where}: expected hexadecimal digits") from error
    if not 16 <= len(key) <= 64:
        raise ConfigError(f"{where}: holds {len(key)} bytes; expected 16 to 64")
    return key
