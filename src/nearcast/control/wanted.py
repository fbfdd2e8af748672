"""The keys that one agent has followers of, told to the pipeline: by differences, numbered, each until it is confirmed.

When the pipeline does not know what came before (it started anew, or never heard it), a new session tells everything.
"""

from __future__ import annotations

import math

from nearcast.control.timing import Timing
from nearcast.wire.channels import MOST_CHANGES, Known, Want, Wanted


class Teller:
    """`session` must be higher than in earlier lives of the same agent; where it is not, it is corrected."""

    __slots__ = ("_asked_s", "_changes", "_number", "_outstanding", "added", "broker", "session", "timing", "wants")

    def __init__(self, broker: str, session: int, timing: Timing) -> None:
        self.broker = broker
        self.session = session
        self.timing = timing
        self.wants: dict[str, Want] = {}
        self._changes: dict[str, Want | float] = {}  # not told yet: to be added, or dropped and held for so long
        self._number = 0  # the last change that was said
        self._outstanding: Wanted | None = None
        self._asked_s = -math.inf
        self.added = 0  # the last change that added a key

    def want(self, key: str, want: Want) -> None:
        if self.wants.get(key) != want:
            self.wants[key] = want
            self._changes[key] = want

    def drop(self, key: str, hold_s: float) -> None:
        if self.wants.pop(key, None) is not None:
            self._changes[key] = hold_s

    def hurry(self) -> None:
        """Ask at once what the pipeline knows: it may be another one, elsewhere."""
        if self._outstanding is None:
            self._asked_s = -math.inf

    @property
    def unsaid(self) -> bool:
        """Something is not confirmed yet."""
        return bool(self._changes) or self._outstanding is not None

    def wake_s(self) -> float:
        if self._outstanding is not None:
            return self._asked_s + self.timing.retry_s
        return -math.inf if self._changes else self._asked_s + self.timing.follow_s

    def tick(self, now: float) -> list[Wanted]:
        """What to say now, if anything: one message is under way at a time."""
        if now < self.wake_s():
            return []
        self._asked_s = now
        if self._outstanding is None:
            self._outstanding = self._next()
        return [self._outstanding]

    def known(self, message: Known) -> bool:
        """Whether it answers what is under way, and confirms it."""
        sent = self._outstanding
        if message.session > self.session:  # our clock went back: an earlier life of ours had a higher one
            self._anew(message.session + 1)
            return False
        if sent is None or message.session != self.session or message.of != sent.number:
            return False
        if message.number != sent.number:
            self._anew(self.session + 1)
            return False
        self._outstanding = None
        return True

    def _next(self) -> Wanted:
        keys = list(self._changes)[:MOST_CHANGES]
        told = [(key, self._changes.pop(key)) for key in keys]
        if any(isinstance(change, Want) for _, change in told):
            self.added = self._number + 1
        self._number += 1  # also when nothing changed: a number stands for one content, whenever it arrives
        add = tuple(change for _, change in told if isinstance(change, Want))
        drop = tuple((key, change) for key, change in told if isinstance(change, float))
        return Wanted(self.broker, self.session, self._number, not self._changes, add, drop)

    def _anew(self, session: int) -> None:
        self.session, self._number, self._outstanding = session, 0, None
        self._changes = dict(self.wants)
        self._asked_s = -math.inf
