"""Followers of a channel's subscriptions in one process: some with a connection each, others that share connections.

    python -m nearcast.lab.live.followers SPEC.json

Who has a connection of its own is a client as applications have it. Who shares one is the client's machine with its own
name, its own inbox and its own subscription at the broker, said and answered over a socket that others use too. No two
of them that share a socket have the same question: so the broker sends every follower a copy of its own, as if each had
its own socket.

Prints one JSON line when all are registered. Whatever they got is written to the file that the spec names, as often as
it changes; on SIGTERM they unsubscribe and it ends.
"""

import asyncio
import gc
import heapq
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import msgspec

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Connect, Link
from nearcast.client import Client, open_client
from nearcast.client.channel_subscription import ChannelSubscription
from nearcast.control.channel_subscriber import Begun, ChannelSubscriber, Miss, Over, Take
from nearcast.control.instructions import Attach, Detach, Instruction, Say
from nearcast.domain.channel import Subscription
from nearcast.domain.errors import LinkDown
from nearcast.transport.clock import SystemClock
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready
from nearcast.wire.channels import Following, Notice, Refusal, channel_subject
from nearcast.wire.control import AGENT_SUBJECT, client_subject, seal, unseal

AREA = "area"
"""The channel's parameter."""

_CLIENTS_AT_ONCE = 20
_PARTIES_AT_ONCE = 5
_AT_ONCE = 40  # of one connection: who is not answered asks again, so fewer in all than are answered in a second
_WRITE_S = 0.05
_LOOK_S = 0.1
_KEEP_S = 3600.0
_BEGIN_S = 300.0


class Row(msgspec.Struct, frozen=True, order=True):
    """What is looked at of a channel's rows."""

    batch: int
    area: int


_rows = msgspec.json.Decoder(list[Row])


class PartySpec(msgspec.Struct, frozen=True):
    """Followers that share a connection: of `count` areas from `first` on, beginning again at 0 after the last."""

    first: int
    count: int


class FollowersSpec(msgspec.Struct, frozen=True):
    """`clients`: the area of each client with a connection of its own. Every area has `rows` rows in every batch from
    `batch` on, which is the first that they are to get.
    """

    name: str
    config: str
    seen: str
    channel: str
    broker: str
    areas: int
    rows: int
    batch: int
    clients: tuple[int, ...] = ()
    parties: tuple[PartySpec, ...] = ()

    @property
    def followers(self) -> int:
        return len(self.clients) + sum(each.count for each in self.parties)


class Seen(msgspec.Struct):
    """`wrong`: notifications that were not the next one, or not what was asked for. `said`: messages to the agent from
    those who share connections. `renews_s`: when somebody has to renew next, by the wall clock. `got`: by batch, how
    many have it, when the first had it, and the last one so far.
    """

    began_s: float = 0.0
    registered_s: float = 0.0
    registered: int = 0
    wrong: int = 0
    said: int = 0
    breaks: int = 0
    renews_s: float = 0.0
    got: dict[int, tuple[int, float, float]] = {}


class Ledger:
    """What the followers of this process got, against what they are owed."""

    def __init__(self, spec: FollowersSpec) -> None:
        self.seen = Seen(got={})
        self._rows = spec.rows
        self._path = Path(spec.seen)
        self._changed = True

    def registered(self) -> None:
        self.seen.registered += 1

    def took(self, due: int, area: int, rows: Sequence[Row]) -> int:
        """A follower to which batch `due` is due was given these; which is due next."""
        batches = range(due, due + max(1, len(rows) // self._rows))
        if sorted(rows) != [Row(batch, area) for batch in batches for _ in range(self._rows)]:
            self.failed()
            return due
        now_s = time.time()
        for batch in batches:
            count, first_s, _ = self.seen.got.get(batch, (0, now_s, now_s))
            self.seen.got[batch] = count + 1, first_s, now_s
        self._changed = True
        return batches[-1] + 1

    def failed(self) -> None:
        self.seen.wrong += 1
        self._changed = True

    def said(self) -> None:
        self.seen.said += 1
        self._changed = True

    async def write(self, wake_s: Callable[[], float]) -> None:
        """Again and again: whole, so that who reads it reads one state. `wake_s`: when somebody has to renew next."""
        while True:
            renews_s = wake_s() - time.monotonic() + time.time()
            if abs(renews_s - self.seen.renews_s) > _WRITE_S:
                self.seen.renews_s, self._changed = renews_s, True
            if self._changed:
                self._changed = False
                whole = self._path.with_suffix(".part")
                whole.write_bytes(msgspec.msgpack.encode(self.seen))  # which has an infinity: nobody renews
                whole.rename(self._path)
            await asyncio.sleep(_WRITE_S)


class Alone:
    """One with a connection of its own."""

    def __init__(self, client: Client, ledger: Ledger, spec: FollowersSpec, area: int) -> None:
        self.client = client
        self._ledger = ledger
        self._spec = spec
        self._area = area
        self._subscription: ChannelSubscription | None = None

    async def register(self, gate: asyncio.Semaphore) -> None:
        async with gate:
            self._subscription = await self.client.subscribe_channel(
                self._spec.channel,
                {AREA: self._area},
                on_missed=lambda _missed: self._ledger.failed(),
                timeout_s=_BEGIN_S,
            )
        self._ledger.registered()

    async def listen(self) -> None:
        assert self._subscription is not None
        due = self._spec.batch
        async for notification in self._subscription:
            due = self._ledger.took(due, self._area, msgspec.convert(notification.rows, list[Row]))

    def wake_s(self) -> float:
        """Of its lease; a client's clock is not quite `time.monotonic`."""
        assert self._subscription is not None
        return self._subscription.machine.wake_s() - SystemClock().now() + time.monotonic()

    async def leave(self) -> None:
        if self._subscription is not None:
            self._subscription.unsubscribe()
        await self.client.close()


class Sharing:
    """One that shares a connection. There may be hundreds of thousands."""

    __slots__ = ("area", "due", "machine", "party", "queued_s")

    def __init__(self, machine: ChannelSubscriber, party: "Party", area: int, due: int) -> None:
        self.machine = machine
        self.party = party
        self.area = area
        self.due = due
        self.queued_s = 0.0

    def heard(self, data: bytes) -> None:
        self.party.heard(self, data)


class Party:
    """Some who share a connection. Use `connect`, then `register`; meanwhile and afterwards `tick`, often."""

    def __init__(self, number: int, config: Config, spec: FollowersSpec, ledger: Ledger) -> None:
        self._name = f"{spec.name}-{number}"
        self._spec = spec
        self._config = config
        self._ledger = ledger
        self._party = spec.parties[number]
        self._link: Link | None = None
        self._followers: list[Sharing] = []
        self._queue: list[tuple[float, int, Sharing]] = []
        self._pushed = 0
        self._beginning: dict[Sharing, asyncio.Event] = {}

    async def connect(self) -> None:
        await self.use(connector(self._config.endpoints(), name=self._name))

    async def use(self, connect: Connect) -> None:
        self._link = await connect(self._spec.broker, self._changed)

    async def register(self, asked: Sequence[Subscription]) -> None:
        """`asked`: the subscription for every area."""
        gate = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._party.count):
                await gate.acquire()
                area = (self._party.first + number) % self._spec.areas
                tasks.create_task(self._register(f"{self._name}-{number}", area, asked[area], gate))

    def wake_s(self) -> float:
        return self._queue[0][0] if self._queue else math.inf

    def tick(self, now: float) -> None:
        while self._queue and self._queue[0][0] <= now:
            queued_s, _, each = heapq.heappop(self._queue)
            if each.queued_s == queued_s:
                self._do(each, each.machine.tick(now) if each.machine.wake_s() <= now else [])

    def heard(self, each: Sharing, data: bytes) -> None:
        message, now = unseal(data, self._config.dialect), time.monotonic()
        match message:
            case Notice():
                self._do(each, each.machine.notice(message, now))
            case Following():
                self._do(each, each.machine.following(message, self._spec.broker, now))
            case Refusal():
                self._do(each, each.machine.refused(message, self._spec.broker, now))
            case _:
                raise AssertionError(f"a follower is not told {message}")

    async def leave(self) -> None:
        assert self._link is not None
        for number, each in enumerate(self._followers):
            self._do(each, each.machine.close(time.monotonic(), over=True))
            if number % _AT_ONCE == 0:
                await self._link.flush()
        await self._link.close()

    # Within

    async def _register(self, name: str, area: int, asked: Subscription, gate: asyncio.Semaphore) -> None:
        assert self._link is not None
        broker = self._spec.broker
        machine = ChannelSubscriber(asked, name, (broker,), timing=self._config.timing, keep_s=_KEEP_S)
        each = Sharing(machine, self, area, self._spec.batch)
        begun = self._beginning[each] = asyncio.Event()
        await self._link.subscribe(client_subject(name), each.heard)
        self._do(each, machine.start(time.monotonic()))
        await self._link.subscribe(channel_subject(machine.key), each.heard)
        self._do(each, machine.attached(broker, time.monotonic()))
        await begun.wait()
        del self._beginning[each]
        self._followers.append(each)
        self._ledger.registered()
        gate.release()

    def _changed(self, up: bool) -> None:
        now = time.monotonic()
        self._ledger.seen.breaks += not up
        for each in (*self._followers, *self._beginning):
            if up:
                self._do(each, each.machine.restored(self._spec.broker, now))
            else:
                each.machine.lost(self._spec.broker, now)

    def _do(self, each: Sharing, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Say(_, message):
                    self._say(seal(message, self._config.dialect))
                case Take(result):
                    each.due = self._ledger.took(each.due, each.area, _rows.decode(result.rows))
                case Begun():
                    self._beginning[each].set()
                case Miss() | Over():
                    self._ledger.failed()
                case Attach() | Detach():
                    pass  # it is subscribed to once, and ends with the connection
                case _:
                    raise AssertionError(f"a follower does not {instruction}")
        wake_s = each.machine.wake_s()
        if wake_s != each.queued_s:
            each.queued_s = wake_s
            self._pushed += 1
            heapq.heappush(self._queue, (wake_s, self._pushed, each))

    def _say(self, data: bytes) -> None:
        assert self._link is not None
        self._ledger.said()
        with suppress(LinkDown):  # it is said again when the link is back
            self._link.publish(AGENT_SUBJECT, data)


class Followers:
    def __init__(self, spec: FollowersSpec) -> None:
        self._spec = spec
        self._config = load_config(Path(spec.config))
        self._ledger = Ledger(spec)
        self._crew = Crew()

    async def run(self, stopped: asyncio.Event) -> None:
        spec, config, ledger = self._spec, self._config, self._ledger
        gc.disable()  # millions of objects that stay: to look through them again and again would be most of the work
        alone = [
            Alone(open_client(config, name=f"{spec.name}-c{number}"), ledger, spec, area)
            for number, area in enumerate(spec.clients)
        ]
        parties = [Party(number, config, spec, ledger) for number in range(len(spec.parties))]
        for party in parties:
            await party.connect()
        asked = [Subscription(spec.channel, ((AREA, area),)) for area in range(spec.areas)] if parties else []
        self._crew.start(self._tick(parties), "renewals")
        ledger.seen.began_s = time.time()
        gate = asyncio.Semaphore(_CLIENTS_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for each in alone:
                tasks.create_task(each.register(gate))
            waiting = iter(parties)
            for _ in range(_PARTIES_AT_ONCE):
                tasks.create_task(self._register(waiting, asked))
        ledger.seen.registered_s = time.time()
        for each in alone:
            self._crew.start(each.listen(), f"{each.client.name} listens")
        self._crew.start(
            ledger.write(lambda: min(chain((each.wake_s() for each in alone), (party.wake_s() for party in parties)))),
            "what was seen",
        )
        say_ready(followers=ledger.seen.registered)
        await stopped.wait()
        await asyncio.gather(*(party.leave() for party in parties), *(each.leave() for each in alone))
        await self._crew.close()

    @staticmethod
    async def _register(waiting: Iterator[Party], asked: Sequence[Subscription]) -> None:
        """One party after the other, as long as there are any."""
        for party in waiting:
            await party.register(asked)

    async def _tick(self, parties: list[Party]) -> None:
        while True:
            for party in parties:
                party.tick(time.monotonic())
            await asyncio.sleep(_LOOK_S)


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=FollowersSpec)
    run_until_stopped(lambda stopped: Followers(spec).run(stopped))


if __name__ == "__main__":
    main()
