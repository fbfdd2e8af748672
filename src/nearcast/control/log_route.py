"""Where a persistent topic is, for one of its clients: the route and its log, as a lease."""

from __future__ import annotations

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

    __slots__ = ("_down", "_known", "client", "lease", "log", "publisher")

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
        self.welcome(first)

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    @property
    def broker(self) -> str:
        assert self.lease.route is not None
        return self.lease.route.brokers[0]

    def held_until_s(self) -> float:
        """Until then nobody has sealed the segment of `epoch`. An agent that is unsure makes it no longer: a write
        counts only if the fleet knew of us when it was acknowledged.
        """
        return self.lease.confirmed_s + self.lease.timing.lease_s

    def welcome(self, message: Welcome) -> bool:
        """Whether the epoch is another."""
        before = self.epoch
        self.lease.welcome(message)
        if message.log is not None and message.route.epoch == self.epoch:
            self.log = message.log
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
        return self.lease.due_s()

    def tick(self, now: float) -> list[Instruction]:
        if now < self.lease.due_s():
            return []
        in_use = () if self.broker in self._down else (self.broker,)
        asked = dict.fromkeys((self.lease.ask(in_use, now), *in_use))
        return [self._hello(broker, now) for broker in asked]

    def moved(self, now: float) -> list[Instruction]:
        """The agent of the new broker should know whom to tell of the next move; those of others need not."""
        others = [broker for broker in self._known if broker != self.broker]
        self._known = {}
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
