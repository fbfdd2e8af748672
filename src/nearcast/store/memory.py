"""A store in this process's memory, shared by simulated processes through one handle each."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from nearcast.domain.errors import Conflict, StoreDown
from nearcast.store.store import ABSENT, Entry, must_fit
from nearcast.transport.clock import Clock


@dataclass(frozen=True, slots=True)
class _Lease:
    owner: str
    term: int
    until_s: float


class MemoryStore:
    """The store itself. It goes by a clock of its own, as a server does; `delay_s` is one way to it or back."""

    def __init__(self, clock: Clock, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self._clock = clock
        self._down = False
        self._revision = 0
        self._entries: dict[str, Entry] = {}
        self._leases: dict[str, _Lease] = {}
        self._handles: list[MemoryStoreHandle] = []

    def handle(self, clock: Clock) -> "MemoryStoreHandle":
        """What one process reaches the store by; `clock` is that process's."""
        handle = MemoryStoreHandle(self, clock)
        self._handles.append(handle)
        return handle

    @property
    def down(self) -> bool:
        return self._down

    @down.setter
    def down(self, down: bool) -> None:
        """Out of reach for everybody. Nothing that was written is lost."""
        self._down = down
        for handle in self._handles:
            handle.reach_changed()

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def list(self, prefix: str) -> list[Entry]:
        return [self._entries[key] for key in sorted(self._entries) if key.startswith(prefix)]

    def put(self, key: str, value: bytes | None, expected: int) -> int:
        current = self._entries.get(key)
        revision = current.revision if current else ABSENT
        if revision != expected:
            raise Conflict(f"{key!r} is at revision {revision}, not {expected}: read it again and decide again")
        if value is None and current is None:
            return ABSENT
        self._revision += 1
        entry = Entry(key, value, self._revision)
        if value is None:
            del self._entries[key]
        else:
            self._entries[key] = entry
        for handle in self._handles:
            handle.tell(entry)
        return self._revision

    def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        now_s = self._clock.now()
        lease = self._leases.get(key)
        held = lease is not None and now_s < lease.until_s
        if held and lease is not None and lease.owner != owner:
            return None
        earlier = lease.term if lease else 0
        term = earlier if held else earlier + 1
        self._leases[key] = _Lease(owner, term, now_s + ttl_s)
        return term

    def release(self, key: str, owner: str) -> None:
        lease = self._leases.get(key)
        if lease is not None and lease.owner == owner:
            self._leases[key] = _Lease(owner, lease.term, self._clock.now())


class MemoryStoreHandle:
    """A `nearcast.store.store.Store` for one process. `down` cuts this process off from the store."""

    def __init__(self, store: MemoryStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._down = False
        self._watches: dict[_Watch, None] = {}

    @property
    def down(self) -> bool:
        return self._down or self._store.down

    @down.setter
    def down(self, down: bool) -> None:
        self._down = down
        self.reach_changed()

    async def get(self, key: str) -> Entry | None:
        await self._there("get", key)
        entry = self._store.get(key)
        await self._back("get", key)
        return entry

    async def put(self, key: str, value: bytes, expected: int) -> int:
        must_fit(key, value)
        await self._there("put", key)
        try:
            return self._store.put(key, value, expected)
        finally:
            await self._back("put", key)

    async def delete(self, key: str, expected: int) -> None:
        await self._there("delete", key)
        try:
            self._store.put(key, None, expected)
        finally:
            await self._back("delete", key)

    async def list(self, prefix: str) -> list[Entry]:
        await self._there("list", prefix)
        entries = self._store.list(prefix)
        await self._back("list", prefix)
        return entries

    async def watch(self, prefix: str) -> AsyncGenerator[Entry, None]:
        await self._there("watch", prefix)
        watch = _Watch(prefix, self._clock)
        self._watches[watch] = None
        try:
            present = self._store.list(prefix)
            await self._back("watch", prefix)
            for entry in present:
                yield entry
            while True:
                yield await watch.next()
        finally:
            del self._watches[watch]

    async def acquire(self, key: str, owner: str, ttl_s: float) -> int | None:
        if ttl_s <= 0:
            raise ValueError(f"lease {key!r} for {owner}: ttl_s is {ttl_s}, and must be above zero")
        await self._there("acquire", key)
        term = self._store.acquire(key, owner, ttl_s)
        await self._back("acquire", key)
        return term

    async def release(self, key: str, owner: str) -> None:
        await self._there("release", key)
        self._store.release(key, owner)
        await self._back("release", key)

    def tell(self, entry: Entry) -> None:
        """A change has been made: the watches learn it after the way back."""
        for watch in self._watches:
            if entry.key.startswith(watch.prefix):
                watch.keep(entry)
                if not self.down:
                    watch.let_through(self._store.delay_s)

    def reach_changed(self) -> None:
        if not self.down:
            for watch in self._watches:
                watch.let_through(self._store.delay_s)

    async def _there(self, what: str, key: str) -> None:
        if self._store.delay_s:
            await self._clock.sleep(self._store.delay_s)
        if self.down:
            raise StoreDown(f"{what} {key!r}: the store cannot be reached, and nothing was done")

    async def _back(self, what: str, key: str) -> None:
        if self._store.delay_s:
            await self._clock.sleep(self._store.delay_s)
        if self.down:
            raise StoreDown(f"{what} {key!r}: the store was lost before it answered: it may have been done")


class _Watch:
    """What one watcher has yet to learn: kept by the store while it is cut off, then on the way, then arrived."""

    def __init__(self, prefix: str, clock: Clock) -> None:
        self.prefix = prefix
        self._clock = clock
        self._kept: deque[Entry] = deque()
        self._on_the_way: deque[Entry] = deque()
        self._arrived: asyncio.Queue[Entry] = asyncio.Queue()

    def keep(self, entry: Entry) -> None:
        self._kept.append(entry)

    def let_through(self, delay_s: float) -> None:
        """Send what was kept. Arrivals are in order whatever the delays, because each takes the oldest one."""
        while self._kept:
            self._on_the_way.append(self._kept.popleft())
            self._clock.call_later(delay_s, self._arrive)

    async def next(self) -> Entry:
        return await self._arrived.get()

    def _arrive(self) -> None:
        self._arrived.put_nowait(self._on_the_way.popleft())
