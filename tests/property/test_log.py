"""Persistent topics without I/O: acknowledgements lost, writes that arrive late, moves, seals, readers that resume.

The world keeps segments as JetStream does: a record is appended behind the publisher's last one, or not at all; a copy
that was given up may still arrive, at any time. A segment is sealed when every lease on its epoch is over.
"""

import random
from dataclasses import dataclass, field

import pytest

from nearcast.control.log_publisher import LogPublisher, Write
from nearcast.control.log_reader import LogReader, Look
from nearcast.control.log_route import LogRoute
from nearcast.control.rules import ALL_ON
from nearcast.control.timing import Timing
from nearcast.domain.log import LogSpec, Position, TopicLog
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Welcome
from nearcast.wire.record import Record

TIMING = Timing(lease_s=10.0)
PUBLISHERS = (1, 2)
BROKERS = ("H0", "H1")
SEAL = 0


@dataclass
class World:
    """Segments with their records; the record of number n is at n - 1."""

    rng: random.Random
    now: float = 0.0
    log: TopicLog = field(default_factory=lambda: TopicLog("id", LogSpec(3)).opened(1, "H0"))
    records: dict[int, list[tuple[int, Record | None]]] = field(default_factory=lambda: {1: []})
    over_s: dict[int, float] = field(default_factory=dict)  # when the epoch was left
    late: list[tuple[int, Write]] = field(default_factory=list)  # copies that were given up, and may yet arrive

    @property
    def epoch(self) -> int:
        return self.log.segments[-1].epoch

    def welcome(self, publisher: int, asked_s: float) -> Welcome:
        broker = self.log.segments[-1].broker
        route = Route(self.epoch, Strategy.SINGLE, (broker,))
        return Welcome(
            "t", route, (), 1, (), 10.0, asked_s, 0, (), publisher=publisher, registered=broker, log=self.log
        )

    def newest(self, epoch: int, publisher: int) -> tuple[int, Record | None]:
        found = [(at, each[1]) for at, each in enumerate(self.records[epoch], 1) if each[0] == publisher]
        return found[-1] if found else (0, None)

    def append(self, publisher: int, write: Write) -> int | None:
        if self.newest(write.epoch, publisher)[0] != write.after:
            return None
        self.records[write.epoch].append((publisher, write.record))
        return len(self.records[write.epoch])

    def move(self) -> None:
        self.over_s[self.epoch] = self.now
        self.log = self.log.opened(self.epoch + 1, BROKERS[self.epoch % 2])
        self.records[self.epoch] = []

    def seal(self) -> None:
        for segment in self.log.segments[:-1]:
            if segment.end is None and self.now >= self.over_s[segment.epoch] + TIMING.lease_s:
                self.records[segment.epoch].append((SEAL, None))
                self.log = self.log.ended(segment.epoch, len(self.records[segment.epoch]))


class Reading:
    """A reader, and what it was given: (publisher, number, position after it)."""

    def __init__(self, world: World, start: Position | None = None) -> None:
        self.world = world
        self.machine = LogReader("t", start)
        self.got: list[tuple[int, int, Position]] = []
        self.learn()

    def learn(self) -> None:
        assert self.machine.learn(self.world.log, 0.0) == []

    def step(self) -> bool:
        """One record of one segment, if there is one whose turn it is."""
        segments = self.machine.active()
        self.world.rng.shuffle(segments)
        return any(self._read(segment.epoch) for segment in segments)

    def _read(self, epoch: int) -> bool:
        number = self.machine.after(epoch) + 1
        if number > len(self.world.records[epoch]):
            return False
        publisher, record = self.world.records[epoch][number - 1]
        assert self.machine.arrived(epoch, number, 0.0) == []
        if record is None:
            self.machine.ended(epoch, number)
            return True
        why = self.machine.waits_for(epoch, publisher, record)
        if isinstance(why, Look):
            found = [each for looked in why.epochs for each in self._look(looked, publisher)]
            self.machine.learnt(publisher, epoch, found)
            why = self.machine.waits_for(epoch, publisher, record)
        if why is not None:
            return False
        messages, gaps = self.machine.take(epoch, number, publisher, record)
        assert gaps == []
        for message in messages:
            position = self.machine.taken(epoch, number, publisher, record, message)
            self.got.append((publisher, message.seq, position))
        self.machine.passed(epoch, number)
        return True

    def _look(self, epoch: int, publisher: int) -> list[tuple[int, int, int]]:
        at, record = self.world.newest(epoch, publisher)
        segment = self.machine.log.segment(epoch) if self.machine.log else None
        assert segment is not None
        counts = record is not None and (segment.end is None or at <= segment.end)
        return [(epoch, at, record.last)] if counts and record is not None else []


class Publishing:
    def __init__(self, world: World, publisher: int) -> None:
        self.world = world
        self.id = publisher
        route = LogRoute(
            "t", publisher, "c", Ring(BROKERS), timing=TIMING, rules=ALL_ON, first=world.welcome(publisher, 0.0)
        )
        self.machine = LogPublisher(route)
        self.write: Write | None = None

    def step(self) -> None:
        rng, world, machine = self.world.rng, self.world, self.machine
        if rng.random() < 0.4:
            machine.publish(b"", 0)
        if rng.random() < 0.3:
            machine.welcome(world.welcome(self.id, world.now - rng.uniform(0, 2)), world.now)
        if self.write is None:
            self.write = machine.write(world.now)
        elif rng.random() < 0.7:
            self._answered(lost=rng.random() < 0.3)

    def settle(self) -> None:
        while self.machine.unconfirmed:
            self.machine.welcome(self.world.welcome(self.id, self.world.now), self.world.now)
            self.write = self.write or self.machine.write(self.world.now)
            if self.write is not None:
                self._answered(lost=False)

    def _answered(self, *, lost: bool) -> None:
        write, self.write = self.write, None
        assert write is not None
        world = self.world
        if lost and world.rng.random() < 0.5:
            world.late.append((self.id, write))  # not there yet, and perhaps never
            self.machine.failed()
            return
        at = world.append(self.id, write)
        if lost:
            self.machine.failed()
        elif at is not None:
            self.machine.written(at, world.now)
        else:
            self.machine.in_the_way(*world.newest(write.epoch, self.id), world.now)


@pytest.mark.parametrize("seed", range(150))
def test_every_confirmed_message_is_read_once_and_in_order_live_and_from_every_position(seed: int) -> None:
    world = World(random.Random(seed))
    rng = world.rng
    publishers = [Publishing(world, each) for each in PUBLISHERS]
    live = Reading(world)
    for _ in range(200):
        world.now += rng.expovariate(1.0)
        rng.choice(publishers).step()
        if rng.random() < 0.05:
            world.move()
        if rng.random() < 0.2:
            world.seal()
        if world.late and rng.random() < 0.2:
            world.append(*world.late.pop(rng.randrange(len(world.late))))
        if rng.random() < 0.3:
            live.learn()
        if rng.random() < 0.6:
            live.step()
    for each in publishers:
        each.settle()
    while world.late:
        world.append(*world.late.pop())
    everything = {(each.id, seq) for each in publishers for seq in range(1, each.machine.confirmed + 1)}
    assert everything
    judge(live, everything)
    judge(Reading(world), everything)
    for at in rng.sample(range(len(live.got)), 5):
        before = {(publisher, seq) for publisher, seq, _ in live.got[: at + 1]}
        judge(Reading(world, Position.parse(str(live.got[at][2]))), everything - before)


def judge(reading: Reading, owed: set[tuple[int, int]]) -> None:
    reading.learn()
    while reading.step():
        pass
    got = [(publisher, seq) for publisher, seq, _ in reading.got]
    assert len(set(got)) == len(got), "something twice"
    assert set(got) == owed
    for publisher in PUBLISHERS:
        numbers = [seq for each, seq in got if each == publisher]
        assert numbers == sorted(numbers)
