"""Reading a log in batches, without I/O, in the world of `test_log`: acknowledgements are lost and writes are late.

Whatever happens meanwhile, the batches together are every confirmed message once; a batch that is made again is the
same; and a client can read on from the position of any row.
"""

import random
from typing import cast

import pytest

from nearcast.brokers.log import LogSites, SegmentState, Stored
from nearcast.client.log_view import LogView
from nearcast.control.log_plan import Frontier, spans, split
from nearcast.domain.log import Position
from nearcast.transport.clock import SystemClock
from nearcast.wire.record import encode_record
from nearcast.wire.rejects import Rejects
from tests.property.test_log import PUBLISHERS, SEAL, Publishing, Reading, World, judge

Row = tuple[int, int, str]  # publisher, number, position


class Site:
    """What a real one answers, from the world as it is now."""

    def __init__(self, world: World) -> None:
        self.world = world

    def at(self, _broker: str) -> "Site":
        return self

    async def state(self, name: str) -> SegmentState:
        count = len(self.world.records[_epoch(name)])
        return SegmentState(1, count, count, 0)

    async def mark(self, name: str) -> int | None:
        return self.world.newest(_epoch(name), SEAL)[0] or None

    async def last(self, name: str, publisher: int) -> Stored | None:
        at, record = self.world.newest(_epoch(name), publisher)
        return None if record is None else Stored(at, publisher, encode_record(record), 0.0)

    async def read(self, name: str, *, after: int = 0, publisher: int | None = None) -> "Records":
        return Records(self.world, _epoch(name), after, publisher)


class Records:
    def __init__(self, world: World, epoch: int, after: int, publisher: int | None) -> None:
        stored = [
            Stored(number, each, b"" if record is None else encode_record(record), 0.0)
            for number, (each, record) in enumerate(world.records[epoch], 1)
            if number > after and publisher in {None, each}
        ]
        self._stored = iter(stored)

    async def next(self) -> Stored | None:
        return next(self._stored, None)

    async def close(self) -> None:
        pass


def _epoch(name: str) -> int:
    return int(name.rpartition("_")[2])


class Batches:
    """One reader, as Spark is: it knows its last offset, and nothing else."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(world.rng.random())
        self.position = Position(1)
        self.made: list[tuple[Position, Frontier, list[Row]]] = []

    def view(self) -> LogView:
        return LogView(
            "t", self.world.log, cast("LogSites", Site(self.world)), SystemClock(), Rejects(), patience_s=0.1
        )

    async def step(self) -> bool:
        start, most = self.position, self.rng.choice((None, None, 1, 3))
        end = await self.view().frontier(start, most=most)
        if end.position == start:
            return False
        rows = await self.rows(start, end, 1)
        if most is not None:
            assert len(rows) <= most
        self.made.append((start, end, rows))
        self.position = Position.parse(str(end.position))
        return True

    async def rows(self, start: Position, end: Frontier, parts: int) -> list[Row]:
        return [
            (message.publisher, message.seq, str(message.position))
            for span in spans(start, end)
            for part in split(span, parts)
            async for message, _ in self.view().messages(part, start.ahead)
        ]


@pytest.mark.parametrize("seed", range(150))
async def test_batches_are_every_confirmed_message_once_and_the_same_when_made_again(seed: int) -> None:
    world = World(random.Random(seed))
    rng = world.rng
    publishers = [Publishing(world, each) for each in PUBLISHERS]
    reader = Batches(world)
    for _ in range(200):
        world.now += rng.expovariate(1.0)
        rng.choice(publishers).step()
        if rng.random() < 0.05:
            world.move()
        if rng.random() < 0.2:
            world.seal()
        if world.late and rng.random() < 0.2:
            world.append(*world.late.pop(rng.randrange(len(world.late))))
        if rng.random() < 0.2:
            await reader.step()
    for each in publishers:
        each.settle()
    while world.late:
        world.append(*world.late.pop())
    world.now += 100
    world.seal()
    while await reader.step():
        pass
    everything = {(each.id, seq) for each in publishers for seq in range(1, each.machine.confirmed + 1)}
    rows = [row for _, _, batch in reader.made for row in batch]
    got = [(publisher, seq) for publisher, seq, _ in rows]
    assert len(set(got)) == len(got), "something twice"
    assert set(got) == everything
    for publisher in PUBLISHERS:
        assert [seq for each, seq in got if each == publisher] == sorted(
            seq for each, seq in everything if each == publisher
        )
    for start, end, batch in reader.made:
        assert await reader.rows(start, end, rng.randint(1, 4)) == batch
    for at in rng.sample(range(len(rows)), 5):
        judge(Reading(world, Position.parse(rows[at][2])), everything - set(got[: at + 1]))


async def test_a_batch_begins_where_a_client_has_read_to() -> None:
    """Also in the middle of a record, and beside publishers that were ahead of it."""
    for seed in range(60):
        world = World(random.Random(seed))
        publishers, live = [Publishing(world, each) for each in PUBLISHERS], Reading(world)
        for _ in range(200):
            world.now += world.rng.expovariate(1.0)
            world.rng.choice(publishers).step()
            if world.rng.random() < 0.05:
                world.move()
            if world.late and world.rng.random() < 0.2:
                world.append(*world.late.pop())
            live.learn()
            live.step()
        for each in publishers:
            each.settle()
        world.now += 100
        world.seal()
        everything = {(each.id, seq) for each in publishers for seq in range(1, each.machine.confirmed + 1)}
        for at in world.rng.sample(range(len(live.got)), min(5, len(live.got))):
            reader = Batches(world)
            reader.position = live.got[at][2]
            while await reader.step():
                pass
            rows = [(publisher, seq) for _, _, batch in reader.made for publisher, seq, _ in batch]
            assert sorted(rows) == sorted(everything - {each[:2] for each in live.got[: at + 1]}), seed
