"""The barrier a relocating subscriber waits for before it leaves a broker (rule 3).

A generation of markers is launched once the subscriber is attached wherever it wants to be. Every source's agent
publishes a marker on its own broker and, when it comes back to it in order, forwards it over all its paths. A marker
of source x through broker v proves: what x's agent had before it has come through v, what it gets later will. So with
markers of all sources through all brokers, old and new, nothing lies between two stools.
"""

from __future__ import annotations

from collections.abc import Collection

from nearcast.wire.control import Generation, Marker


class Barrier:
    __slots__ = ("asked_s", "asks", "generation", "incarnation", "linger_until_s", "origin", "seen", "sources")

    def __init__(self, now: float) -> None:
        self.asked_s = now
        self.asks = 0
        self.origin = ""
        self.incarnation = 0
        self.generation: int | None = None
        self.sources: tuple[str, ...] = ()
        self.seen: dict[tuple[str, str, str], tuple[int, int]] = {}  # (source, through, origin) -> latest generation
        self.linger_until_s: float | None = None

    def granted(self, message: Generation) -> None:
        self.origin, self.incarnation = message.origin, message.incarnation
        self.generation, self.sources = message.generation, message.sources

    def marker(self, message: Marker, via: str) -> None:
        """Kept even before the generation is known: through another broker it may come before the answer."""
        self.seen[message.source, via, message.origin] = (message.incarnation, message.generation)

    def complete(self, attached: Collection[str]) -> bool:
        if self.generation is None:
            return False
        through = [broker for broker in attached if broker in self.sources]
        return all(self._passed(source, via) for source in self.sources for via in through)

    def _passed(self, source: str, via: str) -> bool:
        incarnation, generation = self.seen.get((source, via, self.origin), (0, 0))
        assert self.generation is not None
        return incarnation == self.incarnation and generation >= self.generation
