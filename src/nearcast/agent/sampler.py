"""Listens for a moment to topics whose messages nobody counts: a few at a time, in turn, and never to a busy one.

A Python process that hears everything cuts a server's throughput to a fifth, so there is a bound on what is heard: so
many topics at a time, and of each no more messages and bytes than a second may bring. One that brings more is left at
once, and taken to bring at least that much. An estimate holds until the topic's turn has come again, however many there
are; those that are too busy have it seldom.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from nearcast.agent.analyzer import Sample
from nearcast.brokers.link import Connect, Link
from nearcast.domain.errors import ConfigError, LinkError
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew

WINDOW_S = 1.0
_HELD_S = 10.0  # at least, and of one that is too busy:
_HELD_BUSY_S = 30.0
_MOST_HELD_S = 300.0
_AGAIN = 0.6  # of the time that an estimate holds: then the topic is listened to again
_MOST_BYTES = 1 << 20  # of one topic in one window


@dataclass(frozen=True, slots=True)
class Sampling:
    """At most `topics` at a time (none: nothing is sampled), and of each at most `messages` a second."""

    topics: int = 4
    messages: int = 250

    def __post_init__(self) -> None:
        if self.topics < 0 or self.messages < 1:
            raise ConfigError(
                f"sampling: topics is {self.topics}, messages is {self.messages}; at least 0 and at least 1"
            )


class Turns:
    """Who is listened to next: one after the other by name, and nobody whose estimate is still good."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last = ""
        self._again_s: dict[str, float] = {}
        self._round_s = 0.0  # how long it takes until everybody has had a turn

    def next(self, candidates: Sequence[str], now: float) -> list[str]:
        """`candidates` by name."""
        self._round_s = 2 * WINDOW_S * len(candidates) / max(self._most, 1)
        self._again_s = {topic: again_s for topic, again_s in self._again_s.items() if now < again_s}
        due = [topic for topic in candidates if topic not in self._again_s]
        after = [topic for topic in due if topic > self._last]
        chosen = [*after, *(topic for topic in due if topic <= self._last)][: self._most]
        if chosen:
            self._last = chosen[-1]
        return chosen

    def heard(self, topic: str, now: float, *, busy: bool) -> float:
        """Until when what was heard holds."""
        held_s = min(max(_HELD_BUSY_S if busy else _HELD_S, 2 * self._round_s), _MOST_HELD_S)
        self._again_s[topic] = now + _AGAIN * held_s
        return now + held_s


class Sampler:
    """Has a connection of its own: what it hears must not hold up what the agent forwards."""

    def __init__(self, broker: str, connect: Connect, clock: Clock, sampling: Sampling) -> None:
        self._broker = broker
        self._connect = connect
        self._clock = clock
        self._sampling = sampling
        self._turns = Turns(sampling.topics)
        self._link: Link | None = None

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def sample(self, candidates: Sequence[str], crew: Crew) -> list[Sample]:
        """Takes a window's time where there is something to listen to, and none where there is not."""
        chosen = self._turns.next(candidates, self._clock.now())
        if not chosen:
            return []
        try:
            if self._link is None:
                self._link = await self._connect(self._broker, lambda _up: None)
        except LinkError:
            return []
        ears = [_Ear(self._link, topic, self._sampling.messages, crew) for topic in chosen]
        try:
            heard = await asyncio.gather(*(ear.listen(self._clock) for ear in ears))
            if not all(heard):
                return []  # their turn comes again
            await self._clock.sleep(WINDOW_S)
            now = self._clock.now()
            return [ear.sample(now, self._turns.heard(ear.topic, now, busy=ear.full)) for ear in ears]
        finally:
            await asyncio.gather(*(ear.leave() for ear in ears))


class _Ear:
    def __init__(self, link: Link, topic: str, most: int, crew: Crew) -> None:
        self.topic = topic
        self.full = False
        self._link = link
        self._most = most
        self._crew = crew
        self._since_s = 0.0
        self._messages = 0
        self._size_bytes = 0

    async def listen(self, clock: Clock) -> bool:
        """Whether it does. What comes before the subscription is confirmed is of a time that nobody knows."""
        try:
            await self._link.subscribe(self.topic, self._receive)
        except LinkError:
            return False
        self._since_s = clock.now()
        if not self.full:
            self._messages = self._size_bytes = 0
        return True

    def _receive(self, data: bytes) -> None:
        if self.full:
            return
        self._messages += 1
        self._size_bytes += len(data)
        if self._messages >= self._most or self._size_bytes >= _MOST_BYTES:
            self.full = True
            self._crew.start(self.leave(), f"{self.topic} is too busy to be listened to")

    async def leave(self) -> None:
        with contextlib.suppress(LinkError):
            await self._link.unsubscribe(self.topic)

    def sample(self, now: float, until_s: float) -> Sample:
        """Of one that was left early, what came is what came in a whole window at least."""
        seconds = WINDOW_S if self.full else max(now - self._since_s, 1e-3)
        return Sample(self.topic, self._messages / seconds, self._size_bytes / seconds, until_s)
