"""The key with which agents sign notices on topics, and the one by which everybody knows them (Ed25519).

Whoever may publish on a topic may publish there what looks like a notice, and every client has the fleet's key. This
one only agents have; what it signed can be checked with the public key, which is no secret.
"""

import secrets
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nearcast.domain.errors import ConfigError
from nearcast.wire.dialect import Sign

_BYTES = 32
_REMEMBERED = 1024  # notices; all subscribers of a topic in one process get the same


def new_notice_key() -> str:
    """A fresh private key, as a file holds it."""
    return secrets.token_hex(_BYTES)


def public_half(private: str) -> str:
    """As the configuration has it. Raises ConfigError."""
    return _private(private).public_key().public_bytes_raw().hex()


@dataclass(frozen=True, slots=True)
class Checker:
    """A `nearcast.wire.dialect.Check`. A value, as all of the configuration: processes of Spark are sent it."""

    public: str

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        _hex(self.public)

    def __call__(self, signature: bytes, signed: bytes) -> bool:
        return _checked(self.public, signature, signed)


def signing(private: str) -> Sign:
    """Raises ConfigError."""
    return _private(private).sign


@lru_cache(_REMEMBERED)
def _checked(public: str, signature: bytes, signed: bytes) -> bool:
    try:
        _public(public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


@lru_cache
def _public(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(_hex(text))


def _private(text: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_hex(text))


def _hex(text: str) -> bytes:
    try:
        found = bytes.fromhex(text.strip())
    except ValueError:
        raise ConfigError("expected hexadecimal digits") from None  # not chained: it may be a secret
    if len(found) != _BYTES:
        raise ConfigError(f"holds {len(found)} bytes; expected {_BYTES}")
    return found
