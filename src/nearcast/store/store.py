"""The store as everything above this package sees it: compare-and-set, watch, lease."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

ABSENT = 0  # The revision of a key that does not exist.
MAX_VALUE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A key at one revision. A deletion has no value."""

    key: str
    value: bytes | None
    revision: int


class Store(Protocol):
    """Shared by all processes of a deployment; every write is seen by all later reads.

    Every method raises StoreDown when the store cannot be reached. A write may have been done all the same, or may yet
    be done, on its way to a store that is slow: at the revision that it expects, or not at all.
    """

    async def get(self, key: str) -> Entry | None: ...

    async def put(self, key: str, value: bytes, expected: int) -> int:
        """Write if the key is at revision `expected` (ABSENT: must not exist) and return the new, higher, revision.

        Raises Conflict otherwise, and then nothing has been written; ValueError for more than MAX_VALUE_BYTES. Not
        promised: what happens at the revision of a deletion. A deleted key is ABSENT.
        """
        ...

    async def delete(self, key: str, expected: int) -> None:
        """Delete if the key is at revision `expected`. Raises Conflict otherwise."""
        ...

    async def list(self, prefix: str) -> list[Entry]:
        """All keys that begin with `prefix`, by name, as they were at one moment."""
        ...

    def watch(self, prefix: str) -> AsyncGenerator[Entry, None]:
        """First what is there, by name, then what changes, in the order of revisions, deletions too.

        What is so and stays so is always told. What has been overwritten already may be left out, since a store keeps
        the last value of each key only: a watcher that is slow, or was cut off, sees the last of many changes of a key,
        or the deletion of one that it never saw. A watch outlasts an outage of the store: StoreDown is raised only
        before anything was told. Close it (`aclosing`) when it is left before the process ends.
        """
        ...

    async def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        """Take a lease for `ttl_s`, and return its term; None while another owner holds it.

        A term is greater than all earlier ones of the key. An owner that acquires again before its lease has run out
        renews it and keeps its term, unless it has forgotten that it holds it. A lease is held for `ttl_s` from before
        `acquire` was called, on the holder's clock. Not promised: that it is free at once when it has run out. A store
        that trusts nobody's clock gives it to another only after that one has asked in vain for a little more than the
        holder's `ttl_s`. Leases have keys of their own: get, list and watch do not see them.
        """
        ...

    async def release(self, key: str, owner: str) -> None:
        """Give a lease back early. Does nothing when `owner` does not hold it."""
        ...


def must_fit(key: str, value: bytes) -> None:
    """Raises ValueError for a value that no store takes."""
    if len(value) > MAX_VALUE_BYTES:
        raise ValueError(f"{key!r}: a value of {len(value)} bytes is too large; at most {MAX_VALUE_BYTES} are allowed")
