"""A whole deployment on this machine: control bus, brokers, agents, coordinators, and distances between sites."""

import json
import sys
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from nearcast.domain.errors import ConfigError
from nearcast.domain.load import UNKNOWN, Resources
from nearcast.fleet.commands import CommandSpec, own_command
from nearcast.fleet.ports import HOST, free_port
from nearcast.fleet.rental import Rental, RentalSpec, renting
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.shape import Shape
from nearcast.fleet.supervisor import Supervisor
from nearcast.fleet.wan_main import WanLink, WanPlan
from nearcast.transport.config import BUS, new_key
from nearcast.transport.endpoint import NATS
from nearcast.wire.dialect import NEWEST

CONFIG_FILE = "nearcast.toml"
WAN_SOCKET = "wan.sock"
RENTAL_SOCKET = "provisioner.sock"
_MOST_SITES = 16


@dataclass(frozen=True, slots=True)
class LocalSpec:
    """One broker per site. `near_s` is the one-way delay within a site, `hop_s` what each site further away adds.

    Without delays (both 0) clients reach the brokers directly. With `bus_s` the control bus, and the store with it, is
    so far from every site, as a cloud is; coordinators are beside it. `out_bytes_per_s` and `most` are what is
    configured of each broker. With `rents`, the configuration says that further servers can be had (see
    `rental.renting`, which provides them). `rebalance` and `timing` are the tables of that name in the configuration.
    """

    sites: int = 3
    kind: str = NATS
    coordinators: int = 2
    near_s: float = 0.0
    hop_s: float = 0.0
    jitter_s: float = 0.0
    bus_s: float | None = None
    timing: dict[str, float] = field(default_factory=dict)
    protocol: int = NEWEST
    analyzer: bool = True
    out_bytes_per_s: float | None = None
    most: Resources = UNKNOWN
    link_bytes_per_s: float | None = None
    output_bytes: int | None = None
    rents: bool = False
    rebalance: dict[str, str | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.sites <= _MOST_SITES:
            raise ConfigError(f"sites is {self.sites}; expected 1 to {_MOST_SITES}")

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(f"b{number}" for number in range(1, self.sites + 1))

    def site(self, number: int) -> str:
        return f"site{number + 1}"

    def delay_s(self, site: int, broker: int) -> float:
        """Sites stand in a circle."""
        apart = abs(site - broker)
        return self.near_s + self.hop_s * min(apart, self.sites - apart)


async def launch(supervisor: Supervisor, spec: LocalSpec) -> Path:
    """Starts everything in order and returns the configuration file that clients use."""
    state = supervisor.state.resolve()
    bus = await supervisor.start(ServerSpec(NATS, "control", jetstream=True))
    monitor = spec.analyzer and spec.kind == NATS
    specs = [ServerSpec(spec.kind, each, monitor=monitor, output_bytes=spec.output_bytes) for each in spec.brokers]
    servers = [await supervisor.start(each) for each in specs]
    urls = [server.endpoint.url for server in servers]
    links = (*_links(spec, urls), *_bus_links(spec, bus.endpoint.url))
    if links:
        plan = state / "wan.json"
        WanPlan(links, str(state / WAN_SOCKET)).write(plan)
        argv = (sys.executable, "-m", "nearcast.fleet.wan_main", str(plan))
        await supervisor.start(CommandSpec("wan", "wan", argv))
    key = state / "key"
    if not key.exists():
        key.touch(mode=0o600)
        key.write_text(new_key())
    config = state / CONFIG_FILE
    config.write_text(_config_text(spec, bus.endpoint.url, servers, links))
    await launch_own(supervisor, config, spec.brokers, spec.coordinators)
    return config


async def launch_own(supervisor: Supervisor, config: Path, brokers: Iterable[str], coordinators: int) -> None:
    """Starts nearcast's own processes for servers that run already."""
    for broker in brokers:
        await supervisor.start(own_command(f"agent-{broker}", "agent", ("agent", "--broker", broker), config))
    for number in range(1, coordinators + 1):
        await supervisor.start(own_command(f"coordinator-{number}", "coordinator", ("coordinator",), config))


def renting_for(supervisor: Supervisor, spec: LocalSpec) -> AbstractAsyncContextManager[Rental]:
    """Servers like those that were launched. A rented one is reached directly, from wherever."""
    state = supervisor.state.resolve()
    rental = RentalSpec(spec.kind, state / CONFIG_FILE, spec.analyzer, spec.out_bytes_per_s)
    return renting(supervisor, rental, state / RENTAL_SOCKET)


def _links(spec: LocalSpec, urls: list[str]) -> tuple[WanLink, ...]:
    """From every site to every broker, unless nothing is far."""
    if not spec.near_s and not spec.hop_s:
        return ()
    return tuple(
        WanLink(
            spec.site(site),
            name,
            urls[broker],
            free_port(),
            Shape(spec.delay_s(site, broker), spec.jitter_s, spec.link_bytes_per_s),
        )
        for site in range(spec.sites)
        for broker, name in enumerate(spec.brokers)
    )


def _bus_links(spec: LocalSpec, url: str) -> tuple[WanLink, ...]:
    if spec.bus_s is None:
        return ()
    shape = Shape(spec.bus_s, spec.jitter_s)
    return tuple(WanLink(spec.site(site), BUS, url, free_port(), shape) for site in range(spec.sites))


def _config_text(spec: LocalSpec, bus: str, servers: list[Server], links: tuple[WanLink, ...]) -> str:
    parts = [
        "# Written by nearcast; clients read it.",
        'key_file = "key"',
        *([f"protocol = {spec.protocol}"] if spec.protocol != NEWEST else []),
        *(["analyzer = false"] if not spec.analyzer else []),
        f'\n[control]\nurl = "{bus}"',
    ]
    for number, (broker, server) in enumerate(zip(spec.brokers, servers, strict=True)):
        parts.append(f'\n[[broker]]\nname = "{broker}"\nurl = "{server.url}"\nsite = "{spec.site(number)}"')
        known = {"out_bytes_per_s": spec.out_bytes_per_s, **asdict(spec.most)}
        parts += [f"{key} = {value!r}" for key, value in known.items() if value is not None]
        if server.monitor_url is not None:
            parts.append(f'monitor = "{server.monitor_url}"')
    for link in links:
        way = f"{urlsplit(link.url).scheme}://{HOST}:{link.port}"
        parts.append(f'\n[[way]]\nsite = "{link.site}"\nbroker = "{link.broker}"\nurl = "{way}"')
    if spec.rents:
        parts.append(f'\n[provisioner]\nsocket = "{RENTAL_SOCKET}"')
    for name, table in (("timing", spec.timing), ("rebalance", spec.rebalance)):
        if table:
            parts.append(f"\n[{name}]\n" + "\n".join(f"{key} = {json.dumps(value)}" for key, value in table.items()))
    return "\n".join(parts) + "\n"
