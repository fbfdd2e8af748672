"""The store as everything above this package sees it: compare-and-set, watch, lease."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

ABSENT = 0  # The revision of a key that does not exist.


@dataclass(frozen=True, slots=True)
class Entry:
    """A key at one revision. A deletion has no value."""

    key: str
    value: bytes | None
    revision: int


class Store(Protocol):
    """Shared by all processes of a deployment; every write is seen by all later reads.

    Every method raises StoreDown when the store cannot be reached; a write may have been done all the same.
    """

    async def get(self, key: str) -> Entry | None: ...

    async def put(self, key: str, value: bytes, expected: int) -> int:
        """Write if the key is at revision `expected` (ABSENT: must not exist) and return the new, higher, revision.

        Raises Conflict otherwise, and then nothing has been written.
        """
        ...

    async def delete(self, key: str, expected: int) -> None:
        """Delete if the key is at revision `expected`. Raises Conflict otherwise."""
        ...

    async def list(self, prefix: str) -> list[Entry]:
        """All keys that begin with `prefix`, by name."""
        ...

    def watch(self, prefix: str) -> AsyncGenerator[Entry, None]:
        """First what is there, by name, then every change, in the order of revisions; nothing in between is missed.

        A watch outlasts an outage of the store: what was written meanwhile is told afterwards. Close it (`aclosing`)
        when it is left before the process ends.
        """
        ...

    async def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        """Take a lease for `ttl_s`, and return its term; None while another owner holds it.

        A term is greater than all earlier ones of the key. An owner that acquires again before its lease has run out
        renews it and keeps its term. Leases have keys of their own: get, list and watch do not see them.
        """
        ...

    async def release(self, key: str, owner: str) -> None:
        """Give a lease back early. Does nothing when `owner` does not hold it."""
        ...
