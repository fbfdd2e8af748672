"""The processes of the explored world: a machine each, and what its shell would do around it.

A process takes one input (a message of another process, or its own doing) and gives what it puts on the channels to
others. It knows nothing of the rest of the world, so that equal states of a process answer equally wherever they
occur: the explorer works each answer out once.
"""

from __future__ import annotations

import math

from nearcast.control.agenda import Agenda
from nearcast.control.barrier import Barrier
from nearcast.control.dispatcher import Dispatcher, Said
from nearcast.control.forwarder import Forwarder
from nearcast.control.handover import Counted, Handovers
from nearcast.control.instructions import (
    Deliver,
    Instruction,
    Report,
    Send,
)
from nearcast.control.lease import Lease
from nearcast.control.move import Move, Save
from nearcast.control.paths import Inbound, Outbound
from nearcast.control.processing import Processing
from nearcast.control.publisher import Publisher
from nearcast.control.register import Entry, Register
from nearcast.control.streams import Stranger, Stream, Streams
from nearcast.control.subscriber import Attachment, Subscriber
from nearcast.domain.errors import MoveRefused
from nearcast.domain.record import TopicRecord
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.ring import Ring
from nearcast.sim.explored_broker import Broker, Handing
from nearcast.sim.explored_outbox import COORDINATOR, Outbox, Violated, agent_of
from nearcast.sim.explored_scenario import Place
from nearcast.sim.explored_telling import told
from nearcast.sim.freeze import machine
from nearcast.wire.control import Ack, Generation, Quiet, RingChange, Unsure, Welcome
from nearcast.wire.envelope import Envelope


class Publishing:
    """`sent`: per message under the promise, when it was published and how much the subscriber had reported by then."""

    __slots__ = ("dead", "machine", "sent", "started", "to_send")

    def __init__(self, publisher: Publisher, to_send: int, *, started: bool) -> None:
        self.machine = publisher
        self.to_send = to_send
        self.started = started
        self.sent: dict[int, tuple[float, int]] = {}
        self.dead = False

    def may_publish(self, now: float) -> bool:
        return bool(self.to_send and not self.dead and self.machine.targets and self.machine.can_publish(now))

    def wake_s(self) -> float:
        return self.machine.wake_s() if self.started and not self.dead else math.inf

    def take(self, source: str, message: object, now: float, out: Outbox) -> None:
        publisher = self.machine
        match message:
            case "tick" | "start":
                self.started = True
                out.follow(publisher.tick(now))
            case ("publish", bool(promised), int(reported)):
                self.to_send -= 1
                envelope = publisher.publish(b"", now, 0)
                if promised:
                    self.sent[publisher.seq] = (now, reported)
                out.notes.append(f"{publisher.client} publishes {publisher.seq} to {'+'.join(publisher.targets)}")
                out.follow([Send(broker, envelope) for broker in publisher.reachable])
            case "crash":
                self.dead, self.to_send = True, 0
            case _ if self.dead:
                pass
            case Welcome():
                out.follow(publisher.welcome(message, now))
            case Unsure():
                publisher.unsure(message)
            case "lost":
                out.follow(publisher.lost(source))
            case "restored":
                out.follow(publisher.restored(source, now))


class Subscribing:
    """`seen` and `reports` are what the user got."""

    __slots__ = ("machine", "reports", "seen", "started")

    def __init__(self, subscriber: Subscriber, *, started: bool) -> None:
        self.machine = subscriber
        self.started = started
        self.seen: dict[int, list[int]] = {}
        self.reports: list[Gap | Discontinuity] = []

    def wake_s(self) -> float:
        return self.machine.wake_s() if self.started else math.inf

    def take(self, source: str, message: object, now: float, out: Outbox) -> None:
        subscriber = self.machine
        instructions: list[Instruction] = []
        match message:
            case Envelope():
                instructions = subscriber.frame(message, source, now)
            case "tick" | "start":
                self.started = True
                instructions = subscriber.tick(now)
            case "subscribed":
                instructions = subscriber.attached(source, now)
            case Welcome():
                instructions = subscriber.welcome(message, source[1:], now)
            case Unsure():
                subscriber.unsure(message)
            case Generation():
                instructions = subscriber.generation(message, now)
            case "lost":
                instructions = subscriber.lost(source, now)
            case "restored":
                instructions = subscriber.restored(source, now)
        out.follow(instructions)
        for instruction in instructions:
            if isinstance(instruction, Deliver):
                self._deliver(instruction.envelope, out)
            elif isinstance(instruction, Report):
                self.reports.append(instruction.what)
                out.notes.append(f"S reports {told(instruction.what)}")

    def _deliver(self, envelope: Envelope, out: Outbox) -> None:
        publisher, seq = envelope.publisher, envelope.seq
        out.notes.append(f"S delivers {publisher}:{seq}")
        seen = self.seen.setdefault(publisher, [])
        if seq in seen:
            raise Violated(f"delivered twice: {publisher}:{seq}")
        if seen and seq < seen[-1]:
            raise Violated(f"out of order: {publisher}:{seq} after {publisher}:{seen[-1]}")
        seen.append(seq)
        for index, report in enumerate(self.reports):
            if isinstance(report, Gap) and report.publisher == publisher and report.last is None:
                self.reports[index] = Gap(report.topic, publisher, report.first, seq - 1)  # the publisher is back


class Agent:
    """`noticed`: the coordinator has seen its lease run out; `restarted`: it does not yet know of this incarnation."""

    __slots__ = ("dead", "machine", "noticed", "restarted", "topic")

    def __init__(self, dispatcher: Dispatcher, topic: str) -> None:
        self.machine = dispatcher
        self.topic = topic
        self.dead = False
        self.noticed = False
        self.restarted = False

    def forwarder(self) -> Forwarder | None:
        return self.machine.forwarders.get(self.topic)

    def wake_s(self) -> float:
        forwarder = self.forwarder()
        return math.inf if self.dead or forwarder is None else forwarder.wake_s()

    def take(self, source: str, message: object, now: float, out: Outbox) -> None:
        """`crash` and `cut off`: from now on nobody renews its lease; it was renewed just before, at worst."""
        dispatcher = self.machine
        match message:
            case "crash" | "cut off":
                self.dead = message == "crash"
                dispatcher.lease_until_s = min(dispatcher.lease_until_s, now + dispatcher.timing.lease_s)
            case "restart":
                self.dead, self.restarted = False, True
                self.machine = Dispatcher(
                    dispatcher.broker, dispatcher.incarnation + 1, dispatcher.ring, dispatcher.timing, dispatcher.rules
                )
            case "noticed":
                self.noticed = True
            case "report":
                self.noticed = self.restarted = False
                out.puts.append((COORDINATOR, ("back", dispatcher.broker)))
            case "renew":
                dispatcher.lease_until_s = math.inf
            case _ if not self.dead:
                out.follow([instruction for _, instruction in self._say(source, message, now)])

    def _say(self, source: str, message: object, now: float) -> list[Said]:
        dispatcher = self.machine
        match message:
            case Envelope():
                visited = message.trail.visited if message.trail is not None else ()
                if len(dict.fromkeys(visited)) < len(visited):
                    raise Violated(f"goes round in circles: {told(message)}")
                return dispatcher.frame(self.topic, message, now)
            case "tick":
                return dispatcher.tick(now)
            case "subscribed":
                return dispatcher.subscribed(self.topic, now)
            case "lost":
                if source == dispatcher.broker:
                    dispatcher.own_lost()
                else:
                    dispatcher.peer_lost(source)
                return []
            case "restored":
                return dispatcher.own_restored() if source == dispatcher.broker else dispatcher.peer_restored(source)
            case _:
                return dispatcher.message(message, now)  # type: ignore[arg-type]  # all that is left


class Coordinator:
    """`stored` is what the store holds; `unsaved`: writes that are under way."""

    __slots__ = ("begun", "eager", "machine", "moves", "next_ring", "stored", "unsaved")

    def __init__(self, move: Move, moves: tuple[Place, ...], *, eager: bool, next_ring: Ring | None) -> None:
        self.machine = move
        self.moves = moves
        self.eager = eager
        self.next_ring = next_ring  # until it is announced
        self.stored = move.record
        self.begun = 0
        self.unsaved: list[TopicRecord] = []

    def wake_s(self) -> float:
        return self.machine.wake_s()

    def may_begin(self) -> bool:
        ready = self.machine.draining or self.machine.finished
        return ready and self.begun < len(self.moves) and not self.unsaved

    def may_change_ring(self) -> bool:
        """Rule 11: a ring change waits until every topic has a route of its own."""
        if self.next_ring is None:
            return False
        pinned = self.machine.draining and self.begun == len(self.moves)
        return pinned or not self.machine.rules.pin_ring

    def take(self, _source: str, message: object, now: float, out: Outbox) -> None:
        move = self.machine
        match message:
            case "tick":
                self._follow(move.tick(now), out)
            case "begin":
                self._begin(out)
            case "change ring" if self.next_ring is not None:
                change = RingChange(move.record.term, self.next_ring.version, self.next_ring.brokers, made=True)
                out.puts += [(agent_of(broker), change) for broker in self.next_ring.brokers]
                self.next_ring = None
            case "write":
                self.stored = self.unsaved.pop(0)
                out.notes.append(f"C writes {self.stored.phase}, epoch {self.stored.newest.epoch}")
                self._follow(move.saved(now), out)
            case "crash":
                self.machine = Move(self.stored, move.directory, move.timing, move.rules)
                self.unsaved.clear()
                self._follow(self.machine.resume(self.stored.term + 1), out)
            case Ack():
                self._follow(move.ack(message, now), out)
            case Quiet():
                self._follow(move.quiet(message), out)
            case ("lost", str(broker)):
                self._follow(move.agent_lost(broker), out)
            case ("back", str(broker)):
                self._follow(move.agent_back(broker), out)

    def _begin(self, out: Outbox) -> None:
        strategy, brokers = self.moves[self.begun]
        self.begun += 1
        out.notes.append(f"C begins the move to {strategy} on {'+'.join(brokers)}")
        try:
            self._follow(self.machine.begin(strategy, brokers, eager=self.eager), out)
        except MoveRefused as refused:
            out.notes.append(f"refused: {refused}")

    def _follow(self, instructions: list[Instruction], out: Outbox) -> None:
        self.unsaved += [each.record for each in instructions if isinstance(each, Save)]
        out.follow(instructions)


machine(
    Agenda, Barrier, Counted, Dispatcher, Forwarder, Handovers, Lease, Move, Inbound, Outbound, Processing, Publisher,
    Entry, Register, Stranger, Stream, Streams, Attachment, Subscriber, Broker, Handing, Publishing, Subscribing, Agent,
    Coordinator,
)  # fmt: skip

Process = Broker | Publishing | Subscribing | Agent | Coordinator
