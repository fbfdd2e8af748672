"""How far one agent is with one channel: what it has heard of, what it needs, and what it is asking for."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from nearcast.wire.channels import Committed, Pull


class ChannelPulls(msgspec.Struct):
    """`heard`: every key has been published up to this execution, but for those in `need` and in `pulling`."""

    heard: int = 0
    keys: dict[str, None] = msgspec.field(default_factory=dict)
    need: dict[str, int] = msgspec.field(default_factory=dict)  # what came after this execution is to be pulled
    pulling: Pull | None = None
    pulled: frozenset[str] = frozenset()  # the keys of `pulling`
    retry_s: float = -math.inf
    parts: dict[int, dict[int, tuple[str, ...]]] = msgspec.field(default_factory=dict)

    def wants(self, key: str, after: int) -> None:
        self.need[key] = min(self.need.get(key, after), after)

    def hears(self, execution: int, keys: Iterable[str]) -> None:
        """There are executions up to this one; these keys may have rows since the last that was heard of."""
        for key in keys:
            if key in self.keys:
                self.wants(key, self.heard)
        self.heard = execution

    def pull(self, broker: str, name: str) -> Pull:
        """All that is needed now, in one question."""
        self.pulling = Pull(broker, name, tuple(self.need.items()))
        self.pulled, self.need = frozenset(self.need), {}
        return self.pulling

    def answered(self) -> None:
        self.pulling, self.pulled = None, frozenset()

    def settled(self, key: str) -> int:
        """The execution up to which nothing is to be pulled for it."""
        return 0 if key in self.need or key in self.pulled else self.heard

    def whole(self, message: Committed) -> tuple[str, ...] | None:
        """The keys of all parts, once they are here."""
        if message.parts == 1:
            return message.keys
        parts = self.parts.setdefault(message.execution, {})
        parts[message.part] = message.keys
        if len(parts) < message.parts:
            return None
        self.parts = {execution: each for execution, each in self.parts.items() if execution > message.execution}
        return tuple(key for each in parts.values() for key in each)
