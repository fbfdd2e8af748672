"""The server side of the in-memory broker: what real servers do that a protocol can trip over.

Every connection has a thread of its own, which handles the frames of that connection in order; the threads run side by
side. A publication is first matched, against the subscriptions of that instant, and then delivered to one of them
after the other, which takes time. So a later publication of another connection can overtake it at those who are served
last, and a subscriber that leaves in between gets nothing. What a consumer is too slow to take is buffered up to a
limit, and then the consumer is disconnected.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from nearcast.brokers.memory_pipe import Pipe, Wire
from nearcast.domain.errors import LinkDown

PONG = 0  # In the place of a subscription's number: the answer to a PING.
FRAME_BYTES = 16  # What a frame takes on the wire besides its topic and data.

Delivery = tuple[int, bytes]  # The number of the subscription at its connection, and the data.


class Op(Enum):
    """What a client asks of the server."""

    PUB = "pub"
    SUB = "sub"
    UNSUB = "unsub"
    PING = "ping"
    BYE = "bye"


class Frame(NamedTuple):
    """One request of a client."""

    op: Op
    topic: str = ""
    data: bytes = b""
    sid: int = 0


@dataclass(frozen=True, slots=True)
class ServerCosts:
    """What a server needs for its work.

    Each publication is served at a speed of its own: its deliveries take up to `1 + spread` times `delivery_s`, as
    threads of a busy machine do.
    """

    message_s: float = 0.0
    delivery_s: float = 0.0
    spread: float = 0.0
    buffer_bytes: float = math.inf  # What may wait for one consumer.

    @property
    def free(self) -> bool:
        return self.message_s == 0 and self.delivery_s == 0


@dataclass(frozen=True, slots=True)
class ClientEnd:
    """The client's end of a connection: what the server's end calls. `lost` is given the reason of a break."""

    deliver: Callable[[Delivery], None]
    lost: Callable[[str], None]


class Subscribed:
    """One subscription of one connection."""

    __slots__ = ("active", "connection", "sid", "topic")

    def __init__(self, connection: "Connection", topic: str, sid: int) -> None:
        self.connection = connection
        self.topic = topic
        self.sid = sid
        self.active = True


class MemoryBroker:
    """A pub/sub server without a network: exact topics, no memory of what it has delivered."""

    def __init__(self, name: str, rng: random.Random, costs: ServerCosts | None = None) -> None:
        self.name = name
        self.costs = costs or ServerCosts()
        self.rng = rng
        self.running = True
        self.paused = False
        self.connections: dict[int, Connection] = {}
        self.stalled: list[Connection] = []  # Threads whose next step came due during a pause.
        self.slow_consumers = 0
        self.accepted = 0
        self._topics: dict[str, dict[Subscribed, None]] = {}
        self._matches: dict[str, tuple[Subscribed, ...]] = {}

    def accept(self, peer: str, wire: Wire, rng: random.Random, client: ClientEnd) -> "Connection":
        """A new connection of `peer`. Raises LinkDown when there is no server to answer."""
        if not self.running:
            raise LinkDown(f"broker {self.name!r} is not running: {peer} cannot connect now")
        self.accepted += 1
        connection = self.connections[self.accepted] = Connection(self, peer, wire, rng, client)
        return connection

    def match(self, topic: str) -> tuple[Subscribed, ...]:
        """Those who are subscribed at this instant."""
        matched = self._matches.get(topic)
        if matched is None:
            matched = self._matches[topic] = tuple(self._topics.get(topic, ()))
        return matched

    def add(self, subscribed: Subscribed) -> None:
        self._topics.setdefault(subscribed.topic, {})[subscribed] = None
        self._matches.pop(subscribed.topic, None)

    def remove(self, subscribed: Subscribed) -> None:
        subscribed.active = False
        others = self._topics.get(subscribed.topic, {})
        others.pop(subscribed, None)
        if not others:
            self._topics.pop(subscribed.topic, None)
        self._matches.pop(subscribed.topic, None)

    def subscribers(self, topic: str) -> int:
        return len(self.match(topic))

    def crash(self) -> None:
        """Lose every connection and every subscription, and all that was buffered or half delivered."""
        self.running = False
        self.stalled.clear()
        for connection in list(self.connections.values()):
            connection.sever(f"broker {self.name!r} crashed")

    def restart(self) -> None:
        self.running = True
        self.paused = False

    def pause(self) -> None:
        """Stop handling anything, as a stopped process does. Connections stay, and what was sent goes on its way."""
        self.paused = True
        for connection in self.connections.values():
            connection.up.stop_reading()

    def resume(self) -> None:
        self.paused = False
        stalled, self.stalled = self.stalled, []
        for connection in stalled:
            connection.go_on()
        for connection in list(self.connections.values()):
            connection.up.read_on()


class Connection:
    """The server's end of one connection, with its thread, its subscriptions and its output buffer."""

    def __init__(self, broker: MemoryBroker, peer: str, wire: Wire, rng: random.Random, client: ClientEnd) -> None:
        self.broker = broker
        self.number = broker.accepted
        self.peer = peer
        self.up: Pipe[Frame] = Pipe(wire, rng, self._arrive)
        self.down: Pipe[Delivery] = Pipe(wire, rng, client.deliver, broker.costs.buffer_bytes)
        if broker.paused:
            self.up.stop_reading()
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._subscribed: dict[int, Subscribed] = {}
        self._inbox: deque[Frame] = deque()
        self._thread: Iterator[float] | None = None

    def sever(self, reason: str) -> None:
        """The connection breaks: both directions lose what is under way, and the client is told."""
        if self.broker.connections.get(self.number) is self:
            self.abandon()
            self._client.lost(reason)

    def abandon(self) -> None:
        """The connection ends for the server; the client is not told, because it left, or because it is dead."""
        self.up.sever()
        self.down.sever()
        self._inbox.clear()  # But a publication that is being delivered still is: the server had read it.
        for subscribed in self._subscribed.values():
            self.broker.remove(subscribed)
        self._subscribed.clear()
        self.broker.connections.pop(self.number, None)

    def set_wire(self, wire: Wire) -> None:
        self.up.set_wire(wire)
        self.down.set_wire(wire)

    def put(self, delivery: Delivery, size_bytes: int) -> None:
        """Into the output buffer; when that is full the client is a slow consumer, and is disconnected."""
        if not self.down.send(delivery, size_bytes):
            self.broker.slow_consumers += 1
            self.sever(f"slow consumer: broker {self.broker.name!r} could buffer no more for {self.peer}")

    def go_on(self) -> None:
        """The thread's next step. After a crash of the server there is nobody left for it to deliver to."""
        if self.broker.paused:
            self.broker.stalled.append(self)
            return
        assert self._thread is not None
        cpu_s = next(self._thread, None)
        if cpu_s is None:
            self._thread = None
        else:
            self._loop.call_later(cpu_s, self.go_on)

    def _arrive(self, frame: Frame) -> None:
        if self._thread is not None:
            self._inbox.append(frame)
        elif self.broker.costs.free:
            if frame.op is Op.PUB:
                size_bytes = len(frame.topic) + len(frame.data) + FRAME_BYTES
                for subscribed in self.broker.match(frame.topic):
                    if subscribed.active:
                        subscribed.connection.put((subscribed.sid, frame.data), size_bytes)
            else:
                self._obey(frame)
        else:
            self._inbox.append(frame)
            self._thread = self._work()
            self.go_on()

    def _work(self) -> Iterator[float]:
        """The thread of this connection; it yields the seconds of work before its next step."""
        costs = self.broker.costs
        while self._inbox:
            frame = self._inbox.popleft()
            if costs.message_s:
                yield costs.message_s
            if frame.op is not Op.PUB:
                self._obey(frame)
                continue
            size_bytes = len(frame.topic) + len(frame.data) + FRAME_BYTES
            delivery_s = costs.delivery_s * (1.0 + costs.spread * self.broker.rng.random())
            for subscribed in self.broker.match(frame.topic):
                if delivery_s:
                    yield delivery_s
                if subscribed.active:
                    subscribed.connection.put((subscribed.sid, frame.data), size_bytes)

    def _obey(self, frame: Frame) -> None:
        if frame.op is Op.SUB:
            self._subscribed[frame.sid] = subscribed = Subscribed(self, frame.topic, frame.sid)
            self.broker.add(subscribed)
        elif frame.op is Op.UNSUB:
            left = self._subscribed.pop(frame.sid, None)
            if left is not None:
                self.broker.remove(left)
        elif frame.op is Op.PING:
            self.put((PONG, b""), FRAME_BYTES)
        elif frame.op is Op.BYE:
            self.abandon()
