"""A whole deployment on this machine: control bus, brokers, agents, coordinators, and distances between sites."""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from nearcast.domain.errors import ConfigError
from nearcast.domain.load import UNKNOWN, Resources
from nearcast.fleet.certificates import AUTHORITY, kept_certificates
from nearcast.fleet.cluster import Cluster
from nearcast.fleet.commands import CommandSpec, own_command
from nearcast.fleet.credentials import (
    FOLDER,
    NOTICES,
    PEER,
    TOKENS,
    kept_secret,
    make_tokens,
    role_passwords,
    tenant_file,
    token_file,
)
from nearcast.fleet.permissions import Guard, Tenant
from nearcast.fleet.ports import HOST, free_port
from nearcast.fleet.quota import Quota
from nearcast.fleet.rental import Rental, RentalSpec, renting
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.supervisor import Supervisor
from nearcast.fleet.wan_main import WanLink, WanPlan
from nearcast.transport.access import Role
from nearcast.transport.config import BUS, new_key
from nearcast.transport.endpoint import NATS
from nearcast.transport.notice_keys import new_notice_key, public_half
from nearcast.transport.tokens import ApiRole
from nearcast.wire.dialect import NEWEST

CONFIG_FILE = "nearcast.toml"
WAN_SOCKET = "wan.sock"
RENTAL_SOCKET = "provisioner.sock"
_MOST_SITES = 32
_MOST_SERVERS = 5


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """One broker per site: one server, or with `cluster` so many NATS servers that keep persistent topics together,
    each on a rack of its own; the first of them is the broker's address. `near_s` is the one-way delay within a site,
    `hop_s` what each site further away adds.

    Without delays (both 0) clients reach the brokers directly. In the place of both, `delays_s[site][broker]` says how
    far every broker is from every site; rows beyond `sites` are places without a broker, where clients may be. With
    `bus_s` the control bus, and the store with it, is so far from every site (or from each), as a cloud is;
    coordinators are beside it. `out_bytes_per_s` and `most` are what is configured of each broker. With `rents`, the
    configuration says that further servers can be had (see `rental.renting`, which provides them). `rebalance`,
    `homes` and `timing` are the tables of that name in the configuration. With `web`, coordinators serve API and
    dashboard, the first of them at `port` and each other at the next one (0: at free ones); with `metrics` too, agents
    theirs.
    Servers let in the roles of `fleet.permissions`, with passwords that are made here, and API and dashboard those who
    have one of the tokens that are made here; without `secure`, anybody. `tenants` are let in too, each with a
    configuration file of its own beside the others'. `quota` is of each broker, where secure. With
    `tls`, servers show a certificate that is made here, and whatever goes to or from them is encrypted.
    """

    sites: int = 3
    kind: str = NATS
    coordinators: int = 2
    near_s: float = 0.0
    hop_s: float = 0.0
    delays_s: tuple[tuple[float, ...], ...] = ()
    jitter_s: float = 0.0
    bus_s: float | tuple[float, ...] | None = None
    timing: dict[str, float] = field(default_factory=dict)
    protocol: int = NEWEST
    analyzer: bool = True
    out_bytes_per_s: float | None = None
    most: Resources = UNKNOWN
    link_bytes_per_s: float | None = None
    output_bytes: int | None = None
    rents: bool = False
    rebalance: dict[str, str | float] = field(default_factory=dict)
    homes: dict[str, str | float] = field(default_factory=dict)
    cluster: int = 1
    web: bool = False
    port: int = 0
    metrics: bool = True
    secure: bool = True
    tls: bool = False
    quota: Quota = field(default_factory=Quota)
    tenants: tuple[Tenant, ...] = ()

    def __post_init__(self) -> None:
        names = [each.name for each in self.tenants]
        if len(set(names)) < len(names) or Path(CONFIG_FILE).stem in names:
            raise ConfigError(f"tenants are {', '.join(names)}; expected names that differ, and none nearcast")
        if names and not self.secure:
            raise ConfigError(f"tenants {', '.join(names)}: servers that let in anybody tell nobody apart")
        if not 1 <= self.cluster <= _MOST_SERVERS:
            raise ConfigError(f"cluster is {self.cluster}; expected 1 to {_MOST_SERVERS} servers per site")
        if self.cluster > 1 and self.kind != NATS:
            raise ConfigError(f"cluster is {self.cluster}: {self.kind} keeps no persistent topics, only NATS does")
        if not 1 <= self.sites <= _MOST_SITES:
            raise ConfigError(f"sites is {self.sites}; expected 1 to {_MOST_SITES}")
        if self.delays_s and (len(self.delays_s) < self.sites or {*map(len, self.delays_s)} != {self.sites}):
            raise ConfigError(f"delays_s has rows of {[*map(len, self.delays_s)]}; each site needs one of {self.sites}")

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(f"b{number}" for number in range(1, self.sites + 1))

    def site(self, number: int) -> str:
        return f"site{number + 1}"

    def delay_s(self, site: int, broker: int) -> float:
        """Unless it was said how far each is from each, sites stand in a circle."""
        if self.delays_s:
            return self.delays_s[site][broker]
        apart = abs(site - broker)
        return self.near_s + self.hop_s * min(apart, self.sites - apart)


async def launch(supervisor: Supervisor, spec: LocalSpec) -> Path:
    """Starts everything in order and returns the configuration file that clients use."""
    state = supervisor.state.resolve()
    guard = _guard(state, spec)
    bus_guard = None if guard is None else Guard(guard.passwords, bus=True)
    tls = kept_certificates(state) if spec.tls else None
    bus = await supervisor.start(ServerSpec(NATS, "control", jetstream=True, guard=bus_guard, tls=tls))
    peers = kept_secret(state / FOLDER / PEER) if spec.secure and spec.cluster > 1 else None
    sites = [
        [await supervisor.start(replace(each, guard=guard, tls=tls)) for each in _servers(spec, broker, peers)]
        for broker in spec.brokers
    ]
    urls = [[server.endpoint.url for server in servers] for servers in sites]
    links = (*_links(spec, urls), *_bus_links(spec, bus.endpoint.url))
    if links:
        plan = state / "wan.json"
        WanPlan(links, str(state / WAN_SOCKET)).write(plan)
        argv = (sys.executable, "-m", "nearcast.fleet.wan_main", str(plan))
        await supervisor.start(CommandSpec("wan", "wan", argv))
    kept_secret(state / "key", new_key)
    if spec.web and spec.secure:
        make_tokens(state)
    config = state / CONFIG_FILE
    signed_by = public_half(kept_secret(state / NOTICES, new_notice_key)) if spec.secure else ""
    config.write_text(_config_text(spec, bus.endpoint.url, sites, links, signed_by))
    for tenant in spec.tenants:
        text = _config_text(spec, bus.endpoint.url, sites, links, signed_by, tenant)
        config.with_name(f"{tenant.name}.toml").write_text(text)
    ports = [spec.port + number if spec.port else free_port() for number in range(spec.coordinators)]
    await launch_own(supervisor, config, spec.brokers, spec.coordinators, ports if spec.web else ())
    return config


async def launch_own(
    supervisor: Supervisor, config: Path, brokers: Iterable[str], coordinators: int, ports: Sequence[int] = ()
) -> None:
    """Starts nearcast's own processes for servers that run already. `ports`: where coordinators serve HTTP."""
    for broker in brokers:
        await supervisor.start(own_command(f"agent-{broker}", "agent", ("agent", "--broker", broker), config))
    for number in range(1, coordinators + 1):
        # A port of its own, not a free one each time: after a restart it is where it was.
        web = ("--web", f"{HOST}:{ports[number - 1]}") if ports else ()
        await supervisor.start(own_command(f"coordinator-{number}", "coordinator", ("coordinator", *web), config))


def renting_for(supervisor: Supervisor, spec: LocalSpec) -> AbstractAsyncContextManager[Rental]:
    """Servers like those that were launched. A rented one is reached directly, from wherever."""
    state = supervisor.state.resolve()
    tls = kept_certificates(state) if spec.tls else None
    guard = _guard(state, spec)
    rental = RentalSpec(spec.kind, state / CONFIG_FILE, spec.analyzer, spec.out_bytes_per_s, guard, tls)
    return renting(supervisor, rental, state / RENTAL_SOCKET)


def _guard(state: Path, spec: LocalSpec) -> Guard | None:
    """Of its brokers."""
    if not spec.secure:
        return None
    tenants = {each: kept_secret(state / tenant_file(each.name)) for each in spec.tenants}
    return Guard(role_passwords(state), quota=spec.quota, tenants=tenants)


def _servers(spec: LocalSpec, broker: str, peers: str | None) -> list[ServerSpec]:
    """Of one broker; the first has its name. `peers`: the password by which they know each other."""
    monitor = spec.analyzer and spec.kind == NATS
    plain = ServerSpec(spec.kind, broker, monitor=monitor, output_bytes=spec.output_bytes)
    if spec.cluster == 1:
        return [plain]
    ports = tuple(free_port() for _ in range(spec.cluster))
    return [
        replace(
            plain,
            name=broker if not number else f"{broker}-{number + 1}",
            jetstream=True,
            monitor=monitor and not number,
            cluster=Cluster(broker, port, ports, f"rack{number + 1}", peers),
        )
        for number, port in enumerate(ports)
    ]


def _links(spec: LocalSpec, urls: list[list[str]]) -> tuple[WanLink, ...]:
    """From every site to every server of every broker, unless nothing is far."""
    if not (spec.near_s or spec.hop_s or spec.delays_s):
        return ()
    return tuple(
        WanLink(
            spec.site(site),
            name,
            url,
            free_port(),
            Shape(spec.delay_s(site, broker), spec.jitter_s, spec.link_bytes_per_s),
        )
        for site in range(max(spec.sites, len(spec.delays_s)))
        for broker, name in enumerate(spec.brokers)
        for url in urls[broker]
    )


def _bus_links(spec: LocalSpec, url: str) -> tuple[WanLink, ...]:
    if spec.bus_s is None:
        return ()
    delays_s = spec.bus_s if isinstance(spec.bus_s, tuple) else (spec.bus_s,) * spec.sites
    shapes = [Shape(delay_s, spec.jitter_s) for delay_s in delays_s]
    return tuple(WanLink(spec.site(site), BUS, url, free_port(), shape) for site, shape in enumerate(shapes))


def _config_text(  # noqa: PLR0917  # private; its callers have them all at hand
    spec: LocalSpec,
    bus: str,
    sites: list[list[Server]],
    links: tuple[WanLink, ...],
    signed_by: str,
    tenant: Tenant | None = None,
) -> str:
    """A tenant's has what a client needs."""
    parts = [
        "# Written by nearcast; clients read it." if tenant is None else f"# Written by nearcast for {tenant.name}.",
        'key_file = "key"',
        *([f'notice_key = "{signed_by}"'] if signed_by else []),
        *([f'notice_key_file = "{NOTICES}"'] if signed_by and tenant is None else []),
        *([f"protocol = {spec.protocol}"] if spec.protocol != NEWEST else []),
        *(["analyzer = false"] if not spec.analyzer else []),
        f'\n[control]\nurl = "{bus}"',
    ]
    if spec.tls:
        parts.append(f'\n[tls]\nca_file = "{AUTHORITY}"')
    if tenant is not None:
        parts.append(f'\n[access.{Role.CLIENT}]\nuser = "{tenant.name}"\npassword_file = "{tenant_file(tenant.name)}"')
        parts.append(f"topics = {json.dumps(tenant.topics)}")
    elif spec.secure:
        parts += [f'\n[access.{role}]\nuser = "{role}"\npassword_file = "{FOLDER}/{role}"' for role in Role]
    for number, (broker, (server, *others)) in enumerate(zip(spec.brokers, sites, strict=True)):
        parts.append(f'\n[[broker]]\nname = "{broker}"\nurl = "{server.url}"\nsite = "{spec.site(number)}"')
        known = {"out_bytes_per_s": spec.out_bytes_per_s, **asdict(spec.most)}
        parts += [f"{key} = {value!r}" for key, value in known.items() if value is not None]
        if server.monitor_url is not None:
            parts.append(f'monitor = "{server.monitor_url}"')
        if others:
            parts.append(f"servers = {json.dumps([other.url for other in others])}")
    ways: dict[tuple[str, str], list[str]] = {}
    for link in links:
        way = f"{urlsplit(link.url).scheme}://{HOST}:{link.port}"
        ways.setdefault((link.site, link.broker), []).append(way)
    for (site, broker), (way, *further) in ways.items():
        parts.append(f'\n[[way]]\nsite = "{site}"\nbroker = "{broker}"\nurl = "{way}"')
        if further:
            parts.append(f"servers = {json.dumps(further)}")
    if spec.web and tenant is None:
        parts.append("\n[web]")
        parts += [f'metrics = "{HOST}:0"'] if spec.metrics else []
        mine = token_file(Path(TOKENS), ApiRole.OPERATOR)
        parts += [f'tokens_file = "{TOKENS}"\ntoken_file = "{mine}"'] if spec.secure else []
    if spec.rents and tenant is None:
        parts.append(f'\n[provisioner]\nsocket = "{RENTAL_SOCKET}"')
    for name, table in (("timing", spec.timing), ("rebalance", spec.rebalance), ("homes", spec.homes)):
        if table:
            parts.append(f"\n[{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items()))
    return "\n".join(parts) + "\n"
