"""What one process sends to and receives from each broker, counted by topic, and told once in a while.

Who sends or receives holds a `Count` and adds to it, twice per message. All else happens when it is told. How long
messages took is looked at on some of those that are received.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from nearcast.control.fleet_time import FleetTime
from nearcast.domain.sketch import bucket_of, flat
from nearcast.wire.envelope import HEADER_BYTES
from nearcast.wire.loads import MOST_COUNTED, MOST_SECONDS, Counts, TopicCount, Trouble

SAMPLE_S = 0.005
"""At most one message of a topic in so long is looked at."""

_Key = tuple[tuple[str, ...], str]


class Count:
    """Messages of one topic in one direction, since they were last told. `left`: no more will come.

    From `sample_s` on, the next message that is received is to be given to `sample`.
    """

    __slots__ = ("_took", "left", "messages", "sample_s", "size_bytes")

    def __init__(self, *, sampled: bool = False) -> None:
        self.messages = 0
        self.size_bytes = 0
        self.left = False
        self.sample_s = -math.inf if sampled else math.inf
        self._took: dict[int, int] = {}

    def sample(self, sent_ns: int, now: float, time: FleetTime) -> None:
        """How long it took, if both ends know the fleet's time."""
        self.sample_s = now + SAMPLE_S
        if sent_ns & time.mark:
            bucket = bucket_of(now + time.ahead_s - sent_ns * 1e-9)
            self._took[bucket] = self._took.get(bucket, 0) + 1

    def taken(self) -> dict[int, int]:
        took, self._took = self._took, {}
        return took


class Hardship:
    """What subscriptions at one broker suffered, since it was last told."""

    __slots__ = ("discontinuities", "gaps", "missed", "pauses")

    def __init__(self) -> None:
        self.gaps = 0
        self.missed = 0
        self.discontinuities = 0
        self.pauses: dict[int, int] = {}

    def gap(self, missed: int) -> None:
        self.gaps += 1
        self.missed += missed

    def paused(self, seconds: float) -> None:
        bucket = bucket_of(seconds)
        self.pauses[bucket] = self.pauses.get(bucket, 0) + 1

    def told(self) -> Trouble:
        return Trouble(self.gaps, self.missed, self.discontinuities, flat(self.pauses))


class Tally:
    __slots__ = ("_client", "_hardships", "_received", "_sent", "_since_s", "time")

    def __init__(self, client: str, time: FleetTime | None = None) -> None:
        self.time = time or FleetTime()
        self._client = client
        self._sent: dict[_Key, Count] = {}
        self._received: dict[_Key, Count] = {}
        self._hardships: dict[str, Hardship] = {}
        self._since_s: float | None = None

    def sent(self, brokers: tuple[str, ...], topic: str) -> Count:
        """Of messages that go to each of these brokers, by their payloads."""
        return self._held(self._sent, (brokers, topic))

    def received(self, broker: str, topic: str) -> Count:
        """Of frames that come from this broker, by all their bytes."""
        return self._held(self._received, ((broker,), topic))

    def suffered(self, broker: str) -> Hardship:
        """Of subscriptions at this broker; to be asked for each time."""
        return self._hardships.setdefault(broker, Hardship()) if self._since_s is not None else Hardship()

    def begin(self, now: float) -> None:
        """What is asked for from here on is told; before, it is counted for nobody."""
        self._since_s = now

    def tell(
        self, now: float, *, least_s: float = 0.0, up: Callable[[str], bool] = lambda _broker: True
    ) -> list[tuple[str, Counts]]:
        """What is to be said to the agent of which broker. With `least_s`, as if it had taken as long at least.

        What subscriptions suffered at a broker that is not `up` is told elsewhere, or later.
        """
        if self._since_s is None:
            return []
        seconds = min(max(least_s, now - self._since_s), MOST_SECONDS)
        if seconds <= 0.0:
            return []
        self._since_s = now
        found: dict[str, dict[str, list[int]]] = {}
        took: dict[tuple[str, str], dict[int, int]] = {}
        for counts, at, header_bytes in ((self._sent, 0, HEADER_BYTES), (self._received, 2, 0)):
            for key, count in list(counts.items()):
                brokers, topic = key
                if count.messages:
                    for broker in brokers:
                        row = found.setdefault(broker, {}).setdefault(topic, [0, 0, 0, 0])
                        row[at] += count.messages
                        row[at + 1] += count.size_bytes + header_bytes * count.messages
                    count.messages = count.size_bytes = 0
                    if counts is self._received:
                        took[brokers[0], topic] = count.taken()
                if count.left:
                    del counts[key]
        out: list[tuple[str, Counts]] = []
        for broker, rows in found.items():
            topics = tuple(
                TopicCount(topic, row[0], row[1], row[2], row[3], flat(took.get((broker, topic), {})))
                for topic, row in rows.items()
            )
            parts = (topics[first : first + MOST_COUNTED] for first in range(0, len(topics), MOST_COUNTED))
            out += [(broker, Counts(self._client, seconds, part)) for part in parts]
        for broker in list(self._hardships):
            to = next((each for each in (broker, *found) if up(each)), None)
            if to is not None:
                out.append((to, Counts(self._client, seconds, (), self._hardships.pop(broker).told())))
        return out

    def _held(self, counts: dict[_Key, Count], key: _Key) -> Count:
        if self._since_s is None:
            return Count()
        count = counts.get(key)
        if count is None:
            counts[key] = count = Count(sampled=counts is self._received)
        count.left = False
        return count
