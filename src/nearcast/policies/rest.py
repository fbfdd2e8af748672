"""Where a snapshot's load is once every move that was already ordered is over: what a policy starts from.

Measured load lags behind routes: right after a move the old broker still serves those who have not left. A policy that
took this at face value would move the same load again. So a topic that is seen where its route does not have it, or not
everywhere where its route has it, counts as spread evenly over its route. Any other counts as measured; a broker that
does not report is left out of this.

What a broker sends beyond the topics it reports (protocol, forwarding, clients that nobody counts) stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nearcast.domain.route import Strategy
from nearcast.domain.snapshot import RESOURCES, STRATEGIES, Bools, Floats, Ints, Snapshot

_CORES = RESOURCES.index("cores")
_BUSY = 0.95  # of its processors: who can do no more is measured a little below

_ALL_SUBSCRIBERS = STRATEGIES.index(Strategy.ALL_SUBSCRIBERS)
_ALL_PUBLISHERS = STRATEGIES.index(Strategy.ALL_PUBLISHERS)


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Per topic: its load over all brokers. Per row of `Snapshot.members`: its topic, its outgoing bytes there, its
    outgoing messages, and its messages in and out.

    Per broker: `load`, outgoing bytes per second with everything at rest.
    """

    publications: Floats
    subscribers: Floats
    bytes_in: Floats
    bytes_out: Floats
    row_topic: Ints
    row_bytes: Floats
    row_deliveries: Floats
    row_messages: Floats
    load: Floats


def at_rest(snapshot: Snapshot) -> Rest:
    entries, count, brokers = snapshot.entries, len(snapshot.topics), len(snapshot.brokers)
    sizes = np.diff(snapshot.first)
    row_topic = np.repeat(np.arange(count), sizes)
    row_of, routed = _matched(row_topic * brokers + snapshot.members, entries.topic * brokers + entries.broker)
    strategy = snapshot.strategy[entries.topic]

    # A message of an all_publishers route comes to every broker of it, a subscriber of an all_subscribers route is at
    # every broker of it: those are counted once.
    repeated_in = routed & (strategy == _ALL_PUBLISHERS)
    repeated_at = routed & (strategy == _ALL_SUBSCRIBERS)
    publications = _counted(entries.topic, entries.publications, repeated_in, count)
    subscribers = _counted(entries.topic, entries.subscribers.astype(np.float64), repeated_at, count)
    bytes_in = _counted(entries.topic, entries.bytes_in, repeated_in, count)
    asked, asked_messages = _asked(snapshot)
    bytes_out: Floats = np.bincount(entries.topic, weights=asked, minlength=count).astype(np.float64)

    seen = np.bincount(row_topic[row_of[routed]], minlength=count)
    astray = np.bincount(entries.topic[~routed], weights=asked[~routed], minlength=count)
    reporting = np.bincount(row_topic[~snapshot.silent[snapshot.members]], minlength=count)
    settled = ((seen == reporting) & (astray == 0))[row_topic]

    def rows(values: Floats) -> Floats:
        measured = np.zeros(len(row_topic))
        measured[row_of[routed]] = values[routed]
        total = np.bincount(entries.topic, weights=values, minlength=count)
        return np.where(settled, measured, (total / np.maximum(sizes, 1))[row_topic])

    row_bytes = rows(asked)

    reported = np.bincount(entries.broker, weights=entries.bytes_out, minlength=brokers)
    load = np.maximum(snapshot.out - reported, 0.0)
    load += np.bincount(snapshot.members, weights=row_bytes, minlength=brokers)
    row_deliveries, row_messages = rows(asked_messages), rows(asked_messages + entries.publications)
    return Rest(
        publications, subscribers, bytes_in, bytes_out, row_topic, row_bytes, row_deliveries, row_messages, load
    )


def _asked(snapshot: Snapshot) -> tuple[Floats, Floats]:
    """Outgoing bytes and messages per entry: as measured, but for brokers that can send no more as much as was
    published times heard."""
    entries = snapshot.entries
    used, most = snapshot.used[:, _CORES], snapshot.most[:, _CORES]
    full = ((snapshot.out >= snapshot.capacity) | (used >= _BUSY * most))[entries.broker]
    size = np.where(full, np.maximum(entries.bytes_out, entries.bytes_in * entries.subscribers), entries.bytes_out)
    copies = entries.publications * entries.subscribers
    return size, np.where(full, np.maximum(entries.deliveries, copies), entries.deliveries)


def _matched(rows: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """For each wanted key its index in `rows` (any index where there is none), and whether there is one."""
    if not len(rows):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    order = np.argsort(rows, kind="stable")
    at = order[np.minimum(np.searchsorted(rows, wanted, sorter=order), len(rows) - 1)]
    return at, rows[at] == wanted


def _counted(topic: Ints, values: Floats, repeated: Bools, count: int) -> Floats:
    """Per topic: the sum of its values, of which those that are repeated count once (the largest)."""
    total = np.bincount(topic[~repeated], weights=values[~repeated], minlength=count).astype(np.float64)
    once = np.zeros(count)
    np.maximum.at(once, topic[repeated], values[repeated])
    return total + once
