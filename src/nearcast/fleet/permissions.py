"""What each role may do at a server: as users of a NATS server, and as the ACL of a Redis server.

    role          at a broker                                                        at the control bus
    client        topics; the agent's subject; inlets; its inbox; notices of         not let in
                  channels; to append to and read the logs of persistent topics
    agent         what a client may, and the other side of it: to listen at the      its commands; reports
                  agent's subject and inlets, to answer in inboxes and channels
    coordinator   everything                                                         everything, and the store

A tenant is a client that is told from others: a user of its own, which has some topics and the inboxes of its own
clients, and no logs of persistent topics.

NATS cannot say "every subject but these, and of these again some": what a client may not use is a list of refusals
(`deny`), in which every subject of `wire/` has its place. Redis can: there, whatever begins with `_nearcast.` is
refused unless it is named. Neither can tell one client's inbox from another's while they share a user.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nearcast.domain.errors import ConfigError, TopicNameError
from nearcast.domain.topic import BELOW, RESERVED_PREFIX, validate_pattern
from nearcast.fleet.quota import Quota
from nearcast.transport.access import Role
from nearcast.transport.endpoint import Endpoint
from nearcast.wire.channels import PIPELINE_SUBJECT, channel_subject
from nearcast.wire.control import AGENT_SUBJECT, COORDINATOR_SUBJECT, agent_bus_subject, client_subject, inlet_subject

_ALL = ">"
_SEALS = f"{RESERVED_PREFIX}log.*.seal"
_BUS = [f"{AGENT_SUBJECT}.>", COORDINATOR_SUBJECT, PIPELINE_SUBJECT]
_SERVERS_OWN = ["$SYS.>", "$KV.>", "$O.>"]
_STREAMS = [  # what makes, changes or ends streams; to look, to read and to append is left
    f"$JS.API.{verb}.>"
    for verb in (
        "STREAM.CREATE",
        "STREAM.UPDATE",
        "STREAM.DELETE",
        "STREAM.PURGE",
        "STREAM.MSG.DELETE",
        "STREAM.SNAPSHOT",
        "STREAM.RESTORE",
        "STREAM.LEADER",
        "STREAM.PEER",
        "CONSUMER.LEADER",
        "META",
        "SERVER",
        "ACCOUNT",
    )
]

_TENANT = re.compile(r"[a-z][a-z0-9-]{0,31}")
_CONNECT = "+ping +hello +auth +quit +reset +client|setname +client|id"


@dataclass(frozen=True, slots=True)
class Tenant:
    """Its name is the user's, and what the names of its clients begin with; `topics` are patterns."""

    name: str
    topics: tuple[str, ...]

    def __post_init__(self) -> None:
        if not _TENANT.fullmatch(self.name) or self.name in {*Role}:
            what = f"a name of small letters, digits and -, which is none of {', '.join(Role)}"
            raise ConfigError(f"tenant {self.name!r}: expected {what}")
        if not self.topics:
            raise ConfigError(f"tenant {self.name!r} has no topics: name some, like {self.name}.>")
        try:
            for each in self.topics:
                validate_pattern(each)
        except TopicNameError as error:
            raise ConfigError(f"tenant {self.name!r}: {error}") from None

    @staticmethod
    def parse(text: str) -> "Tenant":
        """As in `drones=fleet.>,alerts`."""
        name, _, topics = text.partition("=")
        return Tenant(name, tuple(filter(None, topics.split(","))))


@dataclass(frozen=True, slots=True)
class Guard:
    """Who is let in: each role's password, each tenant's; and how much each may have. `bus`: it is the control bus,
    where clients have no business."""

    passwords: Mapping[Role, str] = field(repr=False)
    bus: bool = False
    quota: Quota = field(default_factory=Quota)
    tenants: Mapping[Tenant, str] = field(default_factory=dict, repr=False)

    @property
    def roles(self) -> tuple[Role, ...]:
        return tuple(role for role in self.passwords if not (self.bus and role is Role.CLIENT))

    def let_in(self, endpoint: Endpoint) -> Endpoint:
        """With the rights of the coordinator: for whoever starts the server."""
        role = Role.COORDINATOR
        return Endpoint(endpoint.kind, endpoint.host, endpoint.port, role, self.passwords[role], endpoint.tls)


def nats_users(guard: Guard) -> list[dict[str, Any]]:
    roles = [
        {"user": role, "password": guard.passwords[role], "permissions": _nats(role, bus=guard.bus)}
        for role in guard.roles
    ]
    tenants = [
        {"user": each.name, "password": password, "permissions": {"publish": _says(each), "subscribe": _hears(each)}}
        for each, password in guard.tenants.items()
    ]
    return roles + tenants


def redis_users(guard: Guard) -> list[str]:
    """Lines of its configuration. Passwords are given by their digests."""
    lines = ["user default off"]
    lines += [_redis_user(role, guard.passwords[role], _redis(role)) for role in guard.roles]
    for each, password in guard.tenants.items():
        says, hears = (" ".join(f"&{_redis_pattern(one)}" for one in them(each)) for them in (_says, _hears))
        rights = f"resetchannels {_CONNECT} +unsubscribe (+publish {says}) (+subscribe +unsubscribe {hears})"
        lines.append(_redis_user(each.name, password, rights))
    return lines


def _redis_user(name: str, password: str, rights: str) -> str:
    return f"user {name} on #{hashlib.sha256(password.encode()).hexdigest()} {rights}"


def _says(tenant: Tenant) -> list[str]:
    return [*tenant.topics, *map(inlet_subject, tenant.topics), AGENT_SUBJECT]


def _hears(tenant: Tenant) -> list[str]:
    return [*tenant.topics, client_subject(f"{tenant.name}{BELOW}"), channel_subject(_ALL)]


def _redis_pattern(pattern: str) -> str:
    """Names of topics have nothing that Redis would take for a wildcard."""
    return f"{pattern[: -len(_ALL)]}*" if pattern.endswith(_ALL) else pattern


def _nats(role: Role, *, bus: bool) -> dict[str, Any]:
    if role is Role.COORDINATOR:
        return {"publish": _ALL, "subscribe": _ALL}
    if role is Role.AGENT and bus:
        # Its inbox is there too: an agent asks nothing on the bus, but every process has one.
        heard = [agent_bus_subject("*"), client_subject("*")]
        return {"publish": [COORDINATOR_SUBJECT, PIPELINE_SUBJECT], "subscribe": heard}
    if role is Role.AGENT:
        return {
            "publish": {"allow": _ALL, "deny": [*_BUS, _SEALS, *_SERVERS_OWN, *_STREAMS]},
            "subscribe": {"allow": _ALL, "deny": [*_BUS, *_SERVERS_OWN]},
        }
    answers = [client_subject(_ALL), channel_subject(_ALL)]
    return {
        "publish": {"allow": _ALL, "deny": [*answers, *_BUS, _SEALS, *_SERVERS_OWN, *_STREAMS]},
        "subscribe": {"allow": _ALL, "deny": [AGENT_SUBJECT, inlet_subject(_ALL), *_BUS, *_SERVERS_OWN]},
    }


def _redis(role: Role) -> str:
    if role is Role.COORDINATOR:
        return "~* &* +@all"
    if role is Role.AGENT:
        return f"&* {_CONNECT} +publish +subscribe +unsubscribe +info +pubsub +client|list"
    topics = " ".join(f"&{pattern}" for pattern in outside(RESERVED_PREFIX))
    says = f"(+publish {topics} &{AGENT_SUBJECT} &{inlet_subject('*')})"
    hears = f"(+subscribe +unsubscribe {topics} &{client_subject('*')} &{channel_subject('*')})"
    return f"resetchannels {_CONNECT} +unsubscribe {says} {hears}"


def outside(prefix: str) -> list[str]:
    """Patterns of Redis that together match every name which does not begin with `prefix`."""
    out = []
    for at, character in enumerate(prefix):
        out += [prefix[:at], f"{prefix[:at]}[^{character}]*"]
    return out[1:]
