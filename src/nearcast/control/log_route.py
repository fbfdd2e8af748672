"""Where a persistent topic is, for one of its clients: the route and its log, as a lease."""

from __future__ import annotations

import math

from nearcast.control.instructions import Instruction, Say
from nearcast.control.lease import Lease
from nearcast.control.rules import Rules
from nearcast.control.timing import Timing
from nearcast.domain.log import TopicLog
from nearcast.domain.ring import Ring
from nearcast.wire.control import Bye, Hello, Unsure, Welcome


class LogRoute:
    """Says hello as often as a lease asks for it, to agents that may know, and goodbye in the end.

    The agent at the topic's broker holds a lease on us in turn: it tells us of a move at once.
    """

    __slots__ = ("_down", "_held_s", "_known", "_said_s", "client", "lease", "log", "publisher")

    def __init__(
        self, topic: str, publisher: int, client: str, ring: Ring, *, timing: Timing, rules: Rules, first: Welcome
    ) -> None:
        """`publisher` 0 for a reader. `first` has told us that the topic is persistent."""
        self.client = client
        self.publisher = publisher
        self.lease = Lease(topic, ring, timing, rules)
        self.log: TopicLog | None = None
        self._known: dict[str, None] = {}
        self._down: dict[str, None] = {}
        self._held_s = -math.inf  # when the agent at the topic's broker was last asked, that then confirmed `epoch`
        self._said_s = -math.inf  # when it was last asked at all
        self.welcome(first)

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    @property
    def broker(self) -> str:
        assert self.lease.route is not None
        return self.lease.route.brokers[0]

    def held_until_s(self) -> float:
        """Until then nobody has sealed the segment of `epoch`.

        Only the agent at the topic's broker can say so: the broker is not quiet, and nothing is sealed, before that
        agent has been told of the next epoch, and every lease that it gave before is over. One that is unsure gives
        none.
        """
        return self._held_s + self.lease.timing.lease_s

    def confirmed_since(self, at_s: float) -> bool:
        """Whether that agent was asked after this time, and confirmed the same epoch."""
        return self._held_s >= at_s

    def welcome(self, message: Welcome) -> bool:
        """Whether the epoch is another."""
        before = self.epoch
        self.lease.welcome(message)
        if self.epoch != before:
            self._held_s = -math.inf
        if message.log is not None and message.route.epoch == self.epoch:
            self.log = message.log if self.log is None else message.log.after(self.log)
            if message.registered == self.broker:
                self._held_s = max(self._held_s, message.asked_s)
        return self.epoch != before

    def unsure(self, message: Unsure) -> None:
        self.lease.refused(message)

    def lost(self, broker: str) -> None:
        self._down[broker] = None

    def restored(self, broker: str, now: float) -> list[Instruction]:
        """Rule 8."""
        self._down.pop(broker, None)
        return [self._hello(broker, now)] if broker == self.broker else []

    def wake_s(self) -> float:
        return min(self.lease.due_s(), self._renew_s())

    def tick(self, now: float) -> list[Instruction]:
        asked: dict[str, None] = {}
        in_use = () if self.broker in self._down else (self.broker,)
        if now >= self.lease.due_s():
            asked[self.lease.ask(in_use, now)] = None
        if asked or now >= self._renew_s():
            self._said_s = now
            asked |= dict.fromkeys(in_use)
        return [self._hello(broker, now) for broker in asked]

    def _renew_s(self) -> float:
        """When the agent at the topic's broker is to be asked."""
        timing = self.lease.timing
        return max(self._held_s + timing.renew_s, self._said_s + timing.retry_s)

    def moved(self, now: float) -> list[Instruction]:
        """The agent of the new broker should know whom to tell of the next move; those of others need not."""
        others = [broker for broker in self._known if broker != self.broker]
        self._known, self._said_s = {}, now
        return [self._hello(self.broker, now), *self._byes(others)]

    def close(self) -> list[Instruction]:
        return self._byes(list(self._known))

    def _byes(self, brokers: list[str]) -> list[Instruction]:
        bye = Bye(self.lease.topic, self.client, self.publisher)
        return [Say(broker, bye) for broker in brokers if broker not in self._down]

    def _hello(self, broker: str, now: float) -> Say:
        self._known[broker] = None
        lease = self.lease
        attached = broker == self.broker
        version = lease.ring.version
        return Say(broker, Hello(lease.topic, self.client, self.publisher, lease.epoch, attached, now, version))
