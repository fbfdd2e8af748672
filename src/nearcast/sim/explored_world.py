"""The world of the explorer: brokers, clients, agents and a coordinator as processes joined by FIFO channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearcast.control.barrier import Barrier
from nearcast.control.dispatcher import Dispatcher
from nearcast.control.forwarder import Forwarder
from nearcast.control.instructions import (
    Answer,
    Attach,
    Command,
    Deliver,
    Detach,
    Instruction,
    Ready,
    Reply,
    Report,
    Say,
    Send,
)
from nearcast.control.lease import Lease
from nearcast.control.move import Move, Save
from nearcast.control.paths import Inbound, Outbound
from nearcast.control.publisher import Publisher
from nearcast.control.register import Entry, Register
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.streams import Stranger, Stream, Streams
from nearcast.control.subscriber import Attachment, Subscriber
from nearcast.control.timing import Timing
from nearcast.domain.errors import NearcastError
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.sim.freeze import clone, freeze, machine
from nearcast.wire.control import (
    Ack,
    Ask,
    Beat,
    Bye,
    Generation,
    Hello,
    Launch,
    Prepare,
    Quiet,
    Switch,
    Tell,
    Unsure,
    Welcome,
)
from nearcast.wire.envelope import Envelope

TOPIC = "t"
_MOST_HOPS = 12

# Far apart, so that one kind of timer is over before the next begins; no beats, whose only use is to show a dead path.
TIMING = Timing(
    lease_s=1000.0,
    linger_s=1.0,
    patience_s=8.0,
    merge_s=0.0,
    retry_s=50.0,
    beat_s=math.inf,
    idle_s=20.0,
    transit_s=0.0,
)


class Violated(Exception):  # a finding of the explorer, not an error of the program
    pass


@dataclass(frozen=True, slots=True)
class Scenario:
    """What may happen. `moves` are begun in order, at any time; `faults` happen once each, at any time."""

    name: str
    brokers: tuple[str, ...]
    moves: tuple[tuple[Strategy, tuple[str, ...]], ...]
    messages: int = 3
    publishers: int = 1
    start: tuple[Strategy, tuple[str, ...]] | None = None
    joins: bool = False  # the subscriber is not there at the start
    concurrent: bool = False  # brokers match, then deliver to one connection after another
    to_the_end: bool = False  # until the old brokers are released, not only until everybody has left them
    faults: tuple[str, ...] = ()
    rules: Rules = ALL_ON
    timing: Timing = TIMING
    beside: bool = True  # an agent hears its own broker at once; its lag is then in the paths it forwards over
    reduced: bool = True  # leave out orders that make no difference


class Broker:
    """`subscribed` in order of arrival; `busy`: deliveries that a connection's reader is still in the middle of."""

    __slots__ = ("busy", "subscribed", "up")

    def __init__(self) -> None:
        self.up = True
        self.subscribed: dict[str, None] = {}
        self.busy: dict[str, Handing] = {}


class Handing:
    """A message that is matched and not yet handed on to all of its receivers."""

    __slots__ = ("message", "waiting")

    def __init__(self, message: Envelope, waiting: list[str]) -> None:
        self.message = message
        self.waiting = waiting


class Publishing:
    __slots__ = ("dead", "machine", "promised", "to_send")

    def __init__(self, publisher: Publisher, to_send: int) -> None:
        self.machine = publisher
        self.to_send = to_send
        self.promised = 0  # the first sequence number under the promise, 0 while there is none
        self.dead = False


class Subscribing:
    __slots__ = ("last", "machine", "reports", "seen", "started")

    def __init__(self, subscriber: Subscriber, started: bool) -> None:
        self.machine = subscriber
        self.started = started
        self.seen: dict[int, list[int]] = {}
        self.last: dict[int, int] = {}
        self.reports: list[Gap | Discontinuity] = []


class Agent:
    __slots__ = ("dead", "incarnation", "machine")

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.machine = dispatcher
        self.incarnation = dispatcher.incarnation
        self.dead = False


class Coordinator:
    __slots__ = ("begun", "machine", "stored", "unsaved")

    def __init__(self, move: Move) -> None:
        self.machine = move
        self.stored = move.record
        self.begun = 0
        self.unsaved: list[TopicRecord] = []


machine(
    Barrier, Dispatcher, Forwarder, Lease, Move, Inbound, Outbound, Publisher, Entry, Register, Stranger, Stream,
    Streams, Attachment, Subscriber, Broker, Handing, Publishing, Subscribing, Agent, Coordinator,
)  # fmt: skip

Process = Broker | Publishing | Subscribing | Agent | Coordinator
Event = tuple[str, str, str]
"""(kind, from, to): a delivery on a channel, or one process's own doing."""


def agent_of(broker: str) -> str:
    return f"A{broker}"


class World:
    __slots__ = ("channels", "faults_left", "keys", "label", "now", "processes", "scenario")

    scenario: Scenario
    now: float
    processes: dict[str, Process]
    channels: dict[tuple[str, str], tuple[object, ...]]
    faults_left: tuple[str, ...]
    keys: dict[str, tuple[float, object]]
    label: str

    @classmethod
    def start(cls, scenario: Scenario) -> World:
        """The topic stands on its first route, publishers and (unless it joins) the subscriber are settled on it."""
        world = cls()
        world.scenario, world.now, world.label = scenario, 0.0, ""
        world.channels, world.keys = {}, {}
        world.faults_left = scenario.faults
        ring = Ring(scenario.brokers, vnodes=1)
        owner = ring.owner(TOPIC)
        strategy, brokers = scenario.start or (Strategy.SINGLE, (scenario.brokers[0],))
        first = Route(1, strategy, tuple(sorted(brokers)))
        rules, timing = scenario.rules, scenario.timing
        world.processes = {broker: Broker() for broker in scenario.brokers}
        record = TopicRecord(TOPIC, Phase.DONE, (first,), 1, term=1)
        world.processes["C"] = Coordinator(Move(record, owner, timing, rules))
        for broker in scenario.brokers:
            dispatcher = Dispatcher(broker, 1, ring, timing, rules)
            dispatcher.lease_until_s = math.inf
            world.processes[agent_of(broker)] = Agent(dispatcher)
        clients: list[str] = []
        for number in range(scenario.publishers):
            name = f"P{number}"
            publisher = Publisher(TOPIC, number + 1, name, ring, timing=timing, rules=rules)
            world.processes[name] = Publishing(publisher, scenario.messages)
            clients.append(name)
        world.processes["S"] = Subscribing(
            Subscriber(TOPIC, 0, "S", ring, timing=timing, rules=rules), not scenario.joins
        )
        if not scenario.joins:
            clients.append("S")
        coordinator = world._coordinator()
        world._follow("C", coordinator.machine.agent_back(owner))
        for broker in first.brokers:
            if broker != owner:
                world._follow("C", coordinator.machine.agent_back(broker))
        world._run_quietly()
        for name in clients:
            world._tick(name)
            world._run_quietly()
        return world

    def fork(self) -> World:
        other = World()
        other.scenario, other.now, other.label = self.scenario, self.now, ""
        other.processes = dict(self.processes)
        other.channels = dict(self.channels)
        other.keys = dict(self.keys)
        other.faults_left = self.faults_left
        return other

    def key(self) -> int:
        parts: list[object] = [self.faults_left]
        for name, process in self.processes.items():
            cached = self.keys.get(name)
            if cached is None or cached[0] != self.now:
                cached = (self.now, freeze(process, self.now))
                self.keys[name] = cached
            parts.append(cached[1])
        parts.extend((pair, self.channels[pair]) for pair in sorted(self.channels))
        return hash(tuple(parts))

    # What can happen

    def events(self) -> list[Event]:
        out: list[Event] = []
        for (source, target), queue in self.channels.items():
            if self.scenario.reduced and self._commutes(target, queue[0]):
                return [("deliver", source, target)]
            receiver = self.processes[target]
            if isinstance(receiver, Broker) and source in receiver.busy:
                continue  # a connection's frames are handled one after the other
            out.append(("deliver", source, target))
        for name, process in self.processes.items():
            if isinstance(process, Broker):
                out += [
                    ("hand on", name, f"{source}>{each}")
                    for source, busy in process.busy.items()
                    for each in busy.waiting
                ]
            elif isinstance(process, Coordinator) and process.unsaved:
                out.append(("write", name, ""))
            elif self._wake_s(name) <= self.now:
                if self.scenario.reduced and isinstance(process, Agent):
                    return [("tick", name, "")]
                out.append(("tick", name, ""))
        quiet = not out
        workload: list[Event] = []
        for name, process in self.processes.items():
            if isinstance(process, Publishing) and process.to_send and process.machine.can_publish(self.now):
                workload.append(("publish", name, ""))
            elif isinstance(process, Coordinator) and self._may_begin(process):
                workload.append(("move", name, ""))
            elif isinstance(process, Subscribing) and not process.started:
                workload.append(("subscribe", name, ""))
        out += workload
        out += [("fault", fault, "") for fault in self.faults_left if self._may_fail(fault)]
        if quiet and not self._settled() and self.now < self._horizon_s:
            out.append(("time", "", ""))
        return out

    def _commutes(self, target: str, message: object) -> bool:
        """Whether this delivery makes no difference to any other: then it may as well happen at once, and only now.

        Acknowledgements are counted, not ordered. A goodbye and a confirmed subscription of an agent concern nobody
        else. An agent that knows the last epoch answers the same at any time. A marker may be launched at once, for
        it is then under way for as long as it likes, and with the shortest list of ended legs. A preparation is eager
        where the agent hears nothing of the topic yet: what it starts, a subscription, is still under way for as long
        as it likes.
        """
        process = self.processes[target]
        match process, message:
            case Coordinator(), Ack():
                return True
            case Agent(), Bye() | Launch() | "subscribed":
                return True
            case Agent(), Tell():
                return self.scenario.beside
            case Agent(), Hello() | Ask():
                forwarder = process.machine.forwarders.get(TOPIC)
                return forwarder is not None and forwarder.told == self._last_epoch
            case Agent(), Prepare():
                forwarder = process.machine.forwarders.get(TOPIC)
                return forwarder is None or forwarder.attached is False
            case Subscribing(), Generation():
                return True
            case Subscribing(), Welcome():
                return process.machine.lease.epoch == message.route.epoch == self._last_epoch
            case _:
                return False

    @property
    def _horizon_s(self) -> float:
        """By then every timer that could still bring something has run out."""
        timing = self.scenario.timing
        return 8 * timing.lease_s if self.scenario.to_the_end else 2 * timing.retry_s

    @property
    def _last_epoch(self) -> int:
        return 1 + len(self.scenario.moves)

    def _ignored(self, target: str, envelope: Envelope) -> bool:
        """What an agent's own subscription brings it and it surely has no use for."""
        if not self.scenario.reduced or not self.scenario.rules.visited:
            return False
        if not isinstance(self.processes[target], Agent):
            return False
        if isinstance(envelope.notice, Switch | Beat):
            return True
        return envelope.trail is not None and envelope.trail.known_epoch >= self._last_epoch

    def _may_begin(self, coordinator: Coordinator) -> bool:
        ready = coordinator.machine.draining or coordinator.machine.finished
        return ready and coordinator.begun < len(self.scenario.moves) and not coordinator.unsaved

    def _may_fail(self, fault: str) -> bool:
        kind, _, name = fault.partition(" ")
        if kind == "restart":
            process = self.processes[name]
            return (isinstance(process, Broker) and not process.up) or (isinstance(process, Agent) and process.dead)
        return True

    def _settled(self) -> bool:
        """No timer is needed any more: the subscriber is where it should be and has what was promised."""
        subscriber = self._subscribing()
        if (subscriber.machine.moving and subscriber.started) or self._missing() or self.faults_left:
            return False
        move = self._coordinator().machine
        return move.finished or (move.draining and not self.scenario.to_the_end)

    # What happens

    def do(self, event: Event) -> str:
        kind, source, target = event
        match kind:
            case "deliver":
                queue = self.channels[source, target]
                message, rest = queue[0], queue[1:]
                if rest:
                    self.channels[source, target] = rest
                else:
                    del self.channels[source, target]
                self.label = f"{source} -> {target}: {_told(message)}"
                self._take(target, source, message)
            case "hand on":
                sender, _, receiver = target.partition(">")
                self._hand_on(source, sender, receiver)
            case "write":
                self._write()
            case "publish":
                self._publish(source)
            case "subscribe":
                self.label = "S subscribes"
                subscribing = self._own("S")
                assert isinstance(subscribing, Subscribing)
                subscribing.started = True
                self._follow("S", subscribing.machine.tick(self.now))
            case "move":
                self._begin()
            case "fault":
                self.label = f"fault: {source}"
                self.faults_left = tuple(each for each in self.faults_left if each != source)
                self._fail(source)
            case "tick":
                self.label = f"{source}'s timer"
                self._tick(source)
            case "time":
                self._pass_time()
        return self.label

    def _publish(self, name: str) -> None:
        process = self._own(name)
        assert isinstance(process, Publishing)
        process.to_send -= 1
        instructions = process.machine.publish(b"", self.now, 0)
        if self._subscribing().machine.ready and not process.promised:
            process.promised = process.machine.seq
        self.label = f"{name} publishes {process.machine.seq} to {'+'.join(process.machine.targets)}"
        self._follow(name, instructions)

    def _begin(self) -> None:
        coordinator = self._own("C")
        assert isinstance(coordinator, Coordinator)
        strategy, brokers = self.scenario.moves[coordinator.begun]
        coordinator.begun += 1
        self.label = f"C begins the move to {strategy} on {'+'.join(brokers)}"
        try:
            self._follow("C", coordinator.machine.begin(strategy, brokers))
        except NearcastError as refused:
            self.label += f" (refused: {refused})"

    def _write(self) -> None:
        coordinator = self._own("C")
        assert isinstance(coordinator, Coordinator)
        coordinator.stored = coordinator.unsaved.pop(0)
        self.label = f"C writes {coordinator.stored.phase}, epoch {coordinator.stored.newest.epoch}"
        self._follow("C", coordinator.machine.saved(self.now))

    def _pass_time(self) -> None:
        due = {name: self._wake_s(name) for name in self.processes}
        self.now = max(self.now, min(due.values()))
        self.label = f"time passes to {self.now:g} s"
        for name, wake_s in due.items():
            if wake_s <= self.now:
                self._tick(name)

    # Delivery

    def _take(self, target: str, source: str, message: object) -> None:
        process = self._own(target)
        match process:
            case Broker():
                self._at_broker(target, process, source, message)
            case Publishing() if not process.dead:
                self._at_publisher(target, process, source, message)
            case Subscribing():
                self._at_subscriber(target, process, source, message)
            case Agent() if not process.dead:
                self._at_agent(target, process, source, message)
            case Coordinator():
                match message:
                    case Ack():
                        self._follow(target, process.machine.ack(message, self.now))
                    case Quiet():
                        self._follow(target, process.machine.quiet(message))
                    case ("lost", str(broker)):
                        self._follow(target, process.machine.agent_lost(broker))
                    case ("back", str(broker)):
                        self._follow(target, process.machine.agent_back(broker))

    def _at_broker(self, name: str, broker: Broker, source: str, message: object) -> None:
        if not broker.up:
            return
        match message:
            case "sub":
                broker.subscribed[source] = None
                self._put(name, source, "subscribed")
            case "unsub":
                broker.subscribed.pop(source, None)
                for busy in list(broker.busy.values()):
                    if source in busy.waiting:
                        busy.waiting.remove(source)
            case Envelope():
                if not self.scenario.concurrent:
                    for each in broker.subscribed:
                        if not self._ignored(each, message):
                            self._hear(name, each, message)
                    return
                interested = [each for each in broker.subscribed if not self._ignored(each, message)]
                broker.busy[source] = Handing(message, interested)
                self._finish_if_done(broker, source)

    def _hear(self, name: str, subscriber: str, message: object) -> None:
        if self.scenario.beside and subscriber == agent_of(name):
            self._take(subscriber, name, message)
        else:
            self._put(name, subscriber, message)

    def _hand_on(self, name: str, source: str, receiver: str) -> None:
        """One delivery of a message already matched: to any of the connections left, as a server walks its map."""
        broker = self._own(name)
        assert isinstance(broker, Broker)
        busy = broker.busy[source]
        self.label = f"{name} hands {_told(busy.message)} of {source} on to {receiver}"
        busy.waiting.remove(receiver)
        self._hear(name, receiver, busy.message)
        self._finish_if_done(broker, source)

    @staticmethod
    def _finish_if_done(broker: Broker, source: str) -> None:
        if not broker.busy[source].waiting:
            del broker.busy[source]

    def _at_publisher(self, name: str, process: Publishing, source: str, message: object) -> None:
        match message:
            case Welcome():
                self._follow(name, process.machine.welcome(message, self.now))
            case Unsure():
                process.machine.unsure(message)
            case "lost":
                self._follow(name, process.machine.lost(source))
            case "restored":
                self._follow(name, process.machine.restored(source, self.now))

    def _at_subscriber(self, name: str, process: Subscribing, source: str, message: object) -> None:
        subscriber = process.machine
        match message:
            case Envelope():
                self._follow(name, subscriber.frame(message, source, self.now))
            case "subscribed":
                self._follow(name, subscriber.attached(source, self.now))
            case Welcome():
                self._follow(name, subscriber.welcome(message, source[1:], self.now))
            case Unsure():
                subscriber.unsure(message)
            case Generation():
                self._follow(name, subscriber.generation(message, self.now))
            case "lost":
                self._follow(name, subscriber.lost(source, self.now))
            case "restored":
                self._follow(name, subscriber.restored(source, self.now))

    def _at_agent(self, name: str, process: Agent, source: str, message: object) -> None:
        dispatcher = process.machine
        match message:
            case Envelope():
                trail = message.trail
                if trail is not None and (trail.count > _MOST_HOPS * 10 or len(trail.visited) > _MOST_HOPS):
                    raise Violated(f"a forwarding loop: {_told(message)} has been to {'+'.join(trail.visited)}")
                said = dispatcher.frame(TOPIC, message, self.now)
            case "subscribed":
                said = dispatcher.subscribed(TOPIC, self.now)
            case "lost":
                if source != dispatcher.broker:
                    dispatcher.peer_lost(source)
                return
            case "restored":
                own = source == dispatcher.broker
                said = dispatcher.own_restored() if own else dispatcher.peer_restored(source)
            case _:
                said = dispatcher.message(message, self.now)  # type: ignore[arg-type]  # all that is left
        self._follow(name, [instruction for _, instruction in said])

    # Instructions

    def _follow(self, name: str, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case Send(broker, envelope):
                    self._put(name, broker, envelope)
                case Say(broker, message):
                    self._put(name, agent_of(broker), message)
                case Attach(broker):
                    self._put(name, broker, "sub")
                case Detach(broker):
                    self._put(name, broker, "unsub")
                case Reply(client, message):
                    self._put(name, client, message)
                case Answer(message):
                    self._put(name, "C", message)
                case Command(broker, message):
                    self._put(name, agent_of(broker), message)
                case Save(record):
                    coordinator = self._own(name)
                    assert isinstance(coordinator, Coordinator)
                    coordinator.unsaved.append(record)
                case Deliver(envelope):
                    self._delivered(envelope)
                case Report(what):
                    subscribing = self._own("S")
                    assert isinstance(subscribing, Subscribing)
                    subscribing.reports.append(what)
                    self.label += f"  [S reports {what}]"
                case Ready():
                    self.label += "  [S is ready]"

    def _delivered(self, envelope: Envelope) -> None:
        subscribing = self._own("S")
        assert isinstance(subscribing, Subscribing)
        self.label += f"  [S delivers {envelope.publisher}:{envelope.seq}]"
        seen = subscribing.seen.setdefault(envelope.publisher, [])
        if envelope.seq in seen:
            raise Violated(f"delivered twice: message {envelope.seq} of P{envelope.publisher - 1}")
        if seen and envelope.seq < seen[-1]:
            raise Violated(f"out of order: message {envelope.seq} of P{envelope.publisher - 1} after {seen[-1]}")
        seen.append(envelope.seq)

    def _put(self, source: str, target: str, message: object) -> None:
        process = self.processes[target]
        down = (isinstance(process, Broker) and not process.up) or (isinstance(process, Agent) and process.dead)
        origin = self.processes[source]
        if down or (isinstance(origin, Broker) and not origin.up):
            return
        pair = (source, target)
        self.channels[pair] = (*self.channels.get(pair, ()), message)
        if len(self.channels[pair]) > 60:
            raise Violated(f"a forwarding loop: {source} floods {target}")

    # Faults

    def _fail(self, fault: str) -> None:
        kind, _, name = fault.partition(" ")
        process = self._own(name)
        if kind == "crash":
            for pair in [pair for pair in self.channels if name in pair]:
                del self.channels[pair]
        match kind, process:
            case "crash", Broker():
                process.up = False
                process.busy.clear()
                for other in self._connected():
                    self._notify(name, other, "lost")
            case "restart", Broker():
                process.up = True
                for other in self._connected():
                    self._notify(name, other, "restored")
            case "crash", Agent():
                process.dead = True
                self._unsubscribe(name)
                self._notify(name, "C", ("lost", process.machine.broker))
            case "restart", Agent():
                old = process.machine
                process.dead = False
                process.incarnation += 1
                process.machine = Dispatcher(old.broker, process.incarnation, old.ring, old.timing, old.rules)
                process.machine.lease_until_s = math.inf
                self._notify(name, "C", ("back", old.broker))
            case "crash", Publishing():
                process.dead = True
                process.to_send = 0
            case "crash", Coordinator():
                record = process.stored
                process.machine = Move(record, process.machine.directory, process.machine.timing, process.machine.rules)
                process.unsaved = []
                self._follow("C", process.machine.resume(record.term + 1))
            case "cut", _:
                raise NotImplementedError(fault)

    def _connected(self) -> list[str]:
        """Who would notice: everyone but the coordinator and other brokers. Subscriptions come back by themselves."""
        return [name for name, each in self.processes.items() if not isinstance(each, Broker | Coordinator)]

    def _notify(self, source: str, target: str, message: object) -> None:
        pair = (source, target)
        self.channels[pair] = (*self.channels.get(pair, ()), message)

    def _unsubscribe(self, name: str) -> None:
        for broker_name in self.scenario.brokers:
            broker = self._own(broker_name)
            assert isinstance(broker, Broker)
            broker.subscribed.pop(name, None)

    # Judging

    def _missing(self) -> list[str]:
        subscribing = self._subscribing()
        excused = [report for report in subscribing.reports if isinstance(report, Discontinuity)]
        out: list[str] = []
        for name, process in self.processes.items():
            if not isinstance(process, Publishing) or not process.promised:
                continue
            seen = subscribing.seen.get(process.machine.id, [])
            gaps = [r for r in subscribing.reports if isinstance(r, Gap) and r.publisher == process.machine.id]
            out += [
                f"message {seq} of {name}"
                for seq in range(process.promised, process.machine.seq + 1)
                if seq not in seen and not excused and not any(gap.covers(seq) for gap in gaps)
            ]
        return out

    def verdict(self) -> str | None:
        """What is wrong with this last state, if anything."""
        missing = self._missing()
        if missing:
            return f"lost silently: {', '.join(missing)}"
        subscriber = self._subscribing().machine
        if not subscriber.ready or subscriber.moving:
            return "the subscriber never settles"
        coordinator = self._coordinator().machine
        if not (coordinator.draining or coordinator.finished):
            return f"the move never ends: {coordinator.record.phase}"
        if not self.faults_left and not self.scenario.faults and self._subscribing().reports:
            return f"a false alarm: {self._subscribing().reports[0]}"
        return None

    # Small things

    def _own(self, name: str) -> Process:
        """The process, copied before its first change in this world."""
        if name in self.keys:
            self.processes[name] = clone(self.processes[name])
            del self.keys[name]
        return self.processes[name]

    def _coordinator(self) -> Coordinator:
        coordinator = self.processes["C"]
        assert isinstance(coordinator, Coordinator)
        return coordinator

    def _subscribing(self) -> Subscribing:
        subscribing = self.processes["S"]
        assert isinstance(subscribing, Subscribing)
        return subscribing

    def _wake_s(self, name: str) -> float:
        process = self.processes[name]
        if isinstance(process, Broker):
            return math.inf
        if isinstance(process, Publishing | Agent) and process.dead:
            return math.inf
        if isinstance(process, Subscribing) and not process.started:
            return math.inf
        return process.machine.wake_s()

    def _tick(self, name: str) -> None:
        process = self._own(name)
        match process:
            case Agent():
                self._follow(name, [each for _, each in process.machine.tick(self.now) if not _is_alive(each)])
            case Publishing() | Subscribing() | Coordinator():
                self._follow(name, process.machine.tick(self.now))

    def _run_quietly(self) -> None:
        """Lets everything under way arrive, in one order."""
        while self.channels or self._coordinator().unsaved:
            if self._coordinator().unsaved:
                self._write()
            else:
                source, target = next(iter(self.channels))
                self.do(("deliver", source, target))


def _is_alive(instruction: Instruction) -> bool:
    return isinstance(instruction, Answer) and not isinstance(instruction.message, Ack | Quiet)


def _told(message: object) -> str:
    """A message as a reader of a trace wants it."""
    if isinstance(message, Envelope):
        if message.notice is not None:
            text = type(message.notice).__name__
        else:
            kind = {0: "", 4: "END ", 8: "mark ", 12: "close "}.get(message.flags & 12, "")
            text = f"{kind}{message.publisher}:{message.seq} (epoch {message.epoch}, leg from {message.first})"
        if message.trail is not None:
            text += f" forwarded by {message.trail.source}, been to {'+'.join(message.trail.visited)}"
        return text
    if isinstance(message, str | tuple):
        return str(message)
    return type(message).__name__
