"""One topic at one agent: what it forwards where, whom it has told what, and when its broker is quiet.

While a topic moves, every agent of its old, new and draining brokers listens on its own broker and carries each message
to the brokers that the subscribers of any live route need it on. It forwards only where the message has not been
(rule 5), over paths that are sessions with counters (rule 4), and goes on until its broker has been quiet for 2L
(rule 7).
"""

from __future__ import annotations

import math

import msgspec

from nearcast.control.handover import Counted
from nearcast.control.instructions import Answer, Attach, Detach, Instruction, Reply, Say, Send
from nearcast.control.paths import Outbound, belongs
from nearcast.control.processing import Processing
from nearcast.control.register import Entry, Register
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.stage import Outcome
from nearcast.control.timing import Timing
from nearcast.domain.broker import Addresses
from nearcast.domain.log import TopicLog
from nearcast.domain.route import Route, Strategy, brokers_of
from nearcast.wire.control import (
    Ack,
    Ask,
    Beat,
    Broken,
    Bye,
    Copies,
    Generation,
    Gone,
    Hello,
    Launch,
    Marker,
    OnTopic,
    Prepare,
    Quiet,
    Release,
    Switch,
    Tell,
    Welcome,
)
from nearcast.wire.envelope import CONTROL, END, HEADER_BYTES, HEARTBEAT, Envelope, notice

_SESSIONS = 1 << 20  # per incarnation and topic; session ids of one agent never meet
MOST_INCARNATIONS = 1 << 44  # a session id has 64 bits on the wire


class _End(msgspec.Struct, frozen=True, gc=False):
    """Of a leg: where it began, by which epoch it was sent where, and when that was seen here."""

    first: int
    epoch: int
    sent_to: tuple[str, ...]
    at_s: float


class Forwarder:
    __slots__ = (
        "_beat_s",
        "_deaf",
        "_down",
        "_ended",
        "_generation",
        "_launch_s",
        "_lazy_switch",
        "_pending",
        "_quiet_s",
        "_resumed",
        "_sessions",
        "_stale_s",
        "addresses",
        "attached",
        "broker",
        "clients",
        "counted",
        "incarnation",
        "inlet",
        "log",
        "lost",
        "paths",
        "processing",
        "routes",
        "rules",
        "timing",
        "told",
        "topic",
        "used_s",
    )

    def __init__(
        self,
        topic: str,
        broker: str,
        incarnation: int,
        first: Route,
        *,
        timing: Timing,
        rules: Rules = ALL_ON,
        counted: Counted | None = None,
    ) -> None:
        self.topic = topic
        self.broker = broker
        self.incarnation = incarnation
        self.timing = timing
        self.rules = rules
        self.routes: dict[int, Route] = {first.epoch: first}
        self.told = first.epoch
        self.lost: tuple[str, ...] = ()
        self.addresses: Addresses = ()  # of brokers of the routes that came later than clients' files
        self.log: TopicLog | None = None
        self.attached: bool | None = False  # None: asked for, not yet confirmed
        self.inlet: bool | None = False  # likewise, to what is to be processed here
        self.processing = Processing(topic, broker, timing)
        self.paths: dict[str, Outbound] = {}
        self.clients = Register()
        self.counted = counted or Counted()
        self.used_s = -math.inf  # when somebody last asked
        self._deaf = False  # our own broker went away, and nothing was heard of the topic since
        self._down: dict[str, None] = {}
        self._sessions = 0
        self._ended: dict[tuple[int, int], _End] = {}  # (publisher, last) -> the leg that ended here, oldest first
        self._pending: list[Prepare | Tell] = []  # commands that wait for our own subscription
        self._resumed = False  # another agent had our part before: what it did with it is not known
        self._lazy_switch = False
        self._generation = 0
        self._launch_s = math.inf
        self._beat_s = math.inf
        self._stale_s = -math.inf
        self._quiet_s = -math.inf  # when quiet was last said; said again until it is released

    # What follows from the routes

    @property
    def newest(self) -> int:
        return max(self.routes)

    @property
    def floor(self) -> int:
        return min(self.routes)

    @property
    def members(self) -> tuple[str, ...]:
        """Every broker of a live route."""
        return brokers_of(self.routes.values())

    @property
    def sources(self) -> tuple[str, ...]:
        """The brokers whose agents forward for the routes that clients may know."""
        told = [route for epoch, route in self.routes.items() if epoch <= self.told]
        return tuple(broker for broker in brokers_of(told) if broker not in self.lost)

    @property
    def _missed(self) -> tuple[str, ...]:
        """The lost brokers that clients should know of: from one that no live route names, nothing can be missing."""
        return tuple(broker for broker in self.lost if broker in self.members)

    @property
    def forwards(self) -> bool:
        return len(self.routes) > 1 or any(route.forwards for route in self.routes.values())

    @property
    def _taps(self) -> bool:
        return self.broker in self.members and self.forwards

    @property
    def _processes(self) -> bool:
        """Whether somebody may send here what is to be processed."""
        return any(each.processor is not None and self.broker in each.takes for each in self.routes.values())

    @property
    def _unconfirmed(self) -> bool:
        """Whether a subscription of ours is asked for and not yet there."""
        return (self._taps and self.attached is None) or (self._processes and self.inlet is None)

    # The coordinator's commands

    def prepare(self, command: Prepare, now: float, *, fresh: bool) -> list[Instruction]:
        """Rule 1: subscribed and confirmed before it is acknowledged. `fresh`: this agent knew nothing of the topic."""
        told_before = [route for route in command.routes if route.epoch <= command.told]
        if fresh and (len(told_before) > 1 or any(each.forwards or each.processor for each in told_before)):
            self._resumed = self.broker in brokers_of(told_before)
            self._stale_s = now  # whoever used our broker before has not told us yet
        self.routes = {route.epoch: route for route in command.routes}
        self.told = max(self.told, command.told) if not fresh else command.told
        self.lost, self.addresses, self.log = command.lost, command.addresses, command.log
        out: list[Instruction] = []
        if self._taps:
            self._open_paths(now)
            if self._resumed:
                out += self._break_all()  # before any other frame, and once more when we hear the topic again
            if self.attached is False:
                self.attached = None
                out.append(Attach(self.broker))
                if not self.rules.confirm:
                    self.attached = True
        if self._processes and self.inlet is False:
            self.inlet = None
            self.processing.open()
            out.append(Attach(self.broker, inlet=True))
        if self._unconfirmed:
            self._pending.append(command)
            return out
        return [*out, self._ack(command.term, "prepare", command.epoch)]

    def subscribed(self, now: float, *, inlet: bool = False) -> list[Instruction]:
        """Our subscription at our own broker is confirmed (rule 2): commands that waited for it are done now."""
        if (self.inlet if inlet else self.attached) is not None:
            return []
        if inlet:
            self.inlet = True
        else:
            self.attached = True
        if self._unconfirmed:
            return []
        out: list[Instruction] = []
        if self._resumed:
            self._resumed = False
            out += self._break_all()
        pending, self._pending = self._pending, []
        for command in pending:
            if isinstance(command, Prepare):
                out.append(self._ack(command.term, "prepare", command.epoch))
            else:
                out += self.tell(command, now)
        return out

    def tell(self, command: Tell, now: float) -> list[Instruction]:
        if self._unconfirmed:
            self._pending.append(command)
            return []
        news = command.epoch > self.told or command.lost != self.lost
        self.lost = command.lost
        out: list[Instruction] = []
        if command.epoch > self.told:
            was, will = self.routes.get(self.told), self.routes.get(command.epoch)
            out += self.processing.hand_over(was, will, self.lost)
            self.told = command.epoch
            self._stale_s = now
            if self.broker in self.members:
                self.counted.told(now, leaves=self.broker not in self.routes[self.newest].brokers)
        if news and self.broker in self.members:
            if command.eager:
                out.append(self._on_topic(self._switch()))
            else:
                self._lazy_switch = True
        if command.eager:
            # Readers of a log are not attached to the topic, and hear no Switch.
            unknowing = [entry for entry in self.clients.below(self.told) if entry.publisher or self.log is not None]
            out += [self._corrected(each) for each in unknowing]
        return [*out, self._ack(command.term, "tell", command.epoch)]

    def release(self, command: Release) -> list[Instruction]:
        """Nobody uses an epoch below the floor any more: stop forwarding for them."""
        self.log = command.log
        self.routes = {epoch: route for epoch, route in self.routes.items() if epoch >= command.floor}
        out: list[Instruction] = []
        members = self.members
        for target in [target for target in self.paths if target not in members or not self.forwards]:
            del self.paths[target]
        if self.broker in members:
            out.append(self._on_topic(self._switch()))
        if not self._taps and self.attached is not False:
            self.attached = False
            self._beat_s = math.inf
            out.append(Detach(self.broker))
        if not self._processes and self.inlet is not False:
            if not self.processing.idle:  # we were cut off, and nobody waited for us
                out.append(self._on_topic(Broken(self.topic, self.broker)))
            self.inlet, self.processing.stage = False, None
            out.append(Detach(self.broker, inlet=True))
        self._ended = {key: end for key, end in self._ended.items() if end.epoch >= self.floor and self.forwards}
        return [*out, self._ack(command.term, "release", command.floor)]

    # Clients

    def hello(self, message: Hello, now: float) -> list[Instruction]:
        self.used_s = now
        welcome = self.welcome(message.asked_s, message.publisher)
        if message.attached or (message.publisher and self.broker in welcome.route.publish_to(message.publisher, None)):
            until_s = now + self.timing.lease_s
            self.clients.renew(message.client, message.publisher, message.epoch, until_s, message.home)
            welcome = msgspec.structs.replace(welcome, registered=self.broker)
        return [Reply(message.client, welcome)]

    def bye(self, message: Bye) -> None:
        self.clients.leave(message.client, message.publisher)

    def welcome(self, asked_s: float, publisher: int) -> Welcome:
        route = self.routes.get(self.told) or self.routes[self.floor]
        lease_s = self.timing.lease_s
        log = self.log if self.log is not None and self.log.segment(route.epoch) else None
        return Welcome(
            self.topic,
            route,
            self.sources,
            self.floor,
            self._missed,
            lease_s,
            asked_s,
            0,
            (),
            publisher=publisher,
            addresses=self.addresses,
            log=log and log.until(route.epoch),
        )

    def ask(self, message: Ask, now: float) -> list[Instruction]:
        """Markers asked for within a time share a generation; one already launched may have passed the asker by."""
        if self._launch_s == math.inf:
            self._generation += 1
            crowd_s = self.timing.merge_client_s * len(self.clients.entries) * len(self.sources)
            self._launch_s = now + min(self.timing.merge_s + crowd_s, self.timing.retry_s)
        in_s = self._launch_s - now
        answer = Generation(self.topic, self.told, self.broker, self.incarnation, self._generation, self.sources, in_s)
        return [Reply(message.client, answer)]

    def launch(self, message: Launch) -> list[Instruction]:
        legs = sorted(self._ended.items())
        ended = tuple((publisher, last, end.sent_to) for (publisher, last), end in legs)
        firsts = tuple(end.first for _, end in legs)
        marker = Marker(self.topic, message.origin, message.incarnation, message.generation, self.broker, ended, firsts)
        return [self._on_topic(marker)]

    # What comes in on the topic at our own broker

    def frame(self, envelope: Envelope, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        if envelope.notice is not None and not belongs(envelope, self.topic, self.broker):
            return out
        if self._deaf:  # the first one after a hole: nothing of it may go out before that is said
            self._deaf = False
            out += self._break_all()
        if envelope.trail is None and not envelope.flags & CONTROL:
            if envelope.flags & END and envelope.epoch in self.routes:
                self._note_end(envelope, now)
            if envelope.epoch < self.told:
                out += self._correct(envelope, now)
            if self._lazy_switch:
                self._lazy_switch = False
                out.append(self._on_topic(self._switch()))
        targets, visited = self._where(envelope)
        if not targets:
            return out
        everywhere = (*visited, *targets)
        is_message = not envelope.flags & (CONTROL | END | HEARTBEAT)
        for target in targets:
            path = self.paths.get(target)
            if path is None:
                continue
            framed = path.frame(envelope, self.newest, everywhere)
            if is_message:
                self.counted.forwarded += 1
                self.counted.forwarded_bytes += HEADER_BYTES + len(envelope.payload)
            if path.up:
                out.append(Send(target, framed))
        return out

    def _note_end(self, envelope: Envelope, now: float) -> None:
        """Who joins later asks where a leg ended, for as long as its publisher may go on with the next one."""
        sent_by = self.routes[envelope.epoch]
        sent_to = sent_by.brokers if sent_by.strategy is Strategy.ALL_PUBLISHERS else (self.broker,)
        self._ended.pop((envelope.publisher, envelope.seq), None)
        self._ended[envelope.publisher, envelope.seq] = _End(envelope.first, envelope.epoch, sent_to, now)
        while len(self.routes) == 1:  # homed, and at rest: publishers come and go, and nothing is released
            oldest, end = next(iter(self._ended.items()))
            if now < end.at_s + self.timing.forget_s + self.timing.lease_s:
                break
            del self._ended[oldest]

    # What is to be processed here

    def put_in(self, envelope: Envelope, now: float) -> list[Instruction]:
        """From the topic's inlet at our own broker."""
        return self.processing.put_in(envelope, self.routes, self.clients, now)

    def processed(self, number: int, outcome: Outcome, now: float) -> list[Instruction]:
        return self.processing.processed(number, outcome, self.routes, self.clients, now)

    def copied(self, message: Copies) -> None:
        self.processing.copied(message, self.routes)

    # Where to

    def _where(self, envelope: Envelope) -> tuple[list[str], tuple[str, ...]]:
        """Rule 5: the brokers this message must still reach, and those it has been to."""
        trail = envelope.trail
        if not self.rules.visited:
            return [broker for broker in self.members if broker != self.broker], (trail.visited if trail else ())
        if trail is not None:
            if trail.known_epoch >= self.newest:
                return [], ()
            visited = trail.visited
            routes = [self.routes[epoch] for epoch in sorted(self.routes) if epoch > trail.known_epoch]
        else:
            if isinstance(envelope.notice, Switch | Beat):
                return [], ()
            sent_by = self.routes.get(envelope.epoch)
            several = sent_by is not None and sent_by.strategy is Strategy.ALL_PUBLISHERS
            visited = sent_by.brokers if sent_by and several and not envelope.flags & CONTROL else (self.broker,)
            routes = [self.routes[epoch] for epoch in sorted(self.routes)]
        if envelope.flags & (CONTROL | END | HEARTBEAT):
            return [broker for broker in brokers_of(routes) if broker not in visited], visited
        targets: list[str] = []
        for route in sorted(routes, key=lambda each: each.strategy is Strategy.ALL_SUBSCRIBERS):
            targets += route.missing((*visited, *targets), envelope.publisher)
        return targets, visited

    def _correct(self, envelope: Envelope, now: float) -> list[Instruction]:
        """A publisher that does not know the route yet: it is told, and our broker is not quiet."""
        self._stale_s = now
        for entry in self.clients.below(self.told):
            if entry.publisher == envelope.publisher:
                entry.epoch = self.told  # told once; its next hello says what it has taken
                return [self._corrected(entry)]
        return []

    def _corrected(self, entry: Entry) -> Reply:
        self.counted.notices += 1
        return Reply(entry.client, self.welcome(-math.inf, entry.publisher))

    # Connections

    def confirmed(self, target: str, session: int, count: int) -> None:
        path = self.paths.get(target)
        if path is not None and path.session == session:
            path.confirmed(count)

    def peer_lost(self, target: str) -> None:
        self._down[target] = None
        path = self.paths.get(target)
        if path is not None:
            path.up = False

    def peer_restored(self, target: str) -> list[Instruction]:
        """Rule 4: what the broken connection may have swallowed is sent again; else the session is over, and said."""
        self._down.pop(target, None)
        path = self.paths.get(target)
        if path is None:
            return []
        path.up = True
        copies = self.processing.whole_spool(target) if target in self.processing.in_step(self.routes) else []
        if path.whole:
            return [*(Send(target, framed) for framed in path.unconfirmed), *copies]
        return [*self._break(target), *copies]

    def own_lost(self) -> None:
        self._deaf = bool(self.attached or self.inlet)

    def own_restored(self) -> list[Instruction]:
        """Our own broker was away: what was published there meanwhile was not forwarded."""
        self._deaf = False
        return self._break_all() if self.attached or self.inlet else []

    # Time

    def wake_s(self) -> float:
        wake_s = min(self._launch_s, self.clients.next_s(), self._beat_s, self.processing.wake_s())
        if self._waits_for_quiet():
            wake_s = min(wake_s, max(self._stale_s + self.timing.quiet_s, self._quiet_s + self.timing.renew_s))
        return wake_s

    def tick(self, now: float, *, broker_up: bool = True) -> list[Instruction]:
        """`broker_up` False: we hear nothing of our own broker, and do not beat as if we did."""
        out: list[Instruction] = []
        gone = [entry.publisher for entry in self.clients.expire(now) if entry.publisher]
        if self.broker in self.members:
            out += [self._on_topic(Gone(self.topic, publisher)) for publisher in gone]
        out += self.processing.tick(self.routes, self._down, now)
        if now >= self._launch_s:
            self._launch_s = math.inf
            launch = Launch(self.topic, self.broker, self.incarnation, self._generation)
            out += self.launch(launch) if self.broker in self.sources else []
            out += [Say(source, launch) for source in self.sources if source != self.broker]
        if now >= self._beat_s:
            self._beat_s = now + self.timing.beat_s
            for target in self.paths if broker_up else ():
                out += self._over(target, notice(Beat(self.topic), self.newest))
        said_s = self._quiet_s + self.timing.renew_s
        if self._waits_for_quiet() and now >= max(self._stale_s + self.timing.quiet_s, said_s):
            self._quiet_s = now
            self.counted.emptied(now)
            out.append(Answer(Quiet(self.topic, self.broker, self.told)))
        return out

    def _waits_for_quiet(self) -> bool:
        if not self.processing.idle:
            return False
        return self.floor < self.told == self.newest and not self.clients.below(self.told)

    # Small things

    def _open_paths(self, now: float) -> None:
        for target in self.members:
            if target != self.broker and target not in self.paths:
                self._new_path(target)
        self._beat_s = min(self._beat_s, now + self.timing.beat_s)

    def _break_all(self) -> list[Instruction]:
        """Also to those who listen here, when what they get comes through us."""
        here = [self._on_topic(Broken(self.topic, self.broker))] if self.inlet else []
        return [*here, *(instruction for target in self.paths for instruction in self._break(target))]

    def _break(self, target: str) -> list[Instruction]:
        """A new session: its first frame says that the one before may have been cut short."""
        self._new_path(target)
        return self._over(target, notice(Broken(self.topic, self.broker), self.newest))

    def _new_path(self, target: str) -> None:
        self._sessions += 1
        path = Outbound(self.broker, self.incarnation * _SESSIONS + self._sessions)
        path.up = target not in self._down
        self.paths[target] = path

    def _over(self, target: str, envelope: Envelope) -> list[Instruction]:
        path = self.paths[target]
        framed = path.frame(envelope, self.newest, (self.broker, target))
        return [Send(target, framed)] if path.up else []

    def _on_topic(self, message: OnTopic) -> Send:
        """At our own broker; where we listen, our own subscription brings it back to us and so over every path."""
        return Send(self.broker, notice(message, self.newest))

    def _switch(self) -> Switch:
        self.counted.notices += 1
        route = self.routes.get(self.told) or self.routes[self.floor]
        return Switch(self.topic, route, self.sources, self.floor, self._missed, self.addresses)

    def _ack(self, term: int, of: str, epoch: int) -> Answer:
        return Answer(Ack(self.topic, self.broker, self.incarnation, term, of, epoch))
