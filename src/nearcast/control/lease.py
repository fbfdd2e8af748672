"""A client's route for one topic, and for how long it may be used (rules 7 and 9)."""

from __future__ import annotations

import math

from nearcast.control.rules import Rules
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route
from nearcast.wire.control import Unsure, Welcome


class Lease:
    """Confirmed by a `Welcome` to a question of at most L ago, counted from when the question was sent.

    Questions go to the brokers in use first, then to the ring's owner, then to anybody. When every agent that answers
    is unsure, the control plane is away and nothing can move: the route is kept.
    """

    __slots__ = (
        "_asked",
        "_leased",
        "_unsure",
        "asked_s",
        "confirmed_s",
        "floor",
        "home",
        "lost",
        "ring",
        "route",
        "rules",
        "sources",
        "timing",
        "topic",
    )

    def __init__(self, topic: str, ring: Ring, timing: Timing, rules: Rules) -> None:
        self.topic = topic
        self.ring = ring
        self.timing = timing
        self.rules = rules
        self.route: Route | None = None
        self.home: str | None = None  # where this client is at home: of a homed route it uses that broker
        self.sources: tuple[str, ...] = ()
        self.floor = 0
        self.lost: tuple[str, ...] = ()
        self.confirmed_s = -math.inf
        self.asked_s = -math.inf
        self._asked = 0  # questions since the last confirmation
        self._unsure = 0  # how many of them were answered by agents without a lease
        self._leased = False  # whether one that has a lease answered, even if it knew nothing

    @property
    def epoch(self) -> int:
        return self.route.epoch if self.route else 0

    @property
    def unsure(self) -> bool:
        """Every candidate was asked, and whoever answered had no lease: the control plane is away."""
        return self._unsure > 0 and not self._leased and self._asked >= len(self.candidates(()))

    def usable(self, now: float) -> bool:
        return now < self.usable_until_s()

    def usable_until_s(self) -> float:
        """Unless something is asked or answered before."""
        if self.route is None:
            return -math.inf
        if not self.rules.leases or self.unsure:
            return math.inf
        return self.confirmed_s + self.timing.lease_s

    def candidates(self, in_use: tuple[str, ...]) -> tuple[str, ...]:
        order = dict.fromkeys((*in_use, self.ring.owner(self.topic), *self.ring.brokers))
        return tuple(order)

    def due_s(self) -> float:
        """When to ask next."""
        if self.asked_s > self.confirmed_s:
            return self.asked_s + self.timing.retry_s
        return self.confirmed_s + self.timing.renew_s

    def ask(self, in_use: tuple[str, ...], now: float) -> str:
        """The broker whose agent to ask now."""
        candidates = self.candidates(in_use)
        broker = candidates[self._asked % len(candidates)]
        self._asked += 1
        self.asked_s = now
        return broker

    def refused(self, message: Unsure) -> None:
        """An agent could not say: the next one is asked at once, until all have been."""
        self._learn_ring(message.ring_version, message.ring)
        self._unsure += not message.leased
        self._leased = self._leased or message.leased
        self.asked_s = -math.inf if self._asked < len(self.candidates(())) else self.asked_s

    def welcome(self, message: Welcome) -> bool:
        """Takes the agent's word; True when the route changed. An older epoch changes nothing (rule 10)."""
        self._learn_ring(message.ring_version, message.ring)
        if self.route is not None and message.route.epoch < self.route.epoch:
            return False
        if message.asked_s > self.confirmed_s:
            self.confirmed_s = message.asked_s
            self._asked = self._unsure = 0
            self._leased = False
        self.floor = max(self.floor, message.floor)
        self.lost = message.lost
        self.sources = message.sources
        changed = message.route != self.route
        self.route = message.route
        return changed

    def _learn_ring(self, version: int, brokers: tuple[str, ...]) -> None:
        if version > self.ring.version:
            self.ring = Ring(brokers, version)
