"""What is processed of one topic at one agent: its stage, publishers that wait for it, and spools kept in step.

The forwarder (`control.forwarder`) says by which routes; what comes out of the stage goes onto the topic, where it is
forwarded like anything else.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping

from nearcast.control.copies import copies_of, keep_in_step, messages_of
from nearcast.control.instructions import Instruction, Reply, Say
from nearcast.control.register import Register
from nearcast.control.stage import Outcome, Stage
from nearcast.control.timing import Timing
from nearcast.domain.processor import WhenFull
from nearcast.domain.route import Route
from nearcast.wire.control import Copies, Hold
from nearcast.wire.envelope import PLAIN, Envelope

_HOLD_S = 1.0  # publishers go on by themselves after so long: the agent that asked them to wait may be no more

Routes = Mapping[int, Route]
"""Those that are live, by epoch."""


class Processing:
    __slots__ = ("_copy_s", "_held_s", "broker", "stage", "timing", "topic")

    def __init__(self, topic: str, broker: str, timing: Timing) -> None:
        self.topic = topic
        self.broker = broker
        self.timing = timing
        self.stage: Stage | None = None  # while something is to be processed here
        self._held_s = -math.inf  # when publishers were last asked to wait; -inf: they need not
        self._copy_s = math.inf  # when what was spooled here goes to the others

    def open(self) -> None:
        self.stage = Stage(self.topic, self.broker, wait_s=self.timing.wait_s, beat_s=self.timing.beat_s)

    @property
    def idle(self) -> bool:
        return self.stage is None or self.stage.idle

    def put_in(self, envelope: Envelope, routes: Routes, clients: Register, now: float) -> list[Instruction]:
        """Each message is processed as the route says that it was sent by."""
        if self.stage is None:
            return []
        sent_by = routes.get(envelope.epoch)
        if sent_by is None or envelope.flags & PLAIN:
            known = (routes[epoch].processor for epoch in sorted(routes, reverse=True))
            processor = next((each for each in known if each is not None), None)
        else:
            processor = sent_by.processor
        out = self.stage.take(envelope, processor, now)
        if processor is not None and processor.when_full is WhenFull.BLOCK and self.stage.waiting >= processor.queue:
            out += self._hold(clients, now, _HOLD_S)
        return out

    def processed(
        self, number: int, outcome: Outcome, routes: Routes, clients: Register, now: float
    ) -> list[Instruction]:
        if self.stage is None:
            return []
        out = self.stage.done(number, outcome, now)
        if not any(map(keep_in_step, routes.values())):
            self.stage.spooled.clear()
        elif self.stage.spooled and self._copy_s == math.inf:
            self._copy_s = now + self.timing.copy_s
        if self._held_s > -math.inf:
            newest = routes[max(routes)].processor
            full = newest is not None and self.stage.waiting > newest.queue // 2
            out += self._hold(clients, now, _HOLD_S if full else 0.0)
        return out

    def _hold(self, clients: Register, now: float, seconds: float) -> list[Instruction]:
        """Publishers registered here are asked to wait, again and again while it is so, or to go on."""
        if seconds and now < self._held_s + seconds / 2:
            return []
        self._held_s = now if seconds else -math.inf
        publishers = [entry for entry in clients.entries.values() if entry.publisher]
        return [Reply(each.client, Hold(self.topic, each.publisher, seconds)) for each in publishers]

    # Spools in step

    def copied(self, message: Copies, routes: Routes) -> None:
        """What another home has spooled: from the next message on, our processor sees it too."""
        processors = [each.processor for each in routes.values() if each.processor is not None]
        if self.stage is not None and processors:
            self.stage.copied(messages_of(message), max(each.spool for each in processors))

    def hand_over(self, was: Route | None, will: Route | None, lost: Container[str]) -> list[Instruction]:
        """The spool, to those who come to process the topic by the next route, by the first of those who did."""
        if was is None or will is None or was.processor is None or self.stage is None:
            return []
        present = [broker for broker in was.takes if broker not in lost]
        if present[:1] != [self.broker]:
            return []
        coming = [broker for broker in keep_in_step(will) if broker not in was.takes]
        return [each for broker in coming for each in self.whole_spool(broker)]

    def whole_spool(self, to: str) -> list[Instruction]:
        if self.stage is None:
            return []
        kept = (each for each in self.stage.spool.since(0) if each.sequenced)  # of the others a repeat is not known
        return [Say(to, part) for part in copies_of(self.topic, kept)]

    def in_step(self, routes: Routes) -> tuple[str, ...]:
        """The others whose spools are to have what ours has."""
        brokers = {broker for each in routes.values() for broker in keep_in_step(each)}
        return tuple(sorted(brokers - {self.broker}))

    def _copy(self, routes: Routes, down: Container[str]) -> list[Instruction]:
        self._copy_s = math.inf
        if self.stage is None:
            return []
        parts = list(copies_of(self.topic, self.stage.spooled))
        self.stage.spooled.clear()
        return [Say(broker, part) for broker in self.in_step(routes) if broker not in down for part in parts]

    # Time

    def wake_s(self) -> float:
        return self._copy_s if self.stage is None else min(self._copy_s, self.stage.wake_s())

    def tick(self, routes: Routes, down: Container[str], now: float) -> list[Instruction]:
        out = [] if self.stage is None else self.stage.tick(now)
        if now >= self._copy_s:
            out += self._copy(routes, down)
        return out
