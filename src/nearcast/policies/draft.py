"""A plan while it is made: what would be where, and the load that every broker would then have.

Loads are estimates on both ends of every change: what leaves a broker is taken off, what comes is put on, at once. A
topic is changed at most once in a draft, which is also why everything that fills one comes to an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearcast.domain.plan import Step
from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import STRATEGIES, Bools, Floats, Snapshot
from nearcast.policies.rest import Rest, at_rest
from nearcast.policies.settings import Settings


@dataclass(frozen=True, slots=True)
class _Change:
    strategy: Strategy
    members: tuple[int, ...]
    reason: str


class Draft:
    """Follow every change: `load`, `forwarding` (how much of what it can the moves make an agent forward), `received`
    (whether a broker got something).

    `usable` and `frozen` (topics that must stay as they are) change as brokers are given up.
    """

    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        self.snapshot = snapshot
        self.settings = settings
        self.rest: Rest = at_rest(snapshot)
        self.usable: Bools = snapshot.usable
        self.capacity: Floats = snapshot.capacity
        self.load: Floats = self.rest.load.copy()
        self.forwarding: Floats = np.zeros(len(snapshot.brokers))
        self.received: Bools = np.zeros(len(snapshot.brokers), dtype=np.bool_)
        self._changes: dict[int, _Change] = {}
        # Nobody knows what a silent broker carries, and no move without its agent is safe: its topics wait for it.
        silent_rows = snapshot.silent[snapshot.members]
        self.frozen: Bools = np.zeros(len(snapshot.topics), dtype=np.bool_)
        self.frozen[self.rest.row_topic[silent_rows]] = True
        self.homed: Bools = snapshot.strategy == STRATEGIES.index(Strategy.HOMED)
        # What each topic asks of an agent that carries all of it to one other broker, as a part of what it can.
        self._carried: Floats = np.maximum(
            self.rest.publications / settings.forward_messages_per_s, self.rest.bytes_in / settings.forward_bytes_per_s
        )
        # Rows of a broker lie together, the busiest first; equal ones in the order of their topics' names.
        self._rows = np.lexsort((self.rest.row_topic, -self.rest.row_bytes, snapshot.members))
        self._starts = np.searchsorted(snapshot.members[self._rows], np.arange(len(snapshot.brokers) + 1))

    @property
    def ratios(self) -> Floats:
        """Estimated load ratios; infinite for a silent broker."""
        out = np.full(len(self.load), np.inf)
        np.divide(self.load, self.capacity, out=out, where=~self.snapshot.silent)
        return out

    @property
    def mean_ratio(self) -> float:
        """Estimated load over capacity of all usable brokers together."""
        return float(self.load[self.usable].sum() / max(self.capacity[self.usable].sum(), 1e-9))

    @property
    def typical_capacity(self) -> float:
        """What a rented server is taken to have: the median of those that report; 0 where there is none."""
        known = self.capacity[~self.snapshot.silent]
        return float(np.median(known)) if len(known) else 0.0

    def rows_of(self, broker: int) -> list[int]:
        """The rows of a broker's topics, the busiest first, as the snapshot has them."""
        found: list[int] = self._rows[self._starts[broker] : self._starts[broker + 1]].tolist()
        return found

    def members_of(self, topic: int) -> tuple[int, ...]:
        change = self._changes.get(topic)
        if change is not None:
            return change.members
        first = self.snapshot.first
        return tuple(self.snapshot.members[first[topic] : first[topic + 1]].tolist())

    def changed(self, topic: int) -> bool:
        return topic in self._changes

    @property
    def changes(self) -> int:
        """How many topics are changed so far."""
        return len(self._changes)

    def room(self, limit: float) -> Floats:
        """How many more bytes per second each broker may get to be at `limit`; none if it may not be used."""
        return np.where(self.usable, limit * self.capacity - self.load, -np.inf)

    def least_loaded(
        self, fits: Bools, topic: int, taken: Sequence[int] = (), *, with_bytes: float = 0.0, copies: int = 1
    ) -> int | None:
        """The least loaded of the brokers that fit and may get this topic now; of equals, the first by name.

        `with_bytes`: the least loaded once this much has come to it. `copies`: to how many others its agent forwards.
        """
        fits = fits & self.usable
        fits[list(self.members_of(topic))] = False
        fits[list(taken)] = False
        fits &= self._can_forward(topic, copies)
        if not fits.any():
            return None
        return int(
            np.divide(self.load + with_bytes, self.capacity, out=np.full(len(fits), np.inf), where=fits).argmin()
        )

    def may_leave(self, topic: int, brokers: Sequence[int], *, copies: int = 1) -> bool:
        """Whether the agents of these brokers can forward this topic too."""
        return bool(self._can_forward(topic, copies)[list(brokers)].all())

    def _can_forward(self, topic: int, copies: int) -> Bools:
        """One that asks more of an agent than it can is moved when nothing else is, or it would never be."""
        asked = self.forwarding + copies * self._carried[topic]
        can: Bools = (self.forwarding == 0) | (asked <= np.maximum(self.forwarding, 1.0))
        return can

    def move(self, row: int, receiver: int, reason: str) -> None:
        """Put another broker in the place of the one of this row. The strategy stays."""
        topic = int(self.rest.row_topic[row])
        source = int(self.snapshot.members[row])
        amount = float(self.rest.row_bytes[row])
        self.load[source] -= amount
        self.load[receiver] += amount
        members = tuple(sorted({*self.members_of(topic), receiver} - {source}))
        self._set(topic, self.snapshot.strategy_of(topic), members, reason)

    def spread(self, topic: int, strategy: Strategy, members: Sequence[int], reason: str) -> None:
        """Give a topic another route, over which its load spreads evenly."""
        first = self.snapshot.first
        rows = slice(int(first[topic]), int(first[topic + 1]))
        self.load[self.snapshot.members[rows]] -= self.rest.row_bytes[rows]
        self.load[list(members)] += self.rest.bytes_out[topic] / len(members)
        self._set(topic, strategy if len(members) > 1 else Strategy.SINGLE, tuple(sorted(members)), reason)

    def steps(self) -> tuple[Step, ...]:
        names = self.snapshot.brokers
        return tuple(
            Step(
                self.snapshot.topics[topic],
                change.strategy,
                tuple(names[at] for at in change.members),
                self.snapshot.strategy_of(topic),
                self.snapshot.brokers_of(topic),
                change.reason,
            )
            for topic, change in self._changes.items()
        )

    def load_ratios(self) -> tuple[tuple[str, float], ...]:
        ratios = self.ratios
        return tuple((self.snapshot.brokers[at], float(ratios[at])) for at in np.flatnonzero(self.usable).tolist())

    def _set(self, topic: int, strategy: Strategy, members: tuple[int, ...], reason: str) -> None:
        assert topic not in self._changes, f"{self.snapshot.topics[topic]!r} is changed twice in one plan"
        before = set(self.members_of(topic))
        self.received[sorted(set(members) - before)] = True
        touched = before ^ set(members) if strategy is self.snapshot.strategy_of(topic) else before | set(members)
        self.forwarding[sorted(touched)] += max(1, len(touched) - 1) * self._carried[topic]
        self._changes[topic] = _Change(strategy, members, reason)
