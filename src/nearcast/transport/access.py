"""Who a process is to the servers of the fleet: its role, and where its password is kept.

Passwords are in files of their own, or in the environment: never in the configuration, which is shown and copied.
"""

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from nearcast.domain.errors import ConfigError, TopicNameError
from nearcast.domain.topic import validate_pattern
from nearcast.transport.endpoint import Endpoint


class Role(enum.StrEnum):
    """What servers tell apart. Operators and pipelines act as the coordinator does: they read and write the store."""

    CLIENT = "client"
    AGENT = "agent"
    COORDINATOR = "coordinator"


class RawAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As the configuration has it."""

    user: str
    password_file: str | None = None
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Access:
    """A user and its password; of a tenant, the patterns of the topics that are its own."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    topics: tuple[str, ...] = ()

    def let_in(self, endpoint: Endpoint, instead_of: "Access") -> Endpoint:
        """The endpoint with these credentials, unless it has some that are neither missing nor `instead_of`."""
        if endpoint.user not in {None, instead_of.user} or endpoint.password not in {None, instead_of.password}:
            return endpoint
        return replace(endpoint, user=self.user, password=self.password)


NOBODY = Access()


def password_variable(role: Role) -> str:
    return f"NEARCAST_{role.upper()}_PASSWORD"


def access_of(role: Role, known: Mapping[str, RawAccess], path: Path) -> Access:
    """What `[access.ROLE]` of the file at `path` says; NOBODY when it names no role: then servers ask for nothing.

    Raises ConfigError, without the password, when there is none to be had.
    """
    if not known:
        return NOBODY
    if role not in known:
        raise ConfigError(f"{path}: access.{role} is missing: this needs to be let in as the {role}")
    raw, variable = known[role], password_variable(role)
    password = os.environ.get(variable)
    where = variable
    if password is None:
        if raw.password_file is None:
            raise ConfigError(f"{path}: access.{role}.password_file is missing, and {variable} is not set")
        file = path.parent / raw.password_file
        where = f"{path}: access.{role}.password_file {str(file)!r}"
        try:
            password = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigError(f"{where} cannot be read: {why}") from None
    if not password or not password.isprintable():
        raise ConfigError(f"{where} holds no password: expected one line that can be printed")
    try:
        topics = tuple(map(validate_pattern, raw.topics))
    except TopicNameError as error:
        raise ConfigError(f"{path}: access.{role}.topics: {error}") from None
    return Access(raw.user, password, topics)
