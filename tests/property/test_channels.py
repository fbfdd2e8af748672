"""Subscriptions to channels without I/O: messages lost, repeated, late; crashes of every part; moves; offline times.

The world keeps what survives a crash: committed results, the distinct subscriptions that were saved, and what each
application was given. Everything else is the machines' own. In the end every application has had, once and in order,
whatever every execution since it subscribed could have made for its key.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

from nearcast.control.channel_agent import ChannelAgent, Fetch, Publish, TellFollower, TellPipeline
from nearcast.control.channel_subscriber import Begun, ChannelSubscriber, Miss, Over, Take
from nearcast.control.demand import PENDING, Demand, Demanded
from nearcast.control.follower_leases import MOST_RENEWALS_HZ
from nearcast.control.instructions import Attach, Detach, Instruction, Say
from nearcast.control.timing import Timing
from nearcast.domain.channel import Subscription
from nearcast.wire.channels import (
    Committed,
    Follow,
    Following,
    Known,
    Notice,
    Pull,
    Pulled,
    Refusal,
    Result,
    Unfollow,
    Wanted,
)

TIMING = Timing(lease_s=10.0)
BROKERS = ("b1", "b2", "b3")
CHANNELS = ("fires", "floods")
SUBSCRIPTIONS = [Subscription(channel, (("city", city),)) for channel in CHANNELS for city in ("ulm", "bonn", "kiel")]
KEEP_S = 500.0


@dataclass
class World:
    rng: random.Random
    calm: bool = False  # from then on nothing is lost or killed
    now: float = 0.0
    events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    count: int = 0
    saved: dict[str, Demanded] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHANNELS, 0))
    started: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHANNELS, 0))
    tables: dict[str, set[str]] = field(default_factory=lambda: {channel: set() for channel in CHANNELS})
    unread: dict[str, set[str]] = field(default_factory=lambda: {channel: set() for channel in CHANNELS})
    due: dict[str, list[int]] = field(default_factory=lambda: {each.key: [] for each in SUBSCRIPTIONS})
    results: dict[str, list[int]] = field(default_factory=lambda: {each.key: [] for each in SUBSCRIPTIONS})
    firsts: dict[str, int] = field(default_factory=dict)
    published: int = 0
    sent_alone: int = 0
    pulls: int = 0
    renewals_hz: float = MOST_RENEWALS_HZ

    def later(self, delay_s: float, do: Callable[[], None]) -> None:
        self.count += 1
        heapq.heappush(self.events, (self.now + delay_s, self.count, do))

    def carry(self, do: Callable[[], None]) -> None:
        """A message: it arrives, or not, or twice, soon or late."""
        lost, twice = (0.0, 0.0) if self.calm else (0.1, 0.1)
        if self.rng.random() >= lost:
            slow = not self.calm and self.rng.random() < 0.1
            self.later(self.rng.uniform(0.5, 6.0) if slow else self.rng.uniform(0.001, 0.1), do)
        if self.rng.random() < twice:
            self.later(self.rng.uniform(0.001, 6.0), do)

    def run(self, until_s: float) -> None:
        while self.events and self.events[0][0] <= until_s:
            self.now, _, do = heapq.heappop(self.events)
            do()
        self.now = until_s


class Pipeline:
    def __init__(self, world: World) -> None:
        self.world = world
        self.agents: dict[str, Agent] = {}
        self.start()

    def start(self) -> None:
        """Whatever was under way is forgotten, but for what is in the store."""
        world = self.world
        self.running: dict[str, object] = {}
        self.demand = Demand(
            world.saved.values(), world.now, timing=TIMING, committed=world.committed.get, refuse=lambda _: ""
        )
        for channel in CHANNELS:
            self.begin(channel, world.firsts.get(channel, 0))
        self.save()

    def begin(self, channel: str, first: int) -> None:
        for new in self.demand.began(channel, first):
            self.subscribe(new)

    def subscribe(self, new: Subscription) -> None:
        self.world.tables[new.channel].add(new.key)
        self.demand.told([new.key], self.world.started[new.channel])

    def save(self) -> None:
        while self.demand.unsaved:
            changes = dict(self.demand.unsaved)
            for key, demanded in changes.items():
                if demanded is None:
                    self.world.tables[self.world.saved.pop(key).subscription.channel].discard(key)
                    continue
                self.world.saved[key] = demanded
                if demanded.since == PENDING:
                    self.subscribe(demanded.subscription)
            self.demand.saved(changes)

    def wanted(self, message: Wanted) -> None:
        self.demand.wanted(message, self.world.now)
        if not self.world.calm and self.world.rng.random() < 0.02:
            self.start()  # killed before anything was saved, and nobody is answered
            return
        self.save()
        self.world.carry(partial(self.agents[message.broker].hear, self.demand.answer(message, "url")))

    def make_anew(self, channel: str) -> None:
        """It is dropped and made again before any agent has asked: its results are gone, its numbers begin higher."""
        world = self.world
        first = world.committed[channel] = world.started[channel] = world.started[channel] + 1000
        world.firsts[channel] = first
        world.tables[channel].clear()
        self.running.pop(channel, None)
        for each in SUBSCRIPTIONS:
            if each.channel == channel:
                world.results[each.key] = []
        if world.rng.random() < 0.5:
            self.execute(channel)  # before it is told who has subscribed
        self.begin(channel, first)
        self.save()

    def execute(self, channel: str) -> None:
        """One begins: what is new for it is settled, then its number is written, then it looks who has subscribed."""
        world = self.world
        self.demand.tick(world.now)
        self.save()
        found = {each.key for each in SUBSCRIPTIONS if each.channel == channel and world.rng.random() < 0.5}
        world.unread[channel] |= found
        if channel in self.running:
            return
        number = world.started[channel] = world.started[channel] + 1
        run = self.running[channel] = object()
        new, asked = set(world.unread[channel]), set(world.tables[channel])
        world.later(world.rng.uniform(0.0, 5.0), partial(self.commit, channel, number, new, asked, run))

    def commit(self, channel: str, number: int, new: set[str], asked: set[str], run: object) -> None:
        world = self.world
        if self.running.get(channel) is not run:
            return  # it was killed
        del self.running[channel]
        if not world.calm and world.rng.random() < 0.1:
            return  # it failed: its number is gone, and what was new stays new
        world.committed[channel] = number
        world.unread[channel] -= new
        hit = sorted(new & asked)
        for key in sorted(new):
            world.due[key].append(number)
        for key in hit:
            world.results[key].append(number)
        if not world.calm and world.rng.random() < 0.05:
            self.start()  # killed before anybody was told
            return
        for broker, message in self.demand.committed(channel, number, hit, "url"):
            world.carry(partial(self.agents[broker].hear, message))

    def pull(self, pull: Pull) -> Pulled:
        """At most three results of a key at a time, so that answers end before what is committed."""
        until, found, cut = self.world.committed[pull.channel], [], []
        for key, after in pull.after:
            there = [each for each in self.world.results[key] if each > after]
            if len(there) > 3:
                until = min(until, there[2])
        for key, after in pull.after:
            results = [each for each in self.chain(key) if after < each.execution <= until]
            found.append((key, tuple(results)))
            demanded = self.demand.find(key)
            if demanded is not None and demanded.since > after:
                cut.append((key, demanded.since))
        return Pulled(until, tuple(found), tuple(cut))

    def chain(self, key: str) -> list[Result]:
        demanded = self.demand.find(key)
        since, before, out = demanded.since if demanded else 0, 0, []
        for execution in self.world.results[key]:
            previous = max(before, since) if execution > since else before
            floor = since if execution > since else 0
            out.append(Result(execution, previous, b"[]", floor))
            before = execution
        return out


class Agent:
    def __init__(self, world: World, broker: str, pipeline: Pipeline) -> None:
        self.world = world
        self.broker = broker
        self.pipeline = pipeline
        self.listening: dict[str, dict[str, Client]] = {}  # by key, as the broker has it
        self.clients: dict[str, Client] = {}
        self.down = False
        self.start()

    def start(self) -> None:
        session, renewals_hz = int(self.world.now * 1000) + 1, self.world.renewals_hz
        self.machine = ChannelAgent(self.broker, session, TIMING, most_bytes=1500, renewals_hz=renewals_hz)

    def hear(self, message: Follow | Unfollow | Known | Committed) -> None:
        if self.down:
            return
        machine, now = self.machine, self.world.now
        match message:
            case Follow():
                self.do(machine.follow(message, now))
            case Unfollow():
                self.do(machine.unfollow(message, now))
            case Known():
                self.do(machine.known(message, now))
            case Committed():
                self.do(machine.committed(message, now))

    def tick(self) -> None:
        if not self.down and self.world.now >= self.machine.wake_s():
            self.do(self.machine.tick(self.world.now))

    def do(self, instructions: list[Instruction]) -> None:
        world = self.world
        for each in instructions:
            match each:
                case TellFollower(client, message):
                    world.sent_alone += isinstance(message, Notice)
                    self.to(self.clients[client], message)
                case Publish(notice):
                    world.published += 1
                    for listener in list(self.listening.get(notice.key, {}).values()):
                        self.to(listener, notice)
                case TellPipeline(message):
                    assert isinstance(message, Wanted)
                    world.carry(partial(self.pipeline.wanted, message))
                case Fetch(_, pull):
                    world.pulls += 1
                    world.later(world.rng.uniform(0.001, 0.5), partial(self.fetched, self.machine, pull))

    def to(self, client: "Client", message: object) -> None:
        self.world.carry(partial(client.hear, message, self.broker))

    def fetched(self, asked: ChannelAgent, pull: Pull) -> None:
        if self.machine is not asked or self.down:
            return
        if not self.world.calm and self.world.rng.random() < 0.1:
            self.do(self.machine.not_pulled(pull, self.world.now))
        else:
            self.do(self.machine.pulled(pull, self.pipeline.pull(pull), self.world.now))


class Client:
    """With its application, which keeps what it was given and how far it is."""

    def __init__(self, world: World, name: str, subscription: Subscription, agents: dict[str, Agent]) -> None:
        self.world = world
        self.name = name
        self.subscription = subscription
        self.agents = agents
        self.got: list[int] = []
        self.missed: list[Miss] = []
        self.first: int | None = None  # subscribed after this execution
        self.position: int | None = None
        self.online = False

    def start(self) -> None:
        brokers = list(BROKERS)
        self.world.rng.shuffle(brokers)
        self.machine = ChannelSubscriber(
            self.subscription, self.name, tuple(brokers), timing=TIMING, after=self.position, keep_s=KEEP_S
        )
        self.online = True
        for agent in self.agents.values():
            agent.clients[self.name] = self
        self.do(self.machine.start(self.world.now))

    def crash(self) -> None:
        self.online = False
        for agent in self.agents.values():
            agent.listening.get(self.machine.key, {}).pop(self.name, None)

    def go_offline(self) -> None:
        self.do(self.machine.close(self.world.now, over=False))
        self.online = False

    def hear(self, message: object, broker: str) -> None:
        if not self.online:
            return
        now = self.world.now
        match message:
            case Following():
                self.do(self.machine.following(message, broker, now))
            case Notice():
                self.do(self.machine.notice(message, now))
            case Refusal():
                raise AssertionError(message)

    def tick(self) -> None:
        if self.online and self.world.now >= self.machine.wake_s():
            self.do(self.machine.tick(self.world.now))

    def do(self, instructions: list[Instruction]) -> None:
        for each in instructions:
            match each:
                case Attach(broker):
                    self.agents[broker].listening.setdefault(self.machine.key, {})[self.name] = self
                    self.world.later(0.01, partial(self.attached, self.machine, broker))
                case Detach(broker):
                    self.agents[broker].listening[self.machine.key].pop(self.name, None)
                case Say(broker, message):
                    assert isinstance(message, Follow | Unfollow)
                    self.world.carry(partial(self.agents[broker].hear, message))
                case Take(result):
                    self.got.append(result.execution)
                case Begun(after):
                    self.first = after if self.first is None else self.first
                case Miss():
                    self.missed.append(each)
                case Over():
                    raise AssertionError(each)
        if self.first is not None:
            self.position = self.machine.position

    def attached(self, machine: ChannelSubscriber, broker: str) -> None:
        if self.online and self.machine is machine:
            self.do(machine.attached(broker, self.world.now))


def disturb(world: World, pipeline: Pipeline, agents: dict[str, Agent], clients: list[Client]) -> None:
    rng = world.rng
    chance = rng.random()
    agent, client = rng.choice(list(agents.values())), rng.choice(clients)
    if chance < 0.05:
        pipeline.start()
    elif chance < 0.15:
        agent.down = not agent.down
        agent.start()
    elif chance < 0.3:
        if client.online:
            rng.choice((client.crash, client.go_offline))()
        else:
            client.start()
    elif chance < 0.5 and client.online:
        client.do(client.machine.rehome(rng.choice(BROKERS), world.now))
    elif chance < 0.55 and client.online:
        client.machine.full = True
    elif client.online:
        client.do(client.machine.room(world.now))


def lived_through(world: World, *, anew: bool) -> list[Client]:
    """400 s, of which the last hundred are calm."""
    pipeline = Pipeline(world)
    agents = pipeline.agents = {broker: Agent(world, broker, pipeline) for broker in BROKERS}
    clients = [Client(world, f"c{number}", world.rng.choice(SUBSCRIPTIONS), agents) for number in range(8)]
    for client in clients:
        world.later(world.rng.uniform(0, 100), client.start)
    for second in range(1, 400):
        world.calm = second > 300
        if second == 301:
            for agent in agents.values():
                agent.down = False
            for client in clients:
                if not client.online:
                    client.start()
                client.do(client.machine.room(world.now))
        world.run(float(second))
        if second % 3 == 0 and second < 320:
            pipeline.execute(world.rng.choice(CHANNELS))
        if second < 300 and second > 100 and world.rng.random() < 0.3:
            disturb(world, pipeline, agents, clients)
        if anew and second < 300 and second % 50 == 0:
            pipeline.make_anew(world.rng.choice(CHANNELS))
        for agent in agents.values():
            agent.tick()
        for client in clients:
            client.tick()
    assert pipeline.demand.distinct.keys() == {each.subscription.key for each in clients}
    return clients


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("renewals_hz", [MOST_RENEWALS_HZ, 0.2], ids=["often", "seldom"])
def test_every_subscriber_has_every_result_since_it_subscribed_once_and_in_order(seed: int, renewals_hz: float) -> None:
    world = World(random.Random(seed), renewals_hz=renewals_hz)
    clients = lived_through(world, anew=False)
    for client in clients:
        assert client.first is not None
        owed = [each for each in world.due[client.subscription.key] if each > client.first]
        assert client.got == owed, f"{client.name} from {client.first}"
        assert not client.missed
    assert sum(len(client.got) for client in clients) > 100


@pytest.mark.parametrize("seed", range(60))
def test_what_a_channel_that_was_made_anew_had_before_is_reported_and_nothing_after(seed: int) -> None:
    world = World(random.Random(seed))
    clients = lived_through(world, anew=True)
    for client in clients:
        assert client.first is not None
        owed = [each for each in world.due[client.subscription.key] if each > client.first]
        missing = [each for each in owed if each not in client.got]
        assert client.got == [each for each in owed if each not in missing], f"{client.name} from {client.first}"
        untold = [each for each in missing if not any(miss.after < each <= miss.until for miss in client.missed)]
        assert not untold, f"{client.name}: {client.missed}"
        last = world.firsts.get(client.subscription.channel, -1) + 1  # it may have run once before it knew of anybody
        assert all(each <= last for each in missing), f"{client.name}: {missing}, and the newest began with {last}"
    assert any(client.missed for client in clients)
    assert sum(len(client.got) for client in clients) > 60
