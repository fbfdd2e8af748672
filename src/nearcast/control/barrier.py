"""The barrier a relocating subscriber waits for before it leaves a broker (rule 3).

A generation of markers is launched once the subscriber is attached wherever it wants to be. Every source's agent
publishes a marker on its own broker and, when it comes back to it in order, forwards it over all its paths. A marker
of source x through broker v proves: what x's agent had before it has come through v, what it gets later will. So with
markers of all sources through all brokers, old and new, nothing lies between two stools.
"""

from __future__ import annotations

from collections.abc import Collection

from nearcast.wire.control import Generation, Marker

_MOST_DOUBLINGS = 3


class Barrier:
    """Any generation that was granted will do: asking again, because an answer is late, must not undo the first."""

    __slots__ = ("asked_s", "asks", "granted", "linger_until_s", "seen")

    def __init__(self, now: float) -> None:
        self.asked_s = now
        self.asks = 0
        self.granted: dict[str, Generation] = {}  # by origin, the first of each incarnation
        self.seen: dict[tuple[str, str, str], tuple[int, int]] = {}  # (source, through, origin) -> latest generation
        self.linger_until_s: float | None = None

    def due_s(self, retry_s: float) -> float:
        """When to ask again: ever later, for every question makes markers that all who listen must hear."""
        return self.asked_s + retry_s * 2.0 ** min(max(0, self.asks - 1), _MOST_DOUBLINGS)

    def grant(self, message: Generation) -> None:
        known = self.granted.get(message.origin)
        if known is None or known.incarnation != message.incarnation:
            self.granted[message.origin] = message

    def marker(self, message: Marker, via: str) -> None:
        """Kept even before the generation is known: through another broker it may come before the answer."""
        key, new = (message.source, via, message.origin), (message.incarnation, message.generation)
        known, granted = self.seen.get(key, (0, 0)), self.granted.get(message.origin)
        if known[0] == new[0]:
            new = max(known, new)  # one that is sent again undoes nothing
        elif granted is not None and known[0] == granted.incarnation:
            return  # of an agent's earlier life
        self.seen[key] = new

    def complete(self, attached: Collection[str]) -> bool:
        return any(self._passed(granted, attached) for granted in self.granted.values())

    def _passed(self, granted: Generation, attached: Collection[str]) -> bool:
        for source in granted.sources:
            for via in attached:
                if via not in granted.sources:
                    continue
                incarnation, generation = self.seen.get((source, via, granted.origin), (0, 0))
                if incarnation != granted.incarnation or generation < granted.generation:
                    return False
        return True
