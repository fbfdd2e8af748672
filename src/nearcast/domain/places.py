"""Where brokers are, and the clients of topics, in a space whose distances are times: what placement by promise sees.

What is known of a topic's clients is of the same size however many they are (ePulsar, section 3.2): the middle of those
that publish, the middle of those that subscribe, how far the farthest of each are from it, the worst case now, and
what it would be at a few brokers that all of them have measured.

Whoever makes a `Places` decides what a distance means, for brokers and topics alike: a round trip, or half of one. A
bound is compared with the way to the broker and the way from it together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.rows import entries_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Spots:
    """Points with a height above the space, a row each; NaN where nobody is."""

    vec: Floats
    height: Floats

    def __len__(self) -> int:
        return len(self.height)

    def __getitem__(self, rows: Ints | Bools | slice) -> Spots:
        return Spots(self.vec[rows], self.height[rows])

    def each_to(self, others: Spots, which: Ints) -> Floats:
        """The distance from each of these to the one other that `which` names for it."""
        apart = np.linalg.norm(self.vec - others.vec[which], axis=1)
        return np.asarray(apart + self.height + others.height[which])

    def to(self, others: Spots) -> Floats:
        """The distance from each of these (rows) to each of the others (columns)."""
        # In place: with many brokers the matrix is larger than a cache, and every copy of it takes as long as the sum.
        apart = (-2.0 * self.vec) @ others.vec.T
        apart += (self.vec**2).sum(axis=1)[:, None]
        apart += (others.vec**2).sum(axis=1)
        np.sqrt(np.maximum(apart, 0.0, out=apart), out=apart)
        apart += self.height[:, None]
        apart += others.height
        return np.asarray(apart)


@dataclass(frozen=True, slots=True, eq=False)
class Clients:
    """Every single client, sorted by topic: for a policy that sees them all, to compare with."""

    topic: Ints
    at: Spots
    publishes: Bools
    subscribes: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Worst cases of topics at brokers, sorted by topic: those of topic t are `first[t]` to `first[t + 1]`."""

    first: Ints
    broker: Ints
    worst_s: Floats

    def of(self, topics: Ints) -> tuple[Ints, Ints]:
        """(which of the topics, which entry), for all their entries."""
        return entries_of(self.first, topics)

    @staticmethod
    def among(topics: Sequence[Sequence[tuple[int, float]]]) -> Measured | None:
        """For each topic the brokers where it was measured; None where nothing was."""
        entries = [each for topic in topics for each in topic]
        if not entries:
            return None
        first = np.zeros(len(topics) + 1, dtype=np.int64)
        np.cumsum([len(topic) for topic in topics], out=first[1:])
        broker, worst_s = zip(*entries, strict=True)
        return Measured(first, np.array(broker, dtype=np.int64), np.array(worst_s, dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Rows are the snapshot's brokers and topics. `bound_s` is infinite for a topic without a promise.

    `deviation_s` is W(t) of the paper: how far the farthest are from the middle, along the space, and how much higher.
    (With the distance between two nodes, which counts both heights, clients at one place would be far from themselves.)
    `worst_s` is its E(t): the longest way to the broker and the longest from it, as the topic is placed now. `measured`
    is what that is, or would be, at brokers that every client has measured: it goes before what is predicted.
    """

    brokers: Spots
    publishers: Spots
    subscribers: Spots
    deviation_s: Floats
    worst_s: Floats
    bound_s: Floats
    clients: Clients | None = None
    measured: Measured | None = None

    def expected_s(self, topics: Ints, brokers: Ints) -> Floats:
        """The worst case of each topic at the one broker that `brokers` names for it: measured, or predicted. NaN where
        either is nowhere.
        """
        found = self.predicted_s(topics, brokers)
        if self.measured is not None:
            row, entry = self.measured.of(topics)
            there = (self.measured.broker[entry] == brokers[row]) & ~np.isnan(found[row])
            found[row[there]] = self.measured.worst_s[entry[there]]
        return found

    def expected_anywhere_s(self, topics: Ints) -> Floats:
        """The same of each topic (rows) at every broker (columns)."""
        found = self.publishers[topics].to(self.brokers)
        found += self.subscribers[topics].to(self.brokers)
        found += self.deviation_s[topics][:, None]
        if self.measured is not None:
            row, entry = self.measured.of(topics)
            there = ~np.isnan(found[row, self.measured.broker[entry]])
            row, entry = row[there], entry[there]
            found[row, self.measured.broker[entry]] = self.measured.worst_s[entry]
        return found

    def has_measured(self, topics: Ints) -> Bools:
        """Of which topics some broker was measured."""
        if self.measured is None:
            return np.zeros(len(topics), dtype=np.bool_)
        return np.asarray(self.measured.first[topics + 1] > self.measured.first[topics])

    def is_measured(self, topic: int, broker: int) -> bool:
        if self.measured is None:
            return False
        first, last = self.measured.first[topic : topic + 2]
        return broker in self.measured.broker[first:last]

    def predicted_s(self, topics: Ints, brokers: Ints) -> Floats:
        """W(t, b) of the paper: from the middle of a topic's publishers over one broker to the middle of its
        subscribers, and what these may be off by. NaN where it is not known.
        """
        before_s = self.publishers[topics].each_to(self.brokers, brokers)
        after_s = self.subscribers[topics].each_to(self.brokers, brokers)
        return np.asarray(before_s + after_s + self.deviation_s[topics])

    @property
    def promised(self) -> Bools:
        """Topics that have a promise, and clients on both sides to keep it to."""
        known = np.isfinite(self.publishers.height) & np.isfinite(self.subscribers.height)
        return np.asarray(np.isfinite(self.bound_s) & known)


def gathered(clients: Clients, brokers: Spots, broker_of: Ints, bound_s: Floats) -> Places:
    """What is known when every client is: of the topics 0 to n, which are on `broker_of`, for that many bounds."""
    count = len(broker_of)
    to_broker_s = clients.at.each_to(brokers, broker_of[clients.topic])
    sides = []
    for side in (clients.publishes, clients.subscribes):
        topic, at = clients.topic[side], clients.at[side]
        middle = _middles(topic, at, count)
        far_s = _most(
            topic, np.linalg.norm(at.vec - middle.vec[topic], axis=1) + at.height - middle.height[topic], count
        )
        sides.append((middle, far_s, _most(topic, to_broker_s[side], count)))
    (publishers, from_s, before_s), (subscribers, away_s, after_s) = sides
    return Places(brokers, publishers, subscribers, from_s + away_s, before_s + after_s, bound_s, clients)


def _middles(topic: Ints, at: Spots, count: int) -> Spots:
    number = np.bincount(topic, minlength=count).astype(np.float64)
    number[number == 0.0] = np.nan
    vec = np.stack([np.bincount(topic, column, count) for column in at.vec.T], axis=1) / number[:, None]
    return Spots(vec, np.bincount(topic, at.height, count) / number)


def _most(topic: Ints, values: Floats, count: int) -> Floats:
    found = np.zeros(count)
    np.maximum.at(found, topic, values)
    return found
