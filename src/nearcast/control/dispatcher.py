"""All topics of one agent: the fence against old leaders, the agent's own lease, and the answer to strangers.

Rule 9: without a lease of its own an agent answers `unsure`. Rule 10: a command of an older term is ignored. Rule 11: a
topic that no route names belongs to the ring's owner; whoever asks elsewhere is sent there.
"""

from __future__ import annotations

import math

import msgspec

from nearcast.control.agenda import Agenda
from nearcast.control.forwarder import Forwarder
from nearcast.control.handover import Handovers
from nearcast.control.instructions import Answer, Instruction, Reply
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.stage import Outcome
from nearcast.control.timing import Timing
from nearcast.domain.broker import Addresses
from nearcast.domain.load import Handover, Processed
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import (
    Ack,
    Alive,
    Ask,
    Bye,
    Copies,
    Frozen,
    Hello,
    Launch,
    Prepare,
    Release,
    Renew,
    RingChange,
    Tell,
    ToAgent,
    Unsure,
    Welcome,
)
from nearcast.wire.dialect import NEWEST
from nearcast.wire.envelope import Envelope

Said = tuple[str, Instruction]
"""An instruction, and the topic it is about ("" for none)."""


class Dispatcher:
    __slots__ = (
        "_agenda",
        "_asked_s",
        "_coming",
        "_coming_term",
        "_down",
        "_handovers",
        "_ring_addresses",
        "_sure_since_s",
        "broker",
        "forwarders",
        "incarnation",
        "lease_until_s",
        "ring",
        "rules",
        "term",
        "timing",
    )

    def __init__(self, broker: str, incarnation: int, ring: Ring, timing: Timing, rules: Rules = ALL_ON) -> None:
        self.broker = broker
        self.incarnation = incarnation
        self.ring = ring
        self.timing = timing
        self.rules = rules
        self.term = 0
        self.lease_until_s = -math.inf
        self.forwarders: dict[str, Forwarder] = {}
        self._agenda = Agenda()  # when each topic's forwarder wants to be woken
        self._asked_s = -math.inf
        self._coming: Ring | None = None  # announced, not yet made
        self._coming_term = 0
        self._ring_addresses: Addresses = ()
        self._sure_since_s = math.inf  # without a pause; never yet
        self._handovers = Handovers()
        self._down: dict[str, None] = {}  # peers whose established link is broken

    def sure(self, now: float) -> bool:
        return now < self.lease_until_s or not self.rules.agent_leases

    # Messages

    def message(self, message: ToAgent, now: float) -> list[Said]:
        match message:
            case Hello():
                return self._hello(message, now)
            case Bye():
                if message.topic in self.forwarders:
                    self.forwarders[message.topic].bye(message)
                    return self._about(message.topic, [])
                return []
            case Copies():
                if message.topic in self.forwarders:
                    self.forwarders[message.topic].copied(message)
                return []
            case Ask() | Launch():
                forwarder = self.forwarders.get(message.topic)
                if forwarder is None:
                    return []
                out = forwarder.ask(message, now) if isinstance(message, Ask) else forwarder.launch(message)
                return self._about(message.topic, out)
            case Renew():
                return self._renewed(message, now)
            case _:
                return self._command(message, now)

    def _hello(self, message: Hello, now: float) -> list[Said]:
        topic = message.topic
        forwarder = self.forwarders.get(topic)
        if forwarder is None and message.epoch == 0 and self._owns(topic) and self.sure(now):
            forwarder = self._know(topic, Route(0, Strategy.SINGLE, (self.broker,)))
        if forwarder is None or not self.sure(now) or not self._may_say(forwarder):
            # Only the ring's owner may say that no route names a topic: another simply does not know.
            unsure = Unsure(topic, message.asked_s, message.publisher, self.sure(now), 0, ())
            answers: list[Instruction] = [Reply(message.client, unsure)]
        else:
            answers = forwarder.hello(message, now)
        return self._about(topic, [self._with_ring(answer, message.ring_version) for answer in answers])

    def _owns(self, topic: str) -> bool:
        """Whether a topic that no route names is ours, and will be."""
        stays = self._coming is None or self._coming.owner(topic) == self.broker
        return stays and self.ring.owner(topic) == self.broker

    def _will_own(self, topic: str) -> bool:
        """Whether the ring that was announced gives it to us: then we were told its route, and will have to know it."""
        return self._coming is not None and self._coming.owner(topic) == self.broker

    def _may_say(self, forwarder: Forwarder) -> bool:
        """Whether we are told of every move: one that only was the ring's owner is not, and may know an old route."""
        return self.broker in forwarder.members or self.ring.owner(forwarder.topic) == self.broker

    def _know(self, topic: str, first: Route) -> Forwarder:
        forwarder = Forwarder(
            topic,
            self.broker,
            self.incarnation,
            first,
            timing=self.timing,
            rules=self.rules,
            counted=self._handovers.take_up(topic),
        )
        for peer in self._down:
            forwarder.peer_lost(peer)
        self.forwarders[topic] = forwarder
        return forwarder

    def _with_ring(self, answer: Instruction, their_version: int) -> Instruction:
        """Rule 11: hello carries the ring's version; who has an older ring is given the present one."""
        if their_version >= self.ring.version or not isinstance(answer, Reply):
            return answer
        if not isinstance(answer.message, Welcome | Unsure):
            return answer
        told = answer.message
        addresses = tuple(dict((*told.addresses, *self._ring_addresses)).items())
        newer = msgspec.structs.replace(
            told, ring_version=self.ring.version, ring=self.ring.brokers, addresses=addresses
        )
        return Reply(answer.client, newer)

    def _renewed(self, message: Renew, now: float) -> list[Said]:
        if message.term < self.term and self.rules.terms:
            return []
        self.term = max(self.term, message.term)
        regained = now >= self.lease_until_s
        if regained:
            self._sure_since_s = now
        self.lease_until_s = max(self.lease_until_s, message.asked_s + message.lease_s)
        if message.ring_version >= self.ring.version:  # what our file says of the first one is a guess
            if message.ring != self.ring.brokers or message.ring_version > self.ring.version:
                self._take_ring(Ring(message.ring, message.ring_version))
            self._ring_addresses = message.addresses
        if self._coming is not None and (message.term > self._coming_term or self.ring.version >= self._coming.version):
            self._coming = None  # made, or given up with the leader that announced it
        if regained:
            self._forget_others()
        return []

    def _command(self, command: Prepare | Tell | Release | RingChange, now: float) -> list[Said]:
        if command.term < self.term and self.rules.terms:
            return []  # rule 10: a leader that has been replaced
        self.term = max(self.term, command.term)
        if isinstance(command, RingChange):
            return self._change_ring(command, now)
        topic = command.topic
        forwarder = self.forwarders.get(topic)
        match command:
            case Prepare():
                fresh = forwarder is None
                if forwarder is None:
                    forwarder = self._know(topic, command.routes[0])
                return self._about(topic, forwarder.prepare(command, now, fresh=fresh))
            case Tell() if forwarder is not None:
                return self._about(topic, forwarder.tell(command, now))
            case Release():
                return self._release(command, forwarder, now)
            case _:
                return []  # told of a topic we never prepared: the coordinator prepares us again when we are back

    def _change_ring(self, command: RingChange, now: float) -> list[Said]:
        """Rule 11: announced, it freezes the topics that change owner, and names those in use, to be pinned.

        An agent that has not answered clients for 2L, because it has just started or was cut off, does not know who
        uses its topics. It says nothing, lets them ask, and is asked again.
        """
        if command.version <= self.ring.version:
            return []
        ring = Ring(command.brokers, command.version)
        if command.made:
            self._coming, self._ring_addresses = None, command.addresses
            self._take_ring(ring)
            return []
        if self.broker in self.ring.brokers and now < self._sure_since_s + self.timing.quiet_s:
            return []
        self._coming, self._coming_term = ring, command.term
        implied = (topic for topic, each in self.forwarders.items() if each.newest == 0)
        moving = tuple(sorted(topic for topic in implied if ring.owner(topic) != self.broker))
        return [("", Answer(Frozen(self.broker, command.version, moving)))]

    def _take_ring(self, ring: Ring) -> None:
        self.ring = ring
        self._forget_others()

    def _forget_others(self) -> None:
        """Topics that we only answered for as the ring's owner, or had a part in, are no affair of ours any more."""
        for topic, forwarder in list(self.forwarders.items()):
            if forwarder.newest and not self._may_say(forwarder) and not self._will_own(topic):
                self._forget(topic)

    def _release(self, command: Release, forwarder: Forwarder | None, now: float) -> list[Said]:
        topic = command.topic
        if forwarder is None:
            ack = Ack(topic, self.broker, self.incarnation, command.term, "release", command.floor)
            return [(topic, Answer(ack))]
        if command.floor not in forwarder.routes:
            return []  # we missed its preparation: the coordinator catches us up before it releases anything
        # Who was told of a topic without having a part in it is told as the ring's owner, perhaps of a ring to come.
        had_part = self.broker in forwarder.members
        released = forwarder.release(command)
        # Without a lease we do not know the ring either: it comes with the next one, and may give the topic to us.
        if had_part and self.sure(now) and not self._may_say(forwarder) and not self._will_own(topic):
            self._forget(topic)
        return self._about(topic, released)

    # The topic, connections, time

    def frame(self, topic: str, envelope: Envelope, now: float) -> list[Said]:
        forwarder = self.forwarders.get(topic)
        if forwarder is None:
            return []  # a message only puts off what was due: no need to look at the agenda
        return [(topic, instruction) for instruction in forwarder.frame(envelope, now)]

    def put_in(self, topic: str, envelope: Envelope, now: float) -> list[Said]:
        """From the topic's inlet."""
        forwarder = self.forwarders.get(topic)
        return [] if forwarder is None else self._about(topic, forwarder.put_in(envelope, now))

    def processed(self, topic: str, number: int, outcome: Outcome, now: float) -> list[Said]:
        forwarder = self.forwarders.get(topic)
        return [] if forwarder is None else self._about(topic, forwarder.processed(number, outcome, now))

    def subscribed(self, topic: str, now: float, *, inlet: bool = False) -> list[Said]:
        forwarder = self.forwarders.get(topic)
        return self._about(topic, forwarder.subscribed(now, inlet=inlet)) if forwarder is not None else []

    def sent(self, target: str) -> dict[str, tuple[int, int]]:
        """What has been sent to this broker so far: (session, count) by topic."""
        paths = {topic: each.paths[target] for topic, each in self.forwarders.items() if target in each.paths}
        return {topic: (path.session, path.count) for topic, path in paths.items() if path.pending}

    def confirmed(self, target: str, sent: dict[str, tuple[int, int]]) -> None:
        """The broker has handled what `sent` had counted."""
        for topic, (session, count) in sent.items():
            forwarder = self.forwarders.get(topic)
            if forwarder is not None:
                forwarder.confirmed(target, session, count)

    def peer_lost(self, target: str) -> None:
        self._down[target] = None
        for forwarder in self.forwarders.values():
            forwarder.peer_lost(target)

    def peer_restored(self, target: str) -> list[Said]:
        self._down.pop(target, None)
        restored = ((topic, each.peer_restored(target)) for topic, each in self.forwarders.items())
        return [said for topic, out in restored for said in self._about(topic, out)]

    def own_lost(self) -> None:
        for forwarder in self.forwarders.values():
            forwarder.own_lost()

    def own_restored(self) -> list[Said]:
        return [said for topic, each in self.forwarders.items() for said in self._about(topic, each.own_restored())]

    def wake_s(self) -> float:
        own_s = self._asked_s + self.timing.lease_s / 5
        return min(own_s, self._agenda.next_s())

    def tick(self, now: float, *, broker_up: bool = True) -> list[Said]:
        """`broker_up` False: an agent cut off from its own broker lets its lease run out."""
        out: list[Said] = []
        if now >= self._asked_s + self.timing.lease_s / 5:
            self._asked_s = now
            if broker_up:
                out.append(("", Answer(Alive(self.broker, self.incarnation, now, self.ring.version, NEWEST))))
            self._forget_unused(now)
        for topic in self._agenda.due(now):
            forwarder = self.forwarders.get(topic)
            if forwarder is not None:
                out += self._about(topic, forwarder.tick(now, broker_up=broker_up))
        return out

    def _forget_unused(self, now: float) -> None:
        """Topics that no route names and on which every lease that was given is over."""
        limit_s = now - self.timing.quiet_s
        for topic in [
            topic
            for topic, each in self.forwarders.items()
            if each.newest == 0 and each.used_s <= limit_s and not each.clients.entries
        ]:
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        self._handovers.keep(topic, self.forwarders.pop(topic).counted)

    def handovers(self) -> tuple[Handover, tuple[Handover, ...]]:
        """What moves have cost: all together, and topic by topic, those that cost most first."""
        return self._handovers.told((topic, each.counted) for topic, each in self.forwarders.items())

    def processing(self) -> tuple[Processed, ...]:
        """Of every topic that is processed here, by name."""
        stages = ((topic, each.processing.stage) for topic, each in sorted(self.forwarders.items()))
        return tuple(stage.reported() for _, stage in stages if stage is not None)

    def _about(self, topic: str, instructions: list[Instruction]) -> list[Said]:
        forwarder = self.forwarders.get(topic)
        self._agenda.set(topic, forwarder.wake_s() if forwarder is not None else math.inf)
        return [(topic, instruction) for instruction in instructions]
