"""Tables: files that are never written again, a manifest that names them, and a pointer to it in the store.

To commit is to write files, then a manifest, then to move the pointer by compare-and-set. Whoever is killed before that
has changed nothing; of two writers one loses, and nothing else happens.

    table = Table(store, folder, dataset)
    async with table.pinned() as snapshot:            # nothing of it is removed within the block
        count = await in_thread(lambda: snapshot.frame(spark).count())

The store is asynchronous and Spark blocks: methods of `Table` are for the event loop, those of `Snapshot` and the
functions of `frames` are for a thread (`in_thread`), and no thread ever asks the store.
"""

import asyncio
import contextvars
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import Conflict, StoreError, TableGone
from nearcast.pipeline import frames
from nearcast.pipeline.files import read_manifest, remove_files, remove_folder, write_manifest
from nearcast.pipeline.manifest import RECORDS, REJECTED, DataFile, Manifest
from nearcast.pipeline.pointer import put_surely
from nearcast.store.store import ABSENT, Store
from nearcast.transport.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS = "table/"
_HOLDS = "hold/"

_T = TypeVar("_T")
_P = ParamSpec("_P")

# Spark's jobs block for seconds, and there may be as many as channels, feeds and tables. In the loop's own few threads
# they would keep waiting whoever only reads a file, and nobody would be told of results.
_threads = ThreadPoolExecutor(max_workers=512, thread_name_prefix="spark")


async def in_thread(do: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """For what blocks: Spark, and files beside it."""
    call = partial(contextvars.copy_context().run, do, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads, call)


class _Pointer(msgspec.Struct, frozen=True):
    manifest: str
    version: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at the version that was the newest when it was pinned. Its methods block: call them in a thread."""

    dataset: Dataset
    folder: Path
    manifest: Manifest

    @property
    def version(self) -> int:
        return self.manifest.version

    def frame(self, spark: "SparkSession", version: int | None = None) -> "DataFrame":
        """All records at `version`, by default the newest; of a keyed dataset the latest of each key.

        The dataset's columns, then `_version` (with which the record came) and `_at` (when its batch was made).
        Raises TableGone for a version that is not there yet, or no longer.
        """
        version = self.version if version is None else version
        files = self.manifest.files_at(version)
        return frames.latest(spark, self.dataset, self.folder, files, version)

    def added(self, spark: "SparkSession", after: int, until: int | None = None) -> "DataFrame":
        """The records that came with versions after `after` up to `until`, by default the newest.

        Of a keyed dataset those of `frame(until)` that are so new: what was overwritten within is not among them.
        """
        until = self.version if until is None else until
        if self.dataset.key is not None:
            return self.frame(spark, until).where(f"{frames.VERSION} > {after}")
        files = self.manifest.added(after, until)
        return frames.added(spark, self.dataset, self.folder, files, after, until)

    def rows(self, after: int | None = None) -> int:
        """So many are read for `frame` at most, or for `added` after that version."""
        return sum(each.rows for each in self._files(after))

    def is_few(self, after: int | None = None) -> bool:
        """Whether they are read without a job of Spark's."""
        return frames.are_few(self.dataset, self._files(after))

    def _files(self, after: int | None) -> tuple[DataFile, ...]:
        if after is None or self.dataset.key is not None:
            return self.manifest.files_at(self.version)
        return self.manifest.added(after, self.version)

    def rejected(self, spark: "SparkSession") -> "DataFrame":
        """The side table: `reason`, `raw`, `source`, `_version`, `_at`."""
        return frames.read(spark, self.dataset, self.folder, self.manifest.files_at(self.version, REJECTED), REJECTED)


class Table:
    """The table of one dataset, in `folder`/name-id. One object per table and process: pins are this object's own.

    Every method raises StoreDown when the store cannot be reached, and TableGone when the table was dropped.
    """

    def __init__(self, store: Store, folder: Path, dataset: Dataset, clock: Clock | None = None) -> None:
        """`folder` must be the same for all of Spark's processes."""
        self.dataset = dataset
        self.folder = folder / f"{dataset.name}-{dataset.id}"
        self.writing = asyncio.Lock()  # for writers of one process: none need lose against its neighbour
        self._store = store
        self._clock = clock or SystemClock()
        self._key = _KEYS + dataset.id
        self._pins: Counter[str] = Counter()
        self._known: tuple[str, Manifest] | None = None  # the newest manifest read, by its name

    async def create(self) -> None:
        """The empty table, unless it is there already."""
        if await self._store.get(self._key) is None:
            name = await self._write(Manifest(at_s=self._clock.wall()))
            with suppress(Conflict):  # another was faster
                await self._put(_Pointer(name, 0), ABSENT)

    async def drop(self) -> None:
        """Pointer first: from then on it is gone for everybody. What is on disk goes last."""
        entry = await self._store.get(self._key)
        if entry is not None:
            await self._store.delete(self._key, entry.revision)
        await in_thread(remove_folder, self.folder)

    async def head(self) -> Manifest:
        return (await self._head())[0]

    @asynccontextmanager
    async def pinned(self) -> AsyncIterator[Snapshot]:
        """The newest version; its files stay until the block is left, whatever is compacted or expires meanwhile."""
        manifest = await self.head()
        self._pins.update(manifest.paths)
        try:
            yield Snapshot(self.dataset, self.folder, manifest)
        finally:
            self._pins.subtract(manifest.paths)
            self._pins = +self._pins

    async def append(
        self, frame: "DataFrame", offsets: Mapping[str, str] | None = None, rejected: "DataFrame | None" = None
    ) -> Manifest:
        """Writes and commits it, and beside it what did not fit; once more when another writer was faster.

        For who need not look at offsets first: a feed decides anew what to write (`write` and `commit`).
        """
        async with self.writing:
            while True:
                head = await self.head()
                files = [*await self.write(head, frame)]
                if rejected is not None:
                    files += await self.write(head, rejected, REJECTED)
                with suppress(Conflict):
                    return await self.commit(head, files, offsets or {})

    async def append_rows(self, rows: Sequence[Sequence[Any]]) -> Manifest:
        """A few records, with a value for each column, committed without a job of Spark's."""
        async with self.writing:
            while True:
                head, at_s = await self.head(), self._clock.wall()
                files = await in_thread(frames.write_rows, self.dataset, self.folder, rows, head.version + 1, at_s)
                with suppress(Conflict):
                    return await self.commit(head, files, {})

    async def write(self, head: Manifest, frame: "DataFrame", part: str = RECORDS) -> tuple[DataFile, ...]:
        """Files of the version after `head`, which are nobody's until they are committed.

        Of `frame` the dataset's columns are taken, by name. Of a keyed dataset the last record of each key is, by the
        column `_position` where there is one.
        """
        version, at_s = head.version + 1, self._clock.wall()
        return await in_thread(partial(frames.write, self.dataset, self.folder, frame, version, at_s, part=part))

    async def commit(self, head: Manifest, files: Iterable[DataFile], offsets: Mapping[str, str]) -> Manifest:
        """The next version after `head`, of files that were written for it; `offsets` of the sources they are from.

        Raises Conflict when another has committed a version since: nothing has changed, and what was written is
        removed some time.
        """
        new, at_s = tuple(files), self._clock.wall()

        def change(newest: Manifest) -> Manifest | None:
            if newest.version != head.version:
                return None
            return newest.committed(new, offsets, at_s)

        committed = await self._change(change)
        if committed is None:
            raise Conflict(f"dataset {self.dataset.name}: another has committed version {head.version + 1}: read again")
        return committed

    async def replace(self, old: Collection[str], new: Iterable[DataFile], *, folded: int = 0) -> bool:
        """The same version from other files: for compaction. False when one of the old ones is gone already."""
        files, at_s = tuple(new), self._clock.wall()
        return await self._change(lambda newest: newest.replaced(old, files, at_s, folded=folded)) is not None

    async def expire(self, files: Collection[DataFile]) -> bool:
        """Removes records for their age. False when one of the files is gone already."""
        at_s = self._clock.wall()
        return await self._change(lambda newest: newest.without(files, at_s)) is not None

    async def hold(self, owner: str, version: int | None) -> None:
        """What came after `version` stays, whatever its age, until `owner` says another one; None: it lets go.

        For who reads on from version to version, also after a restart.
        """
        key = f"{_HOLDS}{self.dataset.id}/{owner}"
        while True:
            entry = await self._store.get(key)
            try:
                if version is not None:
                    await self._store.put(key, str(version).encode(), entry.revision if entry else ABSENT)
                elif entry is not None:
                    await self._store.delete(key, entry.revision)
            except Conflict:
                continue
            return

    async def held(self) -> int | None:
        """The oldest version that somebody has yet to read on from."""
        entries = await self._store.list(f"{_HOLDS}{self.dataset.id}/")
        return min((int(entry.value) for entry in entries if entry.value is not None), default=None)

    async def clean(self, grace_s: float) -> int:
        """Removes files that the table dropped `grace_s` ago and nobody here reads, and what killed writers left.

        Readers of other processes have `grace_s` to finish. Returns how many.
        """
        before_s = self._clock.wall() - grace_s
        manifest, _, pointer = await self._head()
        gone = manifest.removable(before_s, self._pins)
        known = manifest.paths | {each.path for each in manifest.dropped} | set(self._pins)
        count = await in_thread(remove_files, self.folder, gone, known, pointer.manifest, before_s)
        if gone:
            await self._change(lambda newest: newest.forgetting(gone))
        return count

    # Within

    async def _head(self) -> tuple[Manifest, int, _Pointer]:
        entry = await self._store.get(self._key)
        if entry is None or entry.value is None:
            raise TableGone(f"dataset {self.dataset.name} (id {self.dataset.id}) has been dropped")
        try:
            pointer = msgspec.json.decode(entry.value, type=_Pointer)
        except msgspec.MsgspecError as error:
            raise StoreError(f"store: the value of {self._key!r} is not readable: {error}") from error
        if self._known is None or self._known[0] != pointer.manifest:
            self._known = pointer.manifest, await in_thread(read_manifest, self.folder, pointer.manifest)
        return self._known[1], entry.revision, pointer

    async def _change(self, change: Callable[[Manifest], Manifest | None]) -> Manifest | None:
        """Moves the pointer from the newest manifest to what `change` makes of it; None if that is None."""
        while True:
            newest, revision, _ = await self._head()
            changed = change(newest)
            if changed is None:
                return None
            name = await self._write(changed)
            try:
                await self._put(_Pointer(name, changed.version), revision)
            except Conflict:
                continue
            self._known = name, changed
            return changed

    async def _put(self, pointer: _Pointer, expected: int) -> None:
        await put_surely(self._store, self._clock, self._key, msgspec.json.encode(pointer), expected)

    async def _write(self, manifest: Manifest) -> str:
        name = f"{manifest.version:010d}-{secrets.token_hex(6)}.json"
        await in_thread(write_manifest, self.folder, name, manifest)
        return name
