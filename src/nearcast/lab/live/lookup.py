"""Stock Pulsar's way to move a topic (ePulsar, Figure 2 without what it adds), to compare with. Not in the product.

    load manager --release--> old broker --ownership given up--> store, over the WAN and back
    old broker --close--> the topic's clients, without saying where to
    old broker --released--> load manager: it is the next topic's turn
    client --lookup--> load manager, which reads the store, picks a broker, and answers: redirect
    client --serve--> new broker --ownership acquired--> store, over the WAN and back
    new broker --serving--> client, which subscribes there

Where Pulsar leaves a choice, what is quickest is taken: connections are open already, ownership is acquired in one
exchange, no client backs off. Nothing waits but for an answer. The brokers are real servers; a process beside each does
what Pulsar's broker does:

    python -m nearcast.lab.live.lookup SPEC.json
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from nearcast.brokers.connect import connector
from nearcast.brokers.link import Link
from nearcast.store.nats_kv import NatsKvStore
from nearcast.store.store import ABSENT, Store
from nearcast.transport.config import BUS, Config, load_config
from nearcast.transport.crew import Crew
from nearcast.transport.process import run_until_stopped, say_ready

_MANAGER = "_lookup.manager"
_BROKER = "_lookup.broker"
_BUCKET = "lookup"


class Release(msgspec.Struct, frozen=True, tag=True):
    """load manager -> broker"""

    topic: str


class Released(msgspec.Struct, frozen=True, tag=True):
    """broker -> load manager"""

    topic: str


class Lookup(msgspec.Struct, frozen=True, tag=True):
    """client -> load manager"""

    topic: str
    client: str


class Redirect(msgspec.Struct, frozen=True, tag=True):
    """load manager -> client. `revision`: of the record of ownership that the broker is to replace."""

    topic: str
    broker: str
    revision: int


class Serve(msgspec.Struct, frozen=True, tag=True):
    """client -> broker"""

    topic: str
    client: str
    revision: int


class Serving(msgspec.Struct, frozen=True, tag=True):
    """broker -> client"""

    topic: str


class Close(msgspec.Struct, frozen=True, tag=True):
    """broker -> client: the topic is not served here any more."""

    topic: str


Message = Release | Released | Lookup | Redirect | Serve | Serving | Close
_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


async def lookup_store(config: Config, name: str, site: str = "") -> Store:
    """The record of who owns which topic, as a process at `site` reaches it. Never closed: it ends with its process."""
    store = NatsKvStore(config.endpoints(site)(BUS), name=name, bucket=_BUCKET)
    await store.open()
    return store


class _Post:
    """One process's connections, one per server, and its inbox on each."""

    def __init__(self, config: Config, name: str, site: str, inbox: str, receive: Callable[[Message], None]) -> None:
        self._connect = connector(config.endpoints(site), name=name)
        self._inbox = inbox
        self._receive = receive
        self._links: dict[str, asyncio.Task[Link]] = {}

    async def link(self, server: str) -> Link:
        if server not in self._links:
            self._links[server] = asyncio.create_task(self._open(server))
        return await self._links[server]

    async def send(self, server: str, subject: str, message: Message) -> None:
        (await self.link(server)).publish(subject, _encode(message))

    async def close(self) -> None:
        for each in self._links.values():
            await (await each).close()

    async def _open(self, server: str) -> Link:
        link = await self._connect(server, lambda _up: None)
        await link.subscribe(self._inbox, lambda data: self._receive(_decoder.decode(data)))
        return link


# The load manager


class LoadManager:
    """Beside the store. Topics that nobody owns go to `target`; they leave their broker one after the other."""

    def __init__(self, config: Config, target: str) -> None:
        self.target = target
        self._config = config
        self._post = _Post(config, "load-manager", "", _MANAGER, self._heard)
        self._crew = Crew()
        self._released: dict[str, asyncio.Future[None]] = {}

    async def start(self) -> None:
        self._store = await lookup_store(self._config, "load-manager")
        await self._post.link(BUS)

    async def close(self) -> None:
        await self._crew.close()
        await self._post.close()

    async def move_all(self, topics: Sequence[str], source: str, target: str) -> list[tuple[float, float]]:
        """(waited for its turn, took until it was released) of every topic, in seconds."""
        self.target = target
        begun_s, out = time.monotonic(), []
        for topic in topics:
            due_s = time.monotonic()
            self._released[topic] = released = asyncio.get_running_loop().create_future()
            await self._post.send(BUS, f"{_BROKER}.{source}", Release(topic))
            await released
            out.append((due_s - begun_s, time.monotonic() - due_s))
        return out

    def _heard(self, message: Message) -> None:
        if isinstance(message, Lookup):
            self._crew.start(self._look_up(message), f"lookup of {message.topic}")
        elif isinstance(message, Released):
            self._released.pop(message.topic).set_result(None)

    async def _look_up(self, asked: Lookup) -> None:
        entry = await self._store.get(_key(asked.topic))
        owner = (entry.value or b"").decode() if entry is not None else ""
        revision = entry.revision if entry is not None else ABSENT
        await self._post.send(BUS, _inbox(asked.client), Redirect(asked.topic, owner or self.target, revision))


# A broker


class BrokerSpec(msgspec.Struct, frozen=True):
    config: str
    broker: str


class LookupBroker:
    """What Pulsar's broker does, beside a server that carries the messages."""

    def __init__(self, config: Config, broker: str) -> None:
        self._config = config
        self._broker = broker
        self._site = config.brokers[broker].site
        name = f"lookup-{broker}"
        self._from_manager = _Post(config, name, self._site, f"{_BROKER}.{broker}", self._heard)
        self._from_clients = _Post(config, name, self._site, _BROKER, self._heard)
        self._crew = Crew()
        self._owned: dict[str, int] = {}  # the revision of our ownership
        self._acquiring: dict[str, list[str]] = {}  # who waits for it
        self._clients: dict[str, dict[str, None]] = {}

    async def start(self) -> None:
        self._store = await lookup_store(self._config, f"lookup-{self._broker}", self._site)
        await self._from_manager.link(BUS)
        await self._from_clients.link(self._broker)

    def _heard(self, message: Message) -> None:
        if isinstance(message, Serve):
            self._serve(message)
        elif isinstance(message, Release):
            self._crew.start(self._release(message.topic), f"release of {message.topic}")

    def _serve(self, asked: Serve) -> None:
        topic = asked.topic
        if topic in self._acquiring:
            self._acquiring[topic].append(asked.client)
        elif topic in self._owned:
            self._crew.start(self._tell_serving(topic, [asked.client]), f"{topic} is served")
        else:
            self._acquiring[topic] = [asked.client]
            self._crew.start(self._acquire(topic, asked.revision), f"acquisition of {topic}")

    async def _acquire(self, topic: str, revision: int) -> None:
        self._owned[topic] = await self._store.put(_key(topic), self._broker.encode(), revision)
        await self._tell_serving(topic, self._acquiring.pop(topic))

    async def _tell_serving(self, topic: str, clients: list[str]) -> None:
        for client in clients:
            self._clients.setdefault(topic, {})[client] = None
            await self._from_clients.send(self._broker, _inbox(client), Serving(topic))

    async def _release(self, topic: str) -> None:
        await self._store.put(_key(topic), b"", self._owned[topic])
        del self._owned[topic]
        for client in self._clients.pop(topic, {}):
            await self._from_clients.send(self._broker, _inbox(client), Close(topic))
        await self._from_manager.send(BUS, _MANAGER, Released(topic))


# A client


class LookupClient:
    """Finds who serves a topic. `closed(topic)` is called when that one does no more: then it has to be found again."""

    def __init__(self, config: Config, name: str, site: str, closed: Callable[[str], None]) -> None:
        self.name = name
        self._closed = closed
        self._post = _Post(config, name, site, _inbox(name), self._heard)
        self._redirected: dict[str, asyncio.Future[Redirect]] = {}
        self._serving: dict[str, asyncio.Future[None]] = {}

    async def start(self, brokers: Sequence[str]) -> None:
        """Connects, so that no later exchange has to wait for that."""
        for server in (BUS, *brokers):
            await self._post.link(server)

    async def find(self, topic: str) -> Link:
        """The link to the broker that serves the topic."""
        loop = asyncio.get_running_loop()
        self._redirected[topic] = redirected = loop.create_future()
        self._serving[topic] = serving = loop.create_future()
        await self._post.send(BUS, _MANAGER, Lookup(topic, self.name))
        found = await redirected
        await self._post.send(found.broker, _BROKER, Serve(topic, self.name, found.revision))
        await serving
        return await self._post.link(found.broker)

    async def close(self) -> None:
        await self._post.close()

    def _heard(self, message: Message) -> None:
        match message:
            case Redirect():
                self._redirected.pop(message.topic).set_result(message)
            case Serving():
                self._serving.pop(message.topic).set_result(None)
            case Close():
                self._closed(message.topic)
            case _:
                pass


def _key(topic: str) -> str:
    return f"owner/{topic}"


def _inbox(client: str) -> str:
    return f"_lookup.client.{client}"


async def _serve(spec: BrokerSpec, stopped: asyncio.Event) -> None:
    await LookupBroker(load_config(Path(spec.config)), spec.broker).start()
    say_ready()
    await stopped.wait()


def main() -> None:
    spec = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=BrokerSpec)
    run_until_stopped(lambda stopped: _serve(spec, stopped))


if __name__ == "__main__":
    main()
