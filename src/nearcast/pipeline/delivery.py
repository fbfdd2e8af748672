"""Delivery of results: which agents want what, what they are told, and what they pull.

The machine is `control.demand`. What agents want is in the store, and in each channel's own table, before they are told
that it is known. Executions are seen where they are committed, in the store, so that it does not matter which process
ran them. Results are read from the committed files, in a thread, without Spark.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nearcast.brokers.link import Connect
from nearcast.brokers.pool import Inbox, LinkPool
from nearcast.control.demand import PENDING, Demand, Demanded
from nearcast.control.timing import Timing
from nearcast.domain.channel import ChannelSpec, Notification, Subscription, SubscriptionKey
from nearcast.domain.errors import ChannelError, PipelineError, StoreDown, WireError
from nearcast.domain.execution import Execution
from nearcast.pipeline.distinct import DistinctStore
from nearcast.pipeline.progress import Kept
from nearcast.store.store import Store
from nearcast.transport.alarm import Alarm
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.wire.channels import (
    PIPELINE_SUBJECT,
    RESULTS_PATH,
    Describe,
    Described,
    Pull,
    Pulled,
    Result,
    Wanted,
)
from nearcast.wire.control import Control, agent_bus_subject, seal, unseal
from nearcast.wire.dialect import Dialect
from nearcast.wire.rejects import Rejects

PROGRESS = "channel/"
"""Where the store has how far each channel is."""

_RETRY_S = 0.5
_COMPRESSED = 1  # the fastest level


class ResultFiles(Protocol):
    """The committed results of one channel. These block for a moment."""

    def keys(self, execution: Execution) -> Mapping[SubscriptionKey, int]:
        """Those that have rows."""
        ...

    def notifications(self, execution: Execution, keys: Iterable[SubscriptionKey]) -> Iterable[Notification]:
        """For those of `keys` that have rows."""
        ...


class Served(Protocol):
    """One channel, as delivery needs it."""

    @property
    def spec(self) -> ChannelSpec: ...

    @property
    def first(self) -> int:
        """The number before that of its first execution: above all of an earlier channel of its name."""
        ...

    @property
    def results(self) -> ResultFiles: ...

    async def subscribe(self, new: Collection[Subscription]) -> int:
        """Every execution with a higher number than this one has them. Those that are there already stay."""
        ...

    async def unsubscribe(self, gone: Collection[Subscription]) -> None: ...

    async def kept(self, after: int) -> Kept:
        """Those with a number above `after`, the oldest first, as far as they are kept. Raises ChannelError when the
        channel has been dropped.
        """
        ...


class Delivery:
    """Run it in the process that leads: `async with delivery.running(url)`, then `update` with all channels there are.

    Nobody is answered before the first `update`.
    """

    def __init__(
        self, connect: Connect, store: Store, *, bus: str, dialect: Dialect, clock: Clock, timing: Timing | None = None
    ) -> None:
        self.rejects = Rejects()
        self._dialect = dialect
        self._clock = clock
        self._timing = timing or Timing()
        self._bus = bus
        self._store = store
        self._distinct = DistinctStore(store)
        self._crew = Crew()
        self._pool = LinkPool(connect, clock, self._crew, inbox=self._inbox, on_state=lambda _broker, _up: None)
        self._alarm = Alarm(clock, self._tick)
        self._channels: dict[str, Served] = {}
        self._committed: dict[str, int] = {}
        self._demand: Demand | None = None
        self._changing = asyncio.Lock()  # of what is wanted: saved in the order in which it was changed
        self._looking = asyncio.Lock()
        self._url = ""

    @property
    def routes(self) -> list[Route]:
        return [Route(RESULTS_PATH, self._pulled, methods=["POST"])]

    @property
    def distinct(self) -> Mapping[str, Demanded]:
        """What is wanted, by key."""
        return {} if self._demand is None else self._demand.distinct

    def wanted_at(self, key: str) -> tuple[str, ...]:
        """Brokers whose agents have followers of it."""
        return () if self._demand is None else self._demand.wanted_at(key)

    @asynccontextmanager
    async def running(self, url: str) -> AsyncIterator[None]:
        """`url`: where `routes` are served."""
        self._url = url
        self._pool.reach(self._bus)
        self._crew.start(self._watch(), "executions")
        try:
            yield
        finally:
            self._alarm.cancel()
            await self._pool.close()
            await self._crew.close()

    async def update(self, served: Collection[Served]) -> None:
        """The channels that there are now. Raises StoreDown."""
        async with self._changing:
            demand = self._demand or Demand(
                await self._distinct.load(),
                self._clock.now(),
                timing=self._timing,
                committed=self._committed.get,
                refuse=self._refuse,
            )
            before, self._channels = self._channels, {each.spec.name: each for each in served}
            for name, channel in self._channels.items():
                if before.get(name) is not channel:
                    if new := demand.began(name, channel.first):
                        demand.told([each.key for each in new], await channel.subscribe(new))
                    executions = (await channel.kept(-1)).executions
                    self._committed[name] = executions[-1].number if executions else channel.first
            for name in [name for name in self._committed if name not in self._channels]:
                del self._committed[name]
            self._demand = demand
        self._tick()

    async def look(self) -> None:
        """Tell agents of executions that they have not been told of."""
        async with self._looking:
            for name, channel in list(self._channels.items()):
                try:
                    new = (await channel.kept(self._committed.get(name, 0))).executions
                except ChannelError:
                    continue  # it is being dropped: an update follows
                for execution in new:
                    keys = await asyncio.to_thread(channel.results.keys, execution)
                    self._committed[name] = execution.number
                    assert self._demand is not None
                    for broker, message in self._demand.committed(name, execution.number, keys, self._url):
                        self._tell(broker, message)

    # What comes in

    def _inbox(self, _broker: str) -> Inbox:
        return Inbox(PIPELINE_SUBJECT, self._heard)

    def _heard(self, data: bytes) -> None:
        message = self.rejects.read(lambda: unseal(data, self._dialect), "agents")
        if self._demand is None:
            return
        match message:
            case Wanted():
                self._crew.start(self._wanted(self._demand, message), f"what {message.broker} wants")
            case Describe():
                self._tell(message.broker, self._described(message))
            case _:
                pass

    async def _watch(self) -> None:
        while True:
            with suppress(StoreDown):
                async with aclosing(self._store.watch(PROGRESS)) as changes:
                    async for _ in changes:
                        if self._demand is not None:
                            await self.look()
            await self._clock.sleep(_RETRY_S)

    # What is wanted

    async def _wanted(self, demand: Demand, message: Wanted) -> None:
        async with self._changing:
            demand.wanted(message, self._clock.now())
            with suppress(StoreDown):  # nobody is answered then, and it asks again
                await self._save(demand)
                self._tell(message.broker, demand.answer(message, self._url))
        self._alarm.set(demand.wake_s())

    async def _save(self, demand: Demand) -> None:
        """Into the store first: what is in a channel's table and not there would stay for ever. Then, when its channel
        has it, from which execution on.
        """
        while demand.unsaved:
            await self._save_once(demand)

    async def _save_once(self, demand: Demand) -> None:
        changes = dict(demand.unsaved)
        gone = {key: self._distinct.find(key) for key, each in changes.items() if each is None}
        for name, channel in self._channels.items():
            left = [each.subscription for each in gone.values() if each and each.subscription.channel == name]
            if left:
                await channel.unsubscribe(left)
        await self._distinct.save(changes)
        pending = [each.subscription for each in changes.values() if each and each.since == PENDING]
        for name, channel in self._channels.items():
            new = [each for each in pending if each.channel == name]
            if new:
                demand.told([each.key for each in new], await channel.subscribe(new))
        demand.saved(changes)

    def _tick(self) -> None:
        if self._demand is not None:
            self._demand.tick(self._clock.now())
            if self._demand.unsaved:
                self._crew.start(self._tidy(self._demand), "what nobody wants")
            self._alarm.set(max(self._demand.wake_s(), self._clock.now() + _RETRY_S))

    async def _tidy(self, demand: Demand) -> None:
        async with self._changing:
            with suppress(StoreDown):
                await self._save(demand)

    def _refuse(self, subscription: Subscription) -> str:
        channel = self._channels.get(subscription.channel)
        if channel is None:
            return self._no_such(subscription.channel)
        try:
            channel.spec.bind(dict(subscription.values))
        except ChannelError as error:
            return str(error)
        return ""

    def _described(self, message: Describe) -> Described:
        channel = self._channels.get(message.channel)
        if channel is None:
            return Described(message.client, message.channel, refused=self._no_such(message.channel))
        return Described(message.client, message.channel, channel.spec.parameters)

    def _no_such(self, name: str) -> str:
        there = f"channels are {', '.join(self._channels)}" if self._channels else "there is no channel yet"
        return f"no channel {name!r}; {there}"

    def _tell(self, broker: str, message: Control) -> None:
        self._pool.publish(self._bus, agent_bus_subject(broker), seal(message, self._dialect))

    # Results

    async def _pulled(self, request: Request) -> Response:
        try:
            message = unseal(await request.body(), self._dialect)
        except WireError as error:
            return Response(str(error), status_code=400)
        if not isinstance(message, Pull):
            return Response(f"a {type(message).__name__} is not answered here", status_code=400)
        channel = self._channels.get(message.channel)
        if channel is None or self._demand is None:
            return Response(f"no channel {message.channel!r}", status_code=404)
        try:
            kept = await channel.kept(min((after for _, after in message.after), default=0))
            since = {key: each.since for key, _ in message.after if (each := self._demand.find(key))}
            committed = self._committed[message.channel]
            body = await asyncio.to_thread(self._read, message, channel.results, kept, since, committed)
        except (ChannelError, PipelineError, StoreDown) as error:
            return Response(str(error), status_code=503)
        return Response(body, headers={"Content-Encoding": "gzip"}, media_type="application/octet-stream")

    def _read(
        self,
        pull: Pull,
        files: ResultFiles,
        kept: Kept,
        since: Mapping[str, int],
        committed: int,
    ) -> bytes:
        answer = read_results(pull, files, kept, since, committed)
        return gzip.compress(seal(answer, self._dialect), _COMPRESSED)


def read_results(pull: Pull, files: ResultFiles, kept: Kept, since: Mapping[str, int], committed: int) -> Pulled:
    """Whole executions, the oldest first, until there are enough bytes.

    `since`: the execution after which results are made for each key without a break. What was before is given too, as
    far as it is there, but not as if nothing were missing in between.
    """
    floor, executions = kept
    found: dict[str, list[Result]] = {}
    until, size = max(committed, executions[-1].number if executions else 0), 0
    for execution in executions:
        if size >= pull.most_bytes:
            until = execution.number - 1
            break
        keys = [SubscriptionKey(key) for key, after in pull.after if after < execution.number]
        for each in files.notifications(execution, keys):
            begun = since.get(each.key, 0)
            previous, cut = each.previous or 0, floor if floor >= (each.previous or 0) else 0
            if execution.number > begun:
                previous, cut = max(previous, begun), max(cut, begun)
            rows = msgspec.json.encode(each.rows)
            found.setdefault(each.key, []).append(Result(execution.number, previous, rows, cut, execution.at_s))
            size += len(rows)
    cuts = [(key, after, min(until, max(floor, since.get(key, 0)))) for key, after in pull.after]
    return Pulled(
        until,
        tuple((key, tuple(results)) for key, results in found.items()),
        tuple((key, cut) for key, after, cut in cuts if cut > after),
    )
