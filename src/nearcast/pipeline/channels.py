"""Channels at work: every execution one Spark job over all subscriptions, committed by one compare-and-set.

An execution reads what its windows say: versions of datasets, pinned when it begins and written with it. Whoever is
killed before the commit has changed nothing, and the next execution has the same window, or a longer one. Of two
processes that run one channel, one loses the compare-and-set, and nothing of it is seen.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nearcast.domain.channel import Channel, ChannelSpec, Subscription, SubscriptionKey
from nearcast.domain.dataset import Dataset
from nearcast.domain.errors import ChannelError
from nearcast.domain.execution import Execution, Failure, Progress, Schedule, Window
from nearcast.pipeline import answers
from nearcast.pipeline.asking import Asker, Read
from nearcast.pipeline.files import sync
from nearcast.pipeline.pointer import put_surely
from nearcast.pipeline.progress import (
    Kept,
    begin,
    folder_of,
    kept_of,
    key_of,
    progress_of,
    put_aside,
    read_progress,
    subscriptions_table,
)
from nearcast.pipeline.results import Results, read_last, remove_results, write_last
from nearcast.pipeline.sample import Source
from nearcast.pipeline.session import is_end_of_spark
from nearcast.pipeline.sql import Compiler
from nearcast.pipeline.tables import Table, in_thread
from nearcast.pipeline.trial import tried
from nearcast.store.store import Store
from nearcast.transport.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S = 0.05  # how often a continuous channel looks for commits
_REST_S = 1.0


def checked(spark: "SparkSession", spec: ChannelSpec, datasets: Collection[Dataset], at_s: float) -> Channel:
    """A channel that does what its query says, with an id of its own. Blocks; raises ChannelError."""
    named = {each.name.lower(): each for each in datasets}
    try:
        compiler = Compiler(spec.query, spec.parameters, [each.name for each in datasets])
        sources = {name: Source(str(each.schema), each.key) for name, each in named.items()}
        trial = tried(spark, compiler, spec.parameters, sources)
    except ChannelError as error:
        raise ChannelError(f"channel {spec.name}: {error}") from error
    read = tuple(named[name].name for name in compiler.datasets)
    bound = tuple(sorted(trial.bound))
    return Channel(secrets.token_hex(6), spec, read, trial.columns, bound, trial.warnings, at_s)


class ChannelRunner:
    """One channel in one process. `tables`: of the datasets that it reads, by name.

    Every method raises StoreDown when the store cannot be reached.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        channel: Channel,
        tables: Mapping[str, Table],
        *,
        spark: "SparkSession",
        clock: Clock | None = None,
    ) -> None:
        self.channel = channel
        self._base = folder
        self.folder = folder_of(folder, channel)
        self.results = Results(self.folder)
        self._clock = clock or SystemClock()
        self.subscriptions = subscriptions_table(store, folder, channel, self._clock)
        self._store = store
        self._tables = dict(tables)
        self._last: dict[str, int] | None = None
        self._done = 0  # the execution after which it is so
        self._read: Mapping[str, Window] | None = None  # what that one read, if it was run here
        self._changing = asyncio.Lock()
        spec = channel.spec
        compiler = Compiler(spec.query, spec.parameters, channel.datasets)
        compiled = compiler.compiled(channel.columns, frozenset(channel.bound))
        self._joined, self._asked_new = compiled.joined, compiled.asked_new
        self._asker = Asker(spark, channel, compiled, self.folder, self._clock)

    @property
    def spec(self) -> ChannelSpec:
        return self.channel.spec

    @property
    def first(self) -> int:
        return self.channel.first

    async def create(self) -> None:
        """What is in the datasets now will not be new for it. Does nothing when it has begun already."""
        await self.subscriptions.create()
        await begin(self._store, self.channel, self._tables)

    # Subscriptions

    async def subscribe(self, new: Collection[Subscription]) -> int:
        """Every execution with a higher number than this one has them. Identical ones are one.

        One that is under way, and has looked before, is not such: what it is not going to have is told before it ends.
        """
        await self._subscribed({each.key: each for each in new}, active=True)
        return (await self.progress()).settled

    async def unsubscribe(self, gone: Collection[Subscription]) -> None:
        await self._subscribed({each.key: each for each in gone}, active=False)

    async def _subscribed(self, which: Mapping[SubscriptionKey, Subscription], *, active: bool) -> None:
        rows = []
        for key, each in which.items():
            values = dict(each.values)
            given = (answers.literal(one.type, values[one.name]) for one in self.channel.spec.parameters)
            rows.append((key, active, *given))
        await self.subscriptions.append_rows(rows)

    # Executions

    async def progress(self) -> Progress:
        """Raises ChannelError when the channel has been dropped."""
        return await progress_of(self._store, self.channel)

    async def changed(self) -> bool:
        """Whether a dataset of which what is new is asked for has had a commit since the last execution."""
        done = (await self.progress()).last.windows if self._read is None else self._read
        for name, table in self._tables.items():
            asked = name.lower() in self._asked_new or not self._asked_new
            if asked and (name not in done or (await table.head()).version > done[name].until):
                return True
        return False

    async def execute(self, late_s: float = 0.0) -> Execution | Failure:
        """The next one, committed; or why it came to nothing, which is written down too.

        Raises Conflict when another process has run the channel meanwhile: then nothing of this is seen.
        """
        async with self._changing:
            return await self._execute(late_s)

    async def _execute(self, late_s: float) -> Execution | Failure:
        self._read = None
        progress, revision = await read_progress(self._store, self.channel)
        if self._last is None or self._done != progress.last.number:  # another process has run it
            self._last = await self._all_last(progress)
        began_s, at_s = self._clock.now(), self._clock.wall()
        async with AsyncExitStack() as pins:
            pinned = {name: await pins.enter_async_context(table.pinned()) for name, table in self._tables.items()}
            windows = progress.windows({name: snapshot.version for name, snapshot in pinned.items()})
            progress = progress.starting()
            revision = await self._commit(progress, revision)
            asked = await pins.enter_async_context(self.subscriptions.pinned())
            number = progress.started
            read = Read(number, at_s, progress.last.at_s, windows, pinned, asked)
            try:
                written = await in_thread(self._asker.answered, read, self._last)
            except Exception as error:  # whatever it is: the channel goes on, and its users are told
                if is_end_of_spark(error):
                    raise
                took_s = self._clock.now() - began_s
                failure = Failure(at_s, answers.refusal(error, self._joined), windows, took_s)
                await self._commit(progress.failed(failure), revision)
                return failure
            execution = Execution(
                number=number,
                at_s=at_s,
                windows=windows,
                subscriptions=asked.version,
                path=written.path,
                rows=written.rows,
                keys=len(written.keys),
                took_s=round(self._clock.now() - began_s, 4),
                late_s=round(late_s, 4),
            )
            last = {**self._last, **dict.fromkeys(written.keys, number)}
            await self._commit(await self._shortened(progress.committed(execution, self._asker.plan), last), revision)
            self._last, self._done, self._read = last, number, windows
            await in_thread(self._asker.explain)  # told with the next one, which waits for it; who follows does not
        for name, window in windows.items():
            if window.until > window.after:
                await self._tables[name].hold(self.channel.work, window.until)
        return execution

    async def kept(self, after: int) -> Kept:
        """Those with a number above `after`, the oldest first, as far as their results are kept."""
        return await kept_of(self._store, self._base, self.channel, after)

    async def clean(self, keep_s: float) -> None:
        """Removes results that are older than `keep_s`, and what killed executions left. Those of the last one stay."""
        async with self._changing:
            progress, revision = await read_progress(self._store, self.channel)
            kept, before_s = (await self.kept(0)).executions, self._clock.wall() - keep_s
            old = [each.number for each in kept[:-1] if each.at_s < before_s]
            if old:
                await self._commit(progress.expired(old[-1]), revision)
            named = {each.path for each in kept[len(old) :]}
            await in_thread(remove_results, self.folder, named, progress.last.number)

    # Within

    async def _commit(self, progress: Progress, revision: int) -> int:
        return await put_surely(self._store, self._clock, key_of(self.channel), msgspec.json.encode(progress), revision)

    # Executions that were put aside

    async def _shortened(self, progress: Progress, last: Mapping[str, int]) -> Progress:
        if not progress.full:
            return progress
        older, keys = (f"{kind}-{progress.last.number:010d}-{secrets.token_hex(6)}" for kind in ("executions", "keys"))
        await in_thread(self._write_older, older, put_aside(progress), keys, last)
        return progress.put_aside(older, keys)

    def _write_older(self, older: str, value: bytes, keys: str, last: Mapping[str, int]) -> None:
        write_last(self.folder, keys, last)
        (self.folder / older).write_bytes(value)
        sync(self.folder)

    async def _all_last(self, progress: Progress) -> dict[str, int]:
        """The newest execution with rows, by key; not those whose results were removed before a restart."""
        known = progress.keys
        last = {} if known is None else await in_thread(read_last, self.folder, known.path)
        after = max(progress.floor, 0 if known is None else known.after)
        for execution in progress.executions:
            if execution.number > after:
                await in_thread(self.results.update_last, execution, last)
        return last


async def run_channel(
    runner: ChannelRunner, done: Callable[[Execution], Awaitable[None]] | None = None, clock: Clock | None = None
) -> None:
    """For ever; `done` is called after every commit.

    Raises StoreDown, ChannelError when the channel was dropped, and Conflict when another process has run it.
    """
    clock, period_s = clock or SystemClock(), runner.channel.spec.period_s
    await runner.create()
    if period_s is None:
        while True:
            if not await runner.changed():
                await clock.sleep(_LOOK_S)
            elif isinstance(found := await runner.execute(), Failure):
                await clock.sleep(_REST_S)
            elif done is not None:
                await done(found)
    schedule = Schedule((await runner.progress()).last.at_s + period_s, period_s)
    while True:
        await clock.sleep(max(0.0, schedule.due_s - clock.wall()))
        late_s, schedule = schedule.begun(clock.wall())
        found = await runner.execute(late_s)
        if isinstance(found, Execution) and done is not None:
            await done(found)
