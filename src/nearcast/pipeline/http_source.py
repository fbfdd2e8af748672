"""Records handed over by HTTP: answered for when they are on disk, and taken once per idempotency key.

    POST /feeds/NAME      one JSON object, or one per line
    Idempotency-Key: K    optional: the same again is answered as before, and not taken again

A web server hands requests to `take`, and a feed reads what was taken with `next`. Who repeats a request without an
answer must do so with its key.
"""

import asyncio
import time
from functools import partial
from pathlib import Path

from nearcast.pipeline.records import judged_texts
from nearcast.pipeline.sources import Batch
from nearcast.pipeline.wal import Entry, Spot, Wal

KEEP_KEYS_S = 86_400.0
_GATHER_S = 0.1  # a batch costs about as much for one record as for hundreds
_MOST = 50_000


class HttpSource:
    """Of one feed, as long as it runs; another process that runs it later goes on with the same folder."""

    def __init__(self, folder: Path, name: str, gather_s: float = _GATHER_S) -> None:
        self._name = name
        self._wal = Wal(folder)
        self._keys = self._wal.keys()
        self._gather_s = gather_s
        self._writing: asyncio.Task[None] | None = None
        self._waiting: list[tuple[Entry, asyncio.Future[None]]] = []
        self._under_way: dict[str, asyncio.Future[None]] = {}
        self._news = asyncio.Event()
        self._news.set()  # there may be something from before

    async def take(self, texts: tuple[str, ...], key: str | None) -> tuple[int, bool]:
        """How many records are safe now, and whether they were before."""
        if key is not None:
            while key in self._under_way:
                await asyncio.wait({self._under_way[key]})
            if key in self._keys:
                return self._keys[key], True
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((Entry(texts, key), done))
        if key is not None:
            self._under_way[key] = done
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name=f"write-ahead of feed {self._name}")
        await asyncio.shield(done)  # who asked may go: it is written all the same
        return len(texts), False

    async def next(self, offset: str | None) -> Batch:
        spot = Spot() if offset is None else Spot.parse(offset)
        await asyncio.to_thread(self._wal.forget, spot, time.time() - KEEP_KEYS_S)
        while True:
            await self._news.wait()
            await asyncio.sleep(self._gather_s)
            self._news.clear()
            entries, after = await asyncio.to_thread(self._wal.read, spot, _MOST)
            texts = [text for entry in entries for text in entry.texts]
            if texts:
                self._news.set()  # there may be more
                faults: list[str | None] = [None] * len(texts)
                judged = partial(judged_texts, texts, faults, f"http:{self._name}")
                return Batch(judged, str(after), len(texts), texts)

    async def close(self) -> None:
        if self._writing is not None:
            await self._writing
        self._wal.close()

    async def _write(self) -> None:
        """One write to disk for all who wait."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._wal.append, [entry for entry, _ in batch])
            except OSError as error:
                for entry, done in batch:
                    self._under_way.pop(entry.key or "", None)
                    done.set_exception(error)
                continue
            for entry, done in batch:
                if entry.key is not None:
                    self._keys[entry.key] = len(entry.texts)
                    self._under_way.pop(entry.key, None)
                done.set_result(None)
            self._news.set()
        self._writing = None
