"""The pipeline: one process that runs what the catalog has, as long as it leads.

What runs is a name and a coroutine (`Work`), made of the catalog by `works`: a record that comes is started, one that
goes, or is another, is ended. A work that fails is begun again after a rest, and the others do not notice.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.brokers.connect import connector
from nearcast.client import open_client
from nearcast.domain.channel import Channel
from nearcast.domain.dataset import Dataset, Feed
from nearcast.domain.errors import ConfigError, FleetError, LeaseLost, NearcastError, StoreDown
from nearcast.domain.procedure import Procedure
from nearcast.pipeline.catalog import Catalog, CatalogStore
from nearcast.pipeline.feeds import run_feed
from nearcast.pipeline.file_source import FileSource
from nearcast.pipeline.http_source import HttpSource
from nearcast.pipeline.maintenance import Care, tend
from nearcast.pipeline.session import is_end_of_spark
from nearcast.pipeline.sources import FILE, HTTP, TOPIC, Source, parse_source
from nearcast.pipeline.status import StatusStore, WorkStatus
from nearcast.pipeline.tables import Table
from nearcast.pipeline.topic_source import TopicSource
from nearcast.store.store import Store
from nearcast.transport.clock import Clock, SystemClock
from nearcast.transport.config import BUS, Config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nearcast.pipeline.channels import ChannelRunner

Work = Callable[[], Awaitable[None]]
"""Runs until it is cancelled; what it raises is told, and it is called again."""

_LEASE = "pipeline"
_LEASE_S = 5.0
_REST_S = 2.0
_TEND_S = 5.0
_CLEAN_S = 60.0
_KEEP_RESULTS_S = 86_400.0  # how long a subscriber may be away and still get everything


@dataclass
class Pipeline:
    """`works` is where kinds of records are turned into what runs: add to what it returns."""

    config: Config
    store: Store
    folder: Path
    spark: "SparkSession"
    name: str
    http: str = "127.0.0.1:8780"  # where feeds from http are handed records
    results: str = "127.0.0.1:0"  # where agents fetch results
    care: Care = field(default_factory=Care)
    clock: Clock = field(default_factory=SystemClock)
    leading: asyncio.Event = field(default_factory=asyncio.Event)
    _tables: dict[str, Table] = field(default_factory=dict)
    _runners: dict[str, "ChannelRunner"] = field(default_factory=dict)
    _inlets: dict[str, HttpSource] = field(default_factory=dict)
    _catalog: Catalog = field(default_factory=Catalog)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _failed: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def works(self, catalog: Catalog) -> Mapping[str, Work]:
        """Everything that is to run for this catalog, by a name that changes when what runs is another."""
        feeds = {each.work: partial(self._feed, each, catalog) for each in catalog.feeds}
        tables = {f"dataset {each.name} {each.id}": partial(self._tend, each) for each in catalog.datasets}
        channels = {each.work: partial(self._channel, each, catalog) for each in catalog.channels}
        channels |= {f"{each.work} care": partial(self._tend_channel, each, catalog) for each in catalog.channels}
        regular = [each for each in catalog.procedures if each.period_s is not None]
        procedures = {each.work: partial(self._procedure, each, catalog) for each in regular}
        others = {"delivery": self._deliver} if catalog.channels else {}
        if any(parse_source(each.source)[0] == HTTP for each in catalog.feeds):
            others["http"] = self._serve
        return {**feeds, **tables, **channels, **procedures, **others}

    def table(self, dataset: Dataset) -> Table:
        """The one object for this table: its pins are known to who removes files."""
        if dataset.id not in self._tables:
            self._tables[dataset.id] = Table(self.store, self.folder, dataset, self.clock)
        return self._tables[dataset.id]

    async def run(self, stopped: asyncio.Event) -> None:
        """Until it is stopped: waits to lead, leads, and waits again when another does.

        Raises FleetError when Spark has ended: nothing more can be done here, and another pipeline takes over.
        """
        while not (stopped.is_set() or self._failed.done()):
            if not await self._acquired():
                await _until(stopped, _LEASE_S / 4)
                continue
            self.leading.set()
            try:
                async with asyncio.TaskGroup() as tasks:
                    work = [tasks.create_task(self._renew()), tasks.create_task(self._run_catalog())]
                    stopping = tasks.create_task(_until(stopped))
                    await asyncio.wait({stopping, self._failed}, return_when=asyncio.FIRST_COMPLETED)
                    for task in (*work, stopping):
                        task.cancel()
            except* (LeaseLost, StoreDown) as lost:
                _say(f"does not lead any more: {lost.exceptions[0]}")
            finally:
                self.leading.clear()
        with suppress(StoreDown):
            await self.store.release(_LEASE, self.name)
        if self._failed.done():
            self._failed.result()

    # Within

    async def _acquired(self) -> bool:
        try:
            return await self.store.acquire(_LEASE, self.name, _LEASE_S) is not None
        except StoreDown:
            return False

    async def _renew(self) -> None:
        held_s = self.clock.now()
        while True:
            await self.clock.sleep(_LEASE_S / 4)
            asked_s = self.clock.now()
            try:
                if await self.store.acquire(_LEASE, self.name, _LEASE_S) is None:
                    raise LeaseLost("it holds the lease")
                held_s = asked_s
            except StoreDown as error:
                if self.clock.now() > held_s + _LEASE_S:
                    raise LeaseLost(f"the lease ran out: {error}") from error

    async def _run_catalog(self) -> None:
        """Starts and ends works as the catalog changes."""
        running: dict[str, asyncio.Task[None]] = {}
        catalogs = CatalogStore(self.store)
        async with asyncio.TaskGroup() as tasks, aclosing(catalogs.watch()) as changes:
            async for catalog in changes:
                self._catalog = catalog
                self._changed.set()
                wanted = self.works(catalog)
                for name in [name for name in running if name not in wanted]:
                    running.pop(name).cancel()
                for name, work in wanted.items():
                    if name not in running:
                        running[name] = tasks.create_task(self._kept_up(name, work), name=name)

    async def _kept_up(self, name: str, work: Work) -> None:
        status = StatusStore(self.store)
        while True:
            try:
                await status.write(name, WorkStatus(self.clock.wall()))
                await work()
            except StoreDown:
                pass  # everything waits for it
            except Exception as error:  # noqa: BLE001  # a library's own: told, and tried again
                if is_end_of_spark(error) and not self._failed.done():
                    self._failed.set_exception(FleetError(f"Spark has ended: {error}"))
                known = isinstance(error, NearcastError)
                text = str(error) if known else f"{type(error).__name__}: {error}"
                _say(f"{name}: {text}")
                with suppress(StoreDown):
                    await status.write(name, WorkStatus(self.clock.wall(), text[:1_000].partition("\n")[0]))
            await self.clock.sleep(_REST_S)

    async def _feed(self, feed: Feed, catalog: Catalog) -> None:
        source = await self._source(feed)
        try:
            await run_feed(self.spark, feed, self.table(catalog.dataset(feed.dataset)), source)
        finally:
            self._inlets.pop(feed.name, None)
            await source.close()

    async def _source(self, feed: Feed) -> Source:
        kind, what, form = parse_source(feed.source, feed.format)
        if kind == FILE:
            return FileSource(what, form)
        if kind == TOPIC:
            return TopicSource(open_client(self.config), what)
        source = await asyncio.to_thread(HttpSource, self.folder / feed.folder, feed.name)
        self._inlets[feed.name] = source
        return source

    async def _serve(self) -> None:
        """What feeds from http are handed, while there are any."""
        try:
            from nearcast.pipeline.inlet import routes_to  # noqa: PLC0415  # an extra
            from nearcast.transport.web import serving  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError("feeds from http need a web server: pip install 'nearcast[web]'") from error
        async with serving(routes_to(self._inlets), self.http, self.config.web.tls) as url:
            _say(f"feeds from http: POST {url}/feeds/NAME")
            await asyncio.Event().wait()

    async def _channel(self, channel: Channel, catalog: Catalog) -> None:
        from nearcast.pipeline.channels import run_channel  # noqa: PLC0415  # needs what comes with Spark

        await run_channel(self._runner(channel, catalog), clock=self.clock)

    async def _tend_channel(self, channel: Channel, catalog: Catalog) -> None:
        """What keeps its results and its table of subscriptions small."""
        runner = self._runner(channel, catalog)
        await runner.create()
        while True:
            await self.clock.sleep(_CLEAN_S)
            await tend(self.spark, runner.subscriptions, self.care, clock=self.clock)
            await runner.clean(_KEEP_RESULTS_S)

    async def _deliver(self) -> None:
        """Results to the agents of those who subscribe, while there are channels."""
        try:
            from nearcast.pipeline.delivery import Delivery  # noqa: PLC0415  # an extra
            from nearcast.transport.web import serving  # noqa: PLC0415
        except ImportError as error:
            raise ConfigError("subscriptions need a web server: pip install 'nearcast[web]'") from error
        config = self.config
        connect = connector(config.endpoints(), name=self.name)
        delivery = Delivery(
            connect, self.store, bus=BUS, dialect=config.dialect, clock=self.clock, timing=config.timing
        )
        async with serving(delivery.routes, self.results, config.web.tls) as url, delivery.running(url):
            while True:
                self._changed.clear()
                runners = [self._runner(each, self._catalog) for each in self._catalog.channels]
                for each in runners:
                    await each.create()
                await delivery.update(runners)
                await self._changed.wait()

    async def _procedure(self, procedure: Procedure, catalog: Catalog) -> None:
        from nearcast.pipeline.procedures import ProcedureRunner, run_procedure  # noqa: PLC0415  # as above

        names = {*procedure.datasets, *filter(None, [procedure.target])}
        tables = {name: self.table(catalog.dataset(name)) for name in sorted(names)}
        runner = ProcedureRunner(self.store, procedure, tables, spark=self.spark, clock=self.clock)
        await run_procedure(runner, self.clock)

    def _runner(self, channel: Channel, catalog: Catalog) -> "ChannelRunner":
        """The one object for this channel, as for tables."""
        from nearcast.pipeline.channels import ChannelRunner  # noqa: PLC0415  # needs what comes with Spark

        if channel.id not in self._runners:
            tables = {name: self.table(catalog.dataset(name)) for name in channel.datasets}
            runner = ChannelRunner(self.store, self.folder, channel, tables, spark=self.spark, clock=self.clock)
            self._runners[channel.id] = runner
        return self._runners[channel.id]

    async def _tend(self, dataset: Dataset) -> None:
        table = self.table(dataset)
        while True:
            await self.clock.sleep(_TEND_S)
            await tend(self.spark, table, self.care, clock=self.clock)


async def _until(stopped: asyncio.Event, timeout_s: float | None = None) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), timeout_s)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
