"""Which protocol version a process writes, and with which key it signs; every version from OLDEST on it reads.

A fleet goes to a new version in two rolls: first the new software, told to write the old version, then again without
that. At no time does anybody write what somebody else cannot read.

    version  what changed
    1
    2        the signature of a control message covers its version; clients' counts and agents' reports
    3        the signature of a notice on a topic covers its whole envelope, and is an agent's own where the fleet has a
             key for that: clients can tell it, and cannot make it
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from nearcast.domain.errors import ConfigError, UnknownVersion

OLDEST = 1
NEWEST = 3
SIGNATURE_BYTES = 16
NOTICE_SIGNATURE_BYTES = 64

_SIGNED_FOR = {1: b"", 2: b"nearcast 2", 3: b"nearcast 3"}


Sign = Callable[[bytes], bytes]
"""An agent's signature, of NOTICE_SIGNATURE_BYTES."""

Check = Callable[[bytes, bytes], bool]
"""Whether this is an agent's signature of that."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """`key` is the whole fleet's. With `check`, notices on topics must be signed by an agent; agents have `sign`.

    `unsigned`: those of earlier versions are taken too, while some agents still write them.
    """

    key: bytes = field(repr=False)
    version: int = NEWEST
    check: Check | None = field(default=None, repr=False)
    sign: Sign | None = field(default=None, repr=False)
    unsigned: bool = False

    def __post_init__(self) -> None:
        if not OLDEST <= self.version <= NEWEST:
            raise ConfigError(f"protocol is {self.version}; this software writes {OLDEST} to {NEWEST}")

    @property
    def reports(self) -> bool:
        """Whether others read counts and reports."""
        return self.version >= 2

    def signature(self, body: bytes, version: int) -> bytes:
        """Of a control message that is written in this version."""
        return hashlib.blake2b(body, key=self.key, digest_size=SIGNATURE_BYTES, person=_SIGNED_FOR[version]).digest()


def must_be_known(version: int, what: str) -> None:
    """Raises UnknownVersion."""
    if not OLDEST <= version <= NEWEST:
        raise UnknownVersion(
            f"{what} has protocol version {version}, this side reads {OLDEST} to {NEWEST};"
            " newer software must write `protocol` of the oldest in the fleet until all are renewed"
        )
