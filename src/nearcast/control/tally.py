"""What one process sends to and receives from each broker, counted by topic, and told once in a while.

Who sends or receives holds a `Count` and adds to it, twice per message. All else happens when it is told.
"""

from __future__ import annotations

from nearcast.wire.envelope import HEADER_BYTES
from nearcast.wire.loads import MOST_COUNTED, MOST_SECONDS, Counts, TopicCount

_Key = tuple[tuple[str, ...], str]


class Count:
    """Messages of one topic in one direction, since they were last told. `left`: no more will come."""

    __slots__ = ("left", "messages", "size_bytes")

    def __init__(self) -> None:
        self.messages = 0
        self.size_bytes = 0
        self.left = False


class Tally:
    __slots__ = ("_client", "_received", "_sent", "_since_s")

    def __init__(self, client: str) -> None:
        self._client = client
        self._sent: dict[_Key, Count] = {}
        self._received: dict[_Key, Count] = {}
        self._since_s: float | None = None

    def sent(self, brokers: tuple[str, ...], topic: str) -> Count:
        """Of messages that go to each of these brokers, by their payloads."""
        return self._held(self._sent, (brokers, topic))

    def received(self, broker: str, topic: str) -> Count:
        """Of frames that come from this broker, by all their bytes."""
        return self._held(self._received, ((broker,), topic))

    def begin(self, now: float) -> None:
        """What is asked for from here on is told; before, it is counted for nobody."""
        self._since_s = now

    def tell(self, now: float, *, least_s: float = 0.0) -> list[tuple[str, Counts]]:
        """What is to be said to the agent of which broker. With `least_s`, as if it had taken as long at least."""
        if self._since_s is None:
            return []
        seconds = min(max(least_s, now - self._since_s), MOST_SECONDS)
        if seconds <= 0.0:
            return []
        self._since_s = now
        found: dict[str, dict[str, list[int]]] = {}
        for counts, at, header_bytes in ((self._sent, 0, HEADER_BYTES), (self._received, 2, 0)):
            for key, count in list(counts.items()):
                brokers, topic = key
                if count.messages:
                    for broker in brokers:
                        row = found.setdefault(broker, {}).setdefault(topic, [0, 0, 0, 0])
                        row[at] += count.messages
                        row[at + 1] += count.size_bytes + header_bytes * count.messages
                    count.messages = count.size_bytes = 0
                if count.left:
                    del counts[key]
        out: list[tuple[str, Counts]] = []
        for broker, rows in found.items():
            topics = tuple(TopicCount(topic, *row) for topic, row in rows.items())
            parts = (topics[first : first + MOST_COUNTED] for first in range(0, len(topics), MOST_COUNTED))
            out += [(broker, Counts(self._client, seconds, part)) for part in parts]
        return out

    def _held(self, counts: dict[_Key, Count], key: _Key) -> Count:
        if self._since_s is None:
            return Count()
        count = counts.get(key)
        if count is None:
            counts[key] = count = Count()
        count.left = False
        return count
