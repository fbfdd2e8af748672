"""One publisher of one topic: sequence numbers, legs, high-water marks, and a route that is a lease.

A **leg** is a run of messages sent to the same brokers. Within a leg order is the connection's; between legs it is
kept by `END(last)` on the old one and by `first`, which every message of the new one carries (rule 6). What a broker
has not confirmed is kept, bounded, and sent again when its connection breaks.

Not promised: that a message reached anybody when `publish` returned; that a message survives this process.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

import msgspec

from nearcast.control.instructions import Instruction, Say, Send
from nearcast.control.lease import Lease
from nearcast.control.rules import ALL_ON, Rules
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.wire.control import Bye, Hello, Hold, Unsure, Welcome
from nearcast.wire.envelope import END, HEARTBEAT, Envelope

MOST_UNCONFIRMED = 4096


class Publisher:
    __slots__ = (
        "_announce_s",
        "_confirmed",
        "_down",
        "_held_until_s",
        "_inlet_first",
        "_known",
        "_leg_s",
        "_registered",
        "_sent_epoch",
        "_step_s",
        "before",
        "client",
        "epoch",
        "first",
        "id",
        "inlet",
        "lease",
        "rules",
        "seq",
        "targets",
        "timing",
        "topic",
        "unconfirmed",
    )

    def __init__(
        self, topic: str, publisher_id: int, client: str, ring: Ring, *, timing: Timing, rules: Rules = ALL_ON
    ) -> None:
        self.topic = topic
        self.id = publisher_id
        self.client = client
        self.timing = timing
        self.rules = rules
        self.lease = Lease(topic, ring, timing, rules)
        self.seq = 0
        self.epoch = 0  # of the route that the present leg follows
        self.first = 1
        self.before = 0  # the epoch of the last message before this leg: nothing older can be under way once it is over
        self.targets: tuple[str, ...] = ()
        self.inlet = False  # whether they process it: then the present leg goes into the topic's inlet
        self._inlet_first = 1  # where the leg began that last changed between the topic and its inlet
        self._held_until_s = -math.inf
        self.unconfirmed: deque[Envelope] = deque()
        self._confirmed: dict[str, int] = {}  # broker -> last sequence number it has surely handled
        self._down: dict[str, None] = {}
        self._known: dict[str, None] = {}  # brokers whose agents may hold a lease on us
        self._leg_s = -math.inf  # when the present leg began, until one of its agents has registered us
        self._registered = False  # whether an agent would miss us: before that, nobody could report what we lose
        self._announce_s = math.inf
        self._sent_epoch = 0
        self._step_s = timing.idle_s

    # Publishing

    def can_publish(self, now: float) -> bool:
        """False while no agent knows us, the route's lease is out (rule 7), too much is unconfirmed, or we are held."""
        if now < self._held_until_s:
            return False
        return self._registered and len(self.unconfirmed) < MOST_UNCONFIRMED and self.lease.usable(now)

    @property
    def reachable(self) -> tuple[str, ...]:
        """The brokers of the route whose connections are up."""
        return tuple(broker for broker in self.targets if broker not in self._down) if self._down else self.targets

    def publish(self, payload: bytes, now: float, sent_ns: int) -> Envelope:
        """The message, to be sent to each that is `reachable`. Call only when `can_publish`."""
        self.seq += 1
        self._sent_epoch = self.epoch
        envelope = Envelope(0, self.id, self.seq, self.epoch, self.before, self.first, sent_ns, payload)
        self.unconfirmed.append(envelope)
        self._step_s = self.timing.idle_s
        self._announce_s = now + self._step_s
        return envelope

    def confirmed(self, broker: str, seq: int) -> None:
        """The broker has handled everything up to `seq`."""
        if broker not in self._confirmed or broker in self._down:
            return
        self._confirmed[broker] = max(self._confirmed[broker], seq)
        lowest = min(self._confirmed.values())
        while self.unconfirmed and self.unconfirmed[0].seq <= lowest:
            self.unconfirmed.popleft()
        for left in [name for name, at in self._confirmed.items() if name not in self.targets and at >= self.first - 1]:
            del self._confirmed[left]

    def waits_for(self) -> list[str]:
        """Brokers whose confirmation is still wanted."""
        if not self.unconfirmed:
            return []
        return [b for b, at in self._confirmed.items() if at < self.seq and b not in self._down]

    # The route

    def welcome(self, message: Welcome, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        if self.lease.welcome(message) or not self.targets:
            out += self._go(now)
            self.epoch = self.lease.epoch
        if message.registered not in self.targets:
            return out
        self._registered = True
        return [*out, *self._farewells()] if message.asked_s >= self._leg_s else out

    def rehome(self, broker: str, now: float) -> list[Instruction]:
        """At home there from now on. Agents of a homed route forward between its brokers all the time: nobody asks."""
        self.lease.home = broker
        return self._go(now) if self.targets else []

    def _go(self, now: float) -> list[Instruction]:
        """To where the route wants us."""
        route = self.lease.route
        assert route is not None
        targets, inlet = route.publish_to(self.id, self.lease.home), route.processor is not None
        changed = targets != self.targets or inlet != self.inlet
        return self._change_leg(targets, now, inlet=inlet) if changed else []

    def unsure(self, message: Unsure) -> None:
        self.lease.refused(message)

    def hold(self, message: Hold, now: float) -> None:
        self._held_until_s = now + message.seconds if message.seconds > 0.0 else -math.inf

    def _change_leg(self, targets: tuple[str, ...], now: float, *, inlet: bool) -> list[Instruction]:
        """Rule 6: the old leg ends with its last number, the new one names where it starts."""
        out: list[Instruction] = []
        cut_off = [b for b in self.targets if b in self._down]
        if self.rules.legs and self.seq >= self.first:
            out += [self._mark(broker, END) for broker in self.reachable]
        self.targets, self.epoch, self._leg_s = targets, self.lease.epoch, now
        if self.seq >= self.first:
            self.before = self._sent_epoch
        self.first = self.seq + 1
        if inlet != self.inlet:
            self.inlet, self._inlet_first = inlet, self.first
        self._held_until_s = -math.inf  # by an agent whose queue is no concern of the new leg
        if cut_off:
            out += self._rebase(cut_off)
        for broker in targets:
            self._confirmed.setdefault(broker, self.first - 1)
        self._announce_s = now + self.timing.idle_s
        # The agents there should know whom to tell of the next move, and whom to miss.
        return [*out, *(self._hello(now, broker) for broker in self.reachable)]

    def _farewells(self) -> list[Instruction]:
        """Goodbye to brokers not in use, once an agent of this leg has registered us: before, nobody would miss us."""
        others = [broker for broker in self._known if broker not in self.targets]
        self._known, self._leg_s = dict.fromkeys(self.targets), -math.inf
        return self._byes(others)

    def _byes(self, brokers: Iterable[str]) -> list[Instruction]:
        return [Say(b, Bye(self.topic, self.client, self.id)) for b in brokers if b not in self._down]

    def _rebase(self, cut_off: list[str]) -> list[Instruction]:
        """The old leg broke: its unconfirmed messages open the new one, which then starts where certainty ends."""
        sure = min(self._confirmed.pop(broker, self.seq) for broker in cut_off)
        again = [message for message in self.unconfirmed if message.seq > sure]
        if not again:
            return []
        self.first = again[0].seq
        out: list[Instruction] = []
        for message in again:
            moved = msgspec.structs.replace(message, epoch=self.epoch, first=self.first)
            out += [Send(broker, moved, self.inlet) for broker in self.reachable]
        return out

    # Connections

    def lost(self, broker: str) -> list[Instruction]:
        self._down[broker] = None
        if broker in self._confirmed and broker not in self.targets:
            # What was under way on a leg already left cannot follow its END any more: it starts the present leg anew.
            return self._rebase([broker])
        return []

    def restored(self, broker: str, now: float) -> list[Instruction]:
        """Sends again what the broken connection may have swallowed, and says hello (rule 8)."""
        self._down.pop(broker, None)
        if broker not in self.targets:
            return []
        sure = self._confirmed.get(broker, 0)
        again = [message for message in self.unconfirmed if message.seq > sure]
        out: list[Instruction]
        if again and again[0].seq < self._inlet_first:
            # Of a leg that went another way at this broker: what is before them may still be on it, and they pass it.
            first = self.first
            out = self._rebase([broker])
            self._confirmed[broker], self.first = sure, min(first, self.first)
        else:
            out = [Send(broker, message, self.inlet) for message in again]
        if self.rules.hello_again:
            out.append(self._hello(now, broker))
        return out

    # Time

    def wake_s(self) -> float:
        wake_s = min(self.lease.due_s(), self._announce_s)
        return wake_s if self._held_until_s == -math.inf else min(wake_s, self._held_until_s)

    def tick(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        if now >= self._held_until_s:
            self._held_until_s = -math.inf
        if now >= self.lease.due_s():
            out += self._hellos(now)
        if now >= self._announce_s:
            out += self._announce(now)
        return out

    def close(self) -> list[Instruction]:
        out: list[Instruction] = []
        if self.rules.legs and self.seq:
            out += [self._mark(broker, END | HEARTBEAT) for broker in self.reachable]
        return [*out, *self._byes(self._known)]

    def _announce(self, now: float) -> list[Instruction]:
        """Rule 6: an idle publisher's high-water mark shows a lost tail; ever more seldom, but within every lease."""
        self._step_s = min(2 * self._step_s, self.timing.renew_s)
        self._announce_s = now + self._step_s
        if not self.rules.legs or self.seq < self.first or not self.lease.usable(now):
            return []
        return [self._mark(broker, HEARTBEAT) for broker in self.reachable]

    def _hellos(self, now: float) -> list[Instruction]:
        """A question to one agent, which may be any; and to those of all our brokers, who hold a lease on us."""
        asked = dict.fromkeys((self.lease.ask(self.reachable, now), *self.reachable))
        return [self._hello(now, broker) for broker in asked]

    def _hello(self, now: float, broker: str) -> Say:
        self._known[broker] = None
        attached, home, version = broker in self.targets, self.lease.home or "", self.lease.ring.version
        return Say(broker, Hello(self.topic, self.client, self.id, self.lease.epoch, attached, now, version, home))

    def _mark(self, broker: str, flag: int) -> Send:
        mark = Envelope(flag, self.id, self.seq, self.epoch, self.before, self.first, 0, b"")
        return Send(broker, mark, self.inlet)
