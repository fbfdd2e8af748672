"""Leases on values that are written by compare-and-set: no two machines need to agree on the time.

A holder counts from before its request was sent. A contender counts, on its own clock, from when it first saw the
newest revision, which is later; once that has not changed for the lease's whole length, the holder has stopped, and
the contender writes over that revision. So a contender that has not looked before waits for one length, whatever the
lease's age.
"""

from typing import Protocol

import msgspec

from nearcast.domain.errors import Conflict, StoreError
from nearcast.store.store import ABSENT, Entry
from nearcast.transport.clock import Clock

# A clock that is being corrected may run fast: chrony corrects by 1 s in 12 at most.
_DRIFT = 1.1


class Values(Protocol):
    async def get(self, key: str) -> Entry | None: ...
    async def put(self, key: str, value: bytes, expected: int) -> int: ...


class _Lease(msgspec.Struct, frozen=True):
    owner: str
    term: int
    ttl_s: float
    released: bool = False


class _Held(msgspec.Struct, frozen=True):
    """By an owner of this process."""

    owner: str
    term: int
    until_s: float


class _Seen(msgspec.Struct, frozen=True):
    """The newest revision, and when it was seen first."""

    revision: int
    since_s: float


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Lease)


class CasLeases:
    """For one process. Two processes with one owner's name take the lease from each other, with rising terms."""

    def __init__(self, values: Values, clock: Clock) -> None:
        self._values = values
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._seen: dict[str, _Seen] = {}

    async def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        if ttl_s <= 0:
            raise ValueError(f"lease {key!r} for {owner}: ttl_s is {ttl_s}, and must be above zero")
        while True:
            asked_s = self._clock.now()
            revision, lease = await self._read(key)
            term = self._next_term(key, owner, revision, lease)
            if term is None:
                return None
            try:
                await self._write(key, _Lease(owner, term, ttl_s), revision)
            except Conflict:
                continue  # somebody was faster: see who
            self._held[key] = _Held(owner, term, asked_s + ttl_s)
            return term

    async def release(self, key: str, owner: str) -> None:
        while True:
            revision, lease = await self._read(key)
            if lease is None or lease.released or lease.owner != owner:
                return
            self._held.pop(key, None)
            try:
                await self._write(key, msgspec.structs.replace(lease, released=True), revision)
            except Conflict:
                continue
            return

    def _next_term(self, key: str, owner: str, revision: int, lease: _Lease | None) -> int | None:
        """What `owner` may write over this revision; None when it must wait."""
        now_s = self._clock.now()
        if lease is None:
            return 1
        if lease.released:
            return lease.term + 1
        if lease.owner == owner:
            held = self._held.get(key)
            mine = held is not None and (held.owner, held.term) == (owner, lease.term) and now_s < held.until_s
            return lease.term if mine else lease.term + 1
        seen = self._seen.get(key)
        if seen is None or seen.revision != revision:
            self._seen[key] = _Seen(revision, now_s)
            return None
        return lease.term + 1 if now_s >= seen.since_s + _DRIFT * lease.ttl_s else None

    async def _read(self, key: str) -> tuple[int, _Lease | None]:
        entry = await self._values.get(key)
        if entry is None or entry.value is None:
            return ABSENT, None
        try:
            return entry.revision, _decoder.decode(entry.value)
        except msgspec.MsgspecError as error:
            raise StoreError(f"store: the lease {key!r} is not readable: {error}") from error

    async def _write(self, key: str, lease: _Lease, expected: int) -> None:
        await self._values.put(key, _encoder.encode(lease), expected)
