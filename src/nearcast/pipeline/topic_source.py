"""Messages of a topic, each one JSON object or one per line. Of a persistent topic each is read once."""

import asyncio
from contextlib import suppress
from functools import partial

import msgspec

from nearcast.client import Client
from nearcast.client.log_subscription import FIRST
from nearcast.client.subscription import Subscription
from nearcast.domain.errors import ConfigError, TopicChanged
from nearcast.domain.log import Position
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.pipeline.records import judged_texts
from nearcast.pipeline.sources import Batch

_GATHER_S = 0.1  # a batch costs about as much for one message as for hundreds
_MOST = 50_000  # messages of one batch, and as many that wait for the next
_MOST_BYTES = 16 << 20  # likewise


class TopicSource:
    """`client` is this source's own, and closed with it."""

    def __init__(self, client: Client, topic: str, gather_s: float = _GATHER_S, most: int = _MOST) -> None:
        self._client = client
        self._topic = topic
        self._gather_s = gather_s
        self._most = most
        self._pump: asyncio.Task[None] | None = None
        self._read_to: str | None = None  # what was handed out last
        self._waiting: list[Message | Gap | Discontinuity] = []
        self._bytes = 0  # of those
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def next(self, offset: str | None) -> Batch:
        if self._pump is None or offset != self._read_to:
            await self._begin(offset)
        assert self._pump is not None
        news = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait({news, self._pump}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        if self._pump.done() and not self._waiting:
            pump, self._pump = self._pump, None
            with suppress(TopicChanged):  # it is persistent from now on: begin with its first message
                pump.result()
            return await self.next(offset)
        await asyncio.sleep(self._gather_s)
        taken = self._taken()
        if not self._waiting:
            self._news.clear()
        self._room.set()
        positions = [each.position for each in taken if isinstance(each, Message) and each.position is not None]
        self._read_to = str(positions[-1]) if positions else offset
        texts, faults = zip(*(each for what in taken for each in _texts(what)), strict=True)
        judged = partial(judged_texts, [*texts], [*faults], f"topic:{self._topic}")
        return Batch(judged, self._read_to, len(texts), texts if not any(faults) else None)

    def _taken(self) -> list[Message | Gap | Discontinuity]:
        """The first of those that wait: at least one, and not too many at once."""
        count, size = 0, 0
        while count < min(len(self._waiting), self._most) and size < _MOST_BYTES:
            size += _size(self._waiting[count])
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        self._bytes -= size
        return taken

    async def close(self) -> None:
        await self._stop()
        await self._client.close()

    async def _begin(self, offset: str | None) -> None:
        await self._stop()
        self._waiting, self._bytes = [], 0
        self._news.clear()
        self._read_to = offset
        since = FIRST if offset is None else Position.parse(offset)
        try:
            subscription = await self._client.subscribe(self._topic, on_report=self._note, since=since)
        except ConfigError:
            if offset is not None:
                raise
            subscription = await self._client.subscribe(self._topic, on_report=self._note)
        self._pump = asyncio.create_task(self._take(subscription), name=f"feed from {self._topic}")

    async def _stop(self) -> None:
        pump, self._pump = self._pump, None
        if pump is not None:
            pump.cancel()
            await asyncio.wait({pump})

    async def _take(self, subscription: Subscription) -> None:
        try:
            async for message in subscription:
                self._note(message)
                while len(self._waiting) >= 2 * self._most or self._bytes >= 2 * _MOST_BYTES:
                    self._room.clear()
                    await self._room.wait()
        finally:
            subscription.close()

    def _note(self, what: Message | Gap | Discontinuity) -> None:
        self._waiting.append(what)
        self._bytes += _size(what)
        self._news.set()


def _size(what: Message | Gap | Discontinuity) -> int:
    return len(what.payload) if isinstance(what, Message) else 0


def _texts(what: Message | Gap | Discontinuity) -> list[tuple[str, str | None]]:
    """And why each is no record. What is missing from the topic is a row of the side table too."""
    if not isinstance(what, Message):
        return [("", f"missing from the topic: {what}")]
    try:
        text = what.payload.decode()
    except UnicodeDecodeError as error:
        return [(what.payload.decode(errors="replace"), f"is not UTF-8: byte {error.start}")]
    return [(line, None) for line in record_lines(text)]


def record_lines(text: str) -> list[str]:
    """One for each record: the lines, if the first is JSON by itself; else all of it, which may be one record."""
    first, newline, _ = text.partition("\n")
    if not newline:
        return [text]
    try:
        msgspec.json.decode(first)
    except msgspec.DecodeError:
        return [text]
    return [line for line in text.splitlines() if line.strip()]
