"""A steady stream on each of some topics, one listener each: how long it could not receive, and how long it was silent.

    python -m nearcast.lab.live.steady SPEC.json

Prints one JSON line when every listener is subscribed. On SIGUSR1 a line of what listeners saw since the one before is
appended to the file that the spec names; on SIGUSR2 nothing more is published; on SIGTERM a last line is appended, the
account of all messages.
"""

import asyncio
import gc
import random
import signal
import struct
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from nearcast.brokers.link import Link
from nearcast.client import Client, Subscription, open_client
from nearcast.control.pause import Pause
from nearcast.domain.message import Message
from nearcast.lab.live.lookup import LookupClient
from nearcast.sim.check import check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from nearcast.transport.config import Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready

Workflow = Literal["ours", "lookup"]
_AT_ONCE = 16  # listeners that subscribe at a time
_TURN_S = 0.001  # who is due within it is not waited for
_SEQ = struct.Struct("<Q")


class SteadySpec(msgspec.Struct, frozen=True):
    """`name` is the publisher's. On each topic a message comes every `every_s`."""

    config: str
    seen: str
    workflow: Workflow
    name: str
    site: str
    topics: tuple[str, ...]
    every_s: float
    size: int = 100
    seed: int = 0


class Seen(msgspec.Struct, frozen=True):
    """Of each listener, in the order of the topics: its longest pause, and the longest time between two messages."""

    pauses_s: tuple[float, ...]
    silences_s: tuple[float, ...]


class Account(msgspec.Struct, frozen=True):
    """What became of all messages. `reported`: what listeners were told may be missing."""

    published: int = 0
    delivered: int = 0
    lost: int = 0
    repeated: int = 0
    reordered: int = 0
    reported: int = 0

    def __add__(self, other: "Account") -> "Account":
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Account(*(sum(pair) for pair in pairs))


class Silences:
    """The longest time between two messages of each topic, since it was last asked for."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self._last_s = dict.fromkeys(topics, time.monotonic())
        self._longest_s = dict.fromkeys(topics, 0.0)

    def heard(self, topic: str) -> None:
        now = time.monotonic()
        self._longest_s[topic] = max(self._longest_s[topic], now - self._last_s[topic])
        self._last_s[topic] = now

    def take_s(self) -> tuple[float, ...]:
        now, found_s = time.monotonic(), self._longest_s
        self._longest_s = dict.fromkeys(found_s, 0.0)
        return tuple(max(longest_s, now - self._last_s[topic]) for topic, longest_s in found_s.items())


class Listeners(Protocol):
    """One per topic, and the publisher of all."""

    async def start(self, config: Config) -> None: ...

    async def publish(self, topic: str, payload: bytes) -> None: ...

    def take_pauses_s(self) -> tuple[float, ...]: ...

    async def account(self) -> Account:
        """Ends all clients."""
        ...


class OurListeners:
    """The product's clients. What they get is written down and judged by the history checker."""

    def __init__(self, spec: SteadySpec, silences: Silences) -> None:
        self._spec = spec
        self._silences = silences
        self._history = History()
        self._recorder = Recorder(self._history, time.time)
        self._clients: list[Client] = []
        self._subscriptions: dict[str, Subscription] = {}

    async def start(self, config: Config) -> None:
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._listen(config, topic, gate) for topic in self._spec.topics))
        self._publisher = open_client(config, name=self._spec.name, site=self._spec.site)

    async def _listen(self, config: Config, topic: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            client = open_client(config, name=f"listener-{topic}", site=self._spec.site)
            self._clients.append(client)
            made = await self._recorder.subscribe(client, topic, also=self._heard)
            assert made is not None
            self._subscriptions[topic] = made[1]

    def _heard(self, _number: int, message: Message) -> None:
        self._silences.heard(message.topic)

    async def publish(self, topic: str, payload: bytes) -> None:
        await self._recorder.publish(self._publisher, topic, payload)

    def take_pauses_s(self) -> tuple[float, ...]:
        now = time.monotonic()
        return tuple(self._subscriptions[topic].pause.take_s(now) for topic in self._spec.topics)

    async def account(self) -> Account:
        self._history.finished(time.time())
        found = check(self._history, grace_s=0.0)
        await asyncio.gather(*(client.close() for client in (*self._clients, self._publisher)))
        return Account(
            found.published,
            found.delivered,
            len(found.lost) + len(found.covered),
            len(found.duplicated) + len(found.invented),
            len(found.reordered),
            found.gaps + found.discontinuities,
        )


class LookupListeners:
    """Clients of the workflow that is compared with. Ephemeral messages that come while nobody listens are lost."""

    def __init__(self, spec: SteadySpec, silences: Silences) -> None:
        self._spec = spec
        self._silences = silences
        self._crew = Crew()
        self._pauses = {topic: Pause() for topic in spec.topics}
        self._at: dict[str, Link] = {}
        self._clients: dict[str, LookupClient] = {}
        self._sends_to: dict[str, Link] = {}
        self._waiting: dict[str, list[bytes]] = {
            topic: [] for topic in spec.topics
        }  # until there is somebody to send to
        self._published = dict.fromkeys(spec.topics, 0)
        self._got: dict[str, list[int]] = {topic: [] for topic in spec.topics}

    async def start(self, config: Config) -> None:
        brokers = tuple(config.brokers)
        self._publisher = LookupClient(config, self._spec.name, self._spec.site, self._publisher_closed)
        await self._publisher.start(brokers)
        for topic in self._spec.topics:
            client = LookupClient(config, f"listener-{topic}", self._spec.site, self._listener_closed)
            self._clients[topic] = client
            await client.start(brokers)
        await asyncio.gather(*(self._listen(topic) for topic in self._spec.topics))
        await asyncio.gather(*(self._find_receiver(topic) for topic in self._spec.topics))

    # A listener

    async def _listen(self, topic: str) -> None:
        link = await self._clients[topic].find(topic)
        await link.subscribe(topic, lambda data: self._heard(topic, data))
        self._at[topic] = link
        self._pauses[topic].note(time.monotonic(), receiving=True)

    def _listener_closed(self, topic: str) -> None:
        self._pauses[topic].note(time.monotonic(), receiving=False)
        self._crew.start(self._at.pop(topic).unsubscribe(topic), f"leave {topic}")
        self._crew.start(self._listen(topic), f"find {topic} again")

    def _heard(self, topic: str, data: bytes) -> None:
        self._got[topic].append(_SEQ.unpack_from(data)[0])
        self._silences.heard(topic)

    def take_pauses_s(self) -> tuple[float, ...]:
        now = time.monotonic()
        return tuple(pause.take_s(now) for pause in self._pauses.values())

    # The publisher

    async def publish(self, topic: str, payload: bytes) -> None:
        data = _SEQ.pack(self._published[topic]) + payload
        self._published[topic] += 1
        link = self._sends_to.get(topic)
        if link is None:
            self._waiting[topic].append(data)
        else:
            link.publish(topic, data)

    def _publisher_closed(self, topic: str) -> None:
        del self._sends_to[topic]
        self._crew.start(self._find_receiver(topic), f"find {topic} again")

    async def _find_receiver(self, topic: str) -> None:
        link = await self._publisher.find(topic)
        waiting, self._waiting[topic] = self._waiting[topic], []
        for data in waiting:
            link.publish(topic, data)
        self._sends_to[topic] = link

    async def account(self) -> Account:
        await self._crew.close()
        await asyncio.gather(*(client.close() for client in (*self._clients.values(), self._publisher)))
        published, got = sum(self._published.values()), list(self._got.values())
        distinct = sum(len(set(each)) for each in got)
        delivered = sum(map(len, got))
        late = sum(sum(one > other for one, other in pairwise(each)) for each in got)
        return Account(published, delivered, published - distinct, delivered - distinct, late, 0)


class Steady:
    def __init__(self, spec: SteadySpec) -> None:
        self._spec = spec
        self._silences = Silences(spec.topics)
        kind = OurListeners if spec.workflow == "ours" else LookupListeners
        self._listeners: Listeners = kind(spec, self._silences)
        self._crew = Crew()
        self._quiet = asyncio.Event()

    async def run(self, stopped: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._tell_seen)
        loop.add_signal_handler(signal.SIGUSR2, self._quiet.set)
        await self._listeners.start(load_config(Path(self._spec.config)))
        gc.disable()  # what is written down stays: looking through it again and again would be heard as silence
        self._crew.start(self._publish_all(random.Random(self._spec.seed)), "the streams")
        say_ready()
        await stopped.wait()
        await self._crew.close()
        self._append(await self._listeners.account())

    async def _publish_all(self, rng: random.Random) -> None:
        """By a schedule: who is late makes up for it. Topics take turns, so that all are not due at once."""
        topics, payload = self._spec.topics, rng.randbytes(self._spec.size)
        due_s, step_s = time.monotonic(), self._spec.every_s / len(topics)
        while True:
            for topic in topics:
                due_s += step_s
                if (early_s := due_s - time.monotonic()) > _TURN_S:
                    await asyncio.sleep(early_s)
                if self._quiet.is_set():
                    return
                await self._listeners.publish(topic, payload)

    def _tell_seen(self) -> None:
        self._append(Seen(self._listeners.take_pauses_s(), self._silences.take_s()))

    def _append(self, line: Seen | Account) -> None:
        with Path(self._spec.seen).open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=SteadySpec)
    run_until_stopped(lambda stopped: Steady(spec).run(stopped))


if __name__ == "__main__":
    main()
