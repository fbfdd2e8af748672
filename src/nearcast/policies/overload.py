"""Which brokers have too much, and which topics leave them (ePulsar, sections 3.4.2 and 3.4.3).

A broker is overloaded when it uses more of its bandwidth, its processors or its memory than the watermark, or sends
more messages a second than it may. Of bandwidth and of messages sent it is known what each topic takes with it. Of
processors and memory it is not: there a topic counts by its messages, in and out, as in the paper, so that a broker is
brought down to its rate times the watermark over what it uses. Both follow a move seconds late, so that a broker that
was relieved is not relieved of them again until that shows. A limit that nobody has set is never exceeded.
"""

from __future__ import annotations

import numpy as np

from nearcast.domain.snapshot import RESOURCES, Bools, Floats, Ints, Snapshot
from nearcast.policies.rest import Rest
from nearcast.policies.settings import Settings

_CORES, _MEMORY, _MESSAGES = (RESOURCES.index(name) for name in ("cores", "memory_bytes", "out_messages_per_s"))
_BANDWIDTH_AT, _USED_AT, _MESSAGES_AT = 0, slice(1, 3), 3  # columns; those in the middle are processors and memory


class Burden:
    """What every broker carries of each kind, and may carry; `load` follows the moves that it is told of.

    Columns are bandwidth, processors, memory, messages sent. Topics are on one broker each: of others, `share` is what
    is at the first.
    """

    def __init__(self, snapshot: Snapshot, rest: Rest, settings: Settings) -> None:
        self._snapshot = snapshot
        first = snapshot.first[:-1]
        self.broker: Ints = snapshot.members[first]
        hardware = np.column_stack((snapshot.capacity, snapshot.most[:, [_CORES, _MEMORY]]))
        limit = np.column_stack((settings.watermark * hardware, snapshot.most[:, _MESSAGES]))
        self.limit: Floats = np.where(np.isnan(limit), np.inf, limit)
        self._relief: Floats = self.limit.copy()  # what a broker is relieved down to
        self._relief[snapshot.relieved, _USED_AT] = np.inf
        cost = _per_message(snapshot)
        self.load: Floats = np.column_stack((rest.load, _used_at_rest(snapshot, rest, cost), _sent(snapshot, rest)))
        self.share: Floats = np.column_stack(
            (rest.row_bytes[first], cost[self.broker] * rest.row_messages[first, None], rest.row_deliveries[first])
        )
        self._binding = np.flatnonzero(np.isfinite(self.limit).any(axis=0)).tolist()
        self._order = np.argsort(self.broker, kind="stable")
        self._starts = np.searchsorted(self.broker[self._order], np.arange(len(snapshot.brokers) + 1))

    def overloaded(self) -> Bools:
        """Section 3.4.2."""
        return np.asarray(self._snapshot.usable & (self.load > self._relief).any(axis=1))

    def unrelieved(self) -> Bools:
        """Those that would be, had they not been relieved so lately."""
        return np.asarray(self._snapshot.usable & (self.load > self.limit).any(axis=1) & ~self.overloaded())

    @property
    def bandwidth_ratios(self) -> Floats:
        """0 for a silent broker."""
        capacity = self._snapshot.capacity
        return np.divide(self.load[:, 0], capacity, out=np.zeros(len(capacity)), where=~self._snapshot.silent)

    def fits(self, topic: int, broker: int) -> bool:
        """Whether the broker would not be overloaded with it."""
        share, load, limit = self.share[topic], self.load[broker], self.limit[broker]
        return all(load[kind] + share[kind] <= limit[kind] for kind in self._binding)

    def fitting(self, topic: int) -> Bools:
        """The same of every broker."""
        return np.asarray((self.load + self.share[topic] <= self.limit).all(axis=1))

    def may_fit(self) -> Bools:
        """Topics for which there is room of every kind somewhere, if not at one broker: the others need not try."""
        room = (self.limit - self.load)[self._snapshot.usable].max(axis=0, initial=0.0)
        return np.asarray((self.share <= room).all(axis=1))

    def moved(self, topic: int, receiver: int) -> None:
        self.load[self.broker[topic]] -= self.share[topic]
        self.load[receiver] += self.share[topic]

    def heaviest(self, broker: int, may_leave: Bools, gone: Ints) -> list[int]:
        """Section 3.4.3: the topics that leave a broker beside those that are `gone`, so that nothing is above a limit.

        The heaviest first, the first by name of equals: where one limit is exceeded no fewer would do. All that weigh
        anything, if even they are not enough.
        """
        mine = self._order[self._starts[broker] : self._starts[broker + 1]]
        mine = mine[may_leave[mine]]
        excess = self.load[broker] - self._relief[broker] - self.share[gone].sum(axis=0)
        taken: list[int] = []
        for kind in self._worst_first(broker):
            left = float(excess[kind] - self.share[taken, kind].sum())
            if left > 0:
                others = mine[(self.share[mine, kind] > 0) & ~np.isin(mine, taken)]
                others = others[np.lexsort((others, -self.share[others, kind]))]
                enough = int(np.searchsorted(np.cumsum(self.share[others, kind]), left)) + 1
                taken += others[:enough].tolist()
        return self._needed(taken, excess)

    def reason(self, broker: int) -> str:
        """Of the limit that is exceeded most."""
        name, kind = self._snapshot.brokers[broker], self._worst_first(broker)[0]
        load = float(self.load[broker, kind])
        if kind == _MESSAGES_AT:
            return f"{name} sends {load:,.0f} messages/s, and {self.limit[broker, kind]:,.0f} are its watermark"
        if kind == _BANDWIDTH_AT:
            return f"{name} is at {load / self._snapshot.capacity[broker]:.2f} of its capacity"
        what = "processors" if kind == 1 else "memory"
        return f"{name} uses {load / self._snapshot.most[broker, kind - 1]:.2f} of its {what}"

    def _worst_first(self, broker: int) -> list[int]:
        over = self.load[broker] / self._relief[broker]
        found: list[int] = np.lexsort((np.arange(len(over)), -over)).tolist()
        return [kind for kind in found if over[kind] > 1]

    def _needed(self, taken: list[int], excess: Floats) -> list[int]:
        """Without those that a limit which came later has made superfluous."""
        total = self.share[taken].sum(axis=0)
        for topic in reversed(taken) if np.count_nonzero(excess > 0) > 1 else ():
            less = total - self.share[topic]
            if (less >= excess)[excess > 0].all():
                taken = [each for each in taken if each != topic]
                total = less
        return taken


def _per_message(snapshot: Snapshot) -> Floats:
    """Processors and memory per message in or out, by broker; where that is not known, as in the whole fleet."""
    seen = _seen(snapshot)
    used = snapshot.used[:, [_CORES, _MEMORY]]
    known = ~np.isnan(used) & (seen > 0)[:, None]
    total = np.where(known, seen[:, None], 0.0).sum(axis=0)
    fleet = np.divide(np.where(known, used, 0.0).sum(axis=0), total, out=np.zeros(2), where=total > 0)
    found: Floats = np.divide(used, seen[:, None], out=np.tile(fleet, (len(used), 1)), where=known)
    return found


def _used_at_rest(snapshot: Snapshot, rest: Rest, cost: Floats) -> Floats:
    """Processors and memory once every move is over: more, or less, by the messages that are still elsewhere."""
    to_come = np.bincount(snapshot.members, rest.row_messages, len(snapshot.brokers)) - _seen(snapshot)
    return np.maximum(np.nan_to_num(snapshot.used[:, [_CORES, _MEMORY]]) + cost * to_come[:, None], 0.0)


def _sent(snapshot: Snapshot, rest: Rest) -> Floats:
    """Messages sent per second, likewise; those that are of no topic stay where they are."""
    entries, count = snapshot.entries, len(snapshot.brokers)
    others = np.nan_to_num(snapshot.used[:, _MESSAGES]) - np.bincount(entries.broker, entries.deliveries, count)
    return np.asarray(np.maximum(others, 0.0) + np.bincount(snapshot.members, rest.row_deliveries, count))


def _seen(snapshot: Snapshot) -> Floats:
    entries = snapshot.entries
    return np.bincount(entries.broker, entries.publications + entries.deliveries, len(snapshot.brokers)).astype(
        np.float64
    )
