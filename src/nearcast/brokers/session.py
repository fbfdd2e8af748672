"""One connection to one real server, from the moment it is let in until it ends: what every kind has in common."""

import asyncio
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from nearcast.brokers.link import Receive
from nearcast.domain.errors import LinkDown, LinkError, MessageTooLarge

# What is published within one turn of the event loop is written together, but no more than this at a time.
BATCH_BYTES = 64 * 1024
# A server that takes less than it is given: what it has not taken is kept up to here, then the connection is ended.
MOST_UNSENT_BYTES = 64 * 1024 * 1024
_MOST_HEADS = 16_384

# What names one topic and nothing else. Anything else could be a wildcard, or a command of its own on the wire.
_LITERAL = re.compile(r"[^\s.*>]+(\.[^\s.*>]+)*")


class Streams:
    """A connection that a library opened. A session keeps it: streams close their transport when they are collected."""

    def __init__(
        self, reader: asyncio.StreamReader | None, writer: asyncio.StreamWriter | None, kept: object = None
    ) -> None:
        assert reader is not None
        assert writer is not None
        self.reader = reader
        self.writer = writer
        self.kept = kept  # whatever else would close it

    def abort(self) -> None:
        self.writer.transport.abort()


class Subscribed:
    """A topic of a link. It outlives its sessions: each new one subscribes to it under the same `sid`."""

    __slots__ = ("confirmed", "receive", "sid", "subject", "topic")

    def __init__(self, sid: int, topic: str, receive: Receive) -> None:
        self.sid = b"%d" % sid
        self.topic = topic
        self.subject = subject_of(topic)
        self.receive = receive
        self.confirmed = False


def subject_of(topic: str) -> bytes:
    if not _LITERAL.fullmatch(topic):
        raise ValueError(f"{topic!r} cannot be a topic: it has a space, a wildcard or an empty part")
    return topic.encode()


class Session(asyncio.Protocol, ABC):
    """Bytes go straight from the transport to `receive`, and from `publish` to the transport: no queue, no task.

    A reader that is slow is slow here too: the server notices, and ends the connection. Once the connection is over,
    `on_lost` is called with the reason, once, on the event loop and never within a call into this object.
    """

    ping_command: bytes
    max_payload_bytes: int

    def __init__(self, peer: str) -> None:
        self.peer = peer  # for messages: which broker, and where
        self.heard = False  # something has come since this was last set to False
        self.on_lost: Callable[[str], None] = ignore
        self.over: str | None = None  # the reason, once it is
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.WriteTransport | None = None
        self._streams: Streams | None = None
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._heads: dict[str, bytes] = {}

    async def take_over(self, streams: Streams) -> None:
        """From here on the connection is this session's, and `streams` must not be used any more."""
        self._streams = streams
        self._transport = streams.writer.transport
        self._transport.set_protocol(self)
        streams.reader.feed_eof()
        if early := await streams.reader.read():
            self.data_received(early)

    # What goes out

    def publish(self, topic: str, data: bytes) -> None:
        head = self._heads.get(topic)
        if head is None:
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            head = self._heads[topic] = self._head(subject_of(topic))
        size = len(data)
        if size > self.max_payload_bytes:
            raise MessageTooLarge(f"topic {topic!r}: {size} bytes; this server takes {self.max_payload_bytes} at most")
        self.write(b"%b%d\r\n%b\r\n" % (head, size, data))

    def write(self, command: bytes) -> None:
        self._batch.append(command)
        self._batch_bytes += len(command)
        if self._batch_bytes >= BATCH_BYTES:
            self._write_batch()
        elif len(self._batch) == 1:
            self._loop.call_soon(self._write_batch)

    def ping(self) -> "asyncio.Future[None]":
        """Done once the server has handled all that was written before and all that it sent before has been read."""
        answered: asyncio.Future[None] = self._loop.create_future()
        self._pongs.append(answered)
        self.write(self.ping_command)
        return answered

    def knock(self) -> None:
        """A ping that nobody waits for: a server that is there will be `heard`."""
        self._pongs.append(None)
        self.write(self.ping_command)

    @property
    def unsent_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    # Subscriptions

    @abstractmethod
    def subscribe(self, subscribed: Subscribed) -> None:
        """Ask the server; a `ping()` after it is answered once the subscription is active."""

    @abstractmethod
    def unsubscribe(self, subscribed: Subscribed) -> None:
        """Ask the server; what comes before the answer to a `ping()` after it is still received."""

    @abstractmethod
    def forget(self, subscribed: Subscribed) -> None:
        """Receive nothing more of it, whatever comes."""

    @abstractmethod
    def mute(self) -> None:
        """Receive nothing more at all."""

    # The end

    def cut(self, reason: str) -> None:
        """End the connection. What is unsent is lost."""
        if self.over is None:
            self.over = reason
            if self._transport is not None:
                self._transport.abort()

    async def gone(self) -> None:
        """Return once the connection has ended."""
        await asyncio.shield(self._gone)

    def fail_pings(self, error: LinkError) -> None:
        """Whoever waits for an answer gets this instead. Answers that still come find their place taken."""
        for position, answered in enumerate(self._pongs):
            if answered is not None and not answered.done():
                answered.set_exception(error)
            self._pongs[position] = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.over is None:
            self.over = "the server closed the connection" if exc is None else str(exc) or type(exc).__name__
        self.fail_pings(LinkDown(f"{self.peer}: the connection broke: {self.over}"))
        self._gone.set_result(None)
        self.on_lost(self.over)

    # For the kinds

    @abstractmethod
    def _head(self, subject: bytes) -> bytes:
        """What stands before the size of a message that is published."""

    def _answered(self) -> None:
        if self._pongs:
            answered = self._pongs.popleft()
            if answered is not None and not answered.done():
                answered.set_result(None)

    def _failed(self, subscribed: Subscribed, error: Exception) -> None:
        """A `receive` raised: that is a bug, told as one; the connection and the messages after it go on."""
        message = f"receiving a message of topic {subscribed.topic!r} failed"
        self._loop.call_exception_handler({"message": message, "exception": error})

    def _write_batch(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch or self.over is not None or self._transport is None:
            return
        self._transport.write(batch[0] if len(batch) == 1 else b"".join(batch))
        if self._transport.get_write_buffer_size() > MOST_UNSENT_BYTES:
            self.cut(f"the server does not keep up: more than {MOST_UNSENT_BYTES} bytes could not be sent")


def ignore(_reason: str) -> None:
    pass
