"""One subscription as the application holds it: an async iterator, a context manager, or a callback."""

import asyncio
import enum
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

from nearcast.control.pause import Pause
from nearcast.domain.errors import LinkClosed, NearcastError
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.wire.control import ToClient


class Overflow(enum.StrEnum):
    """What happens to a message that finds the buffer full. Whatever is dropped is reported as a `Gap`.

    Of a persistent topic nothing is dropped: reading waits until there is room.
    """

    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"
    FAIL = "fail"  # iterating raises SlowConsumer once the buffer is empty; the subscription ends


class SlowConsumer(NearcastError):
    """The application did not take its messages as fast as they came, and asked to be told so."""


OnMessage = Callable[[Message], None]
OnReport = Callable[[Gap | Discontinuity], None]


class Subscription(ABC):
    """Made by `Client.subscribe`. Iterate over it, or give a callback; leave it with `close()` or `async with`.

    Reports of what may be missing go to `on_report`, in order with the messages that a callback gets. `pause` is how
    long it could not receive since it was subscribed: a move makes none, a broken connection does.
    """

    def __init__(
        self,
        topic: str,
        *,
        on_message: OnMessage | None,
        on_report: OnReport | None,
        buffer: int,
        closed: Callable[[str], None],
    ) -> None:
        self.topic = topic
        self.dropped_count = 0
        self.pause = Pause()
        self._on_message = on_message
        self._on_report = on_report
        self._size = buffer
        self._closed = closed
        self._buffer: deque[Message] = deque()
        self._takers: list[asyncio.Future[None]] = []  # who waits for the next message
        self._over = False
        self._why: NearcastError | None = None  # what iterating raises once the buffer is empty

    def __aiter__(self) -> AsyncIterator[Message]:
        if self._on_message is not None:
            raise TypeError(f"the subscription to {self.topic!r} has a callback: its messages go there")
        return self

    async def __anext__(self) -> Message:
        while not self._buffer:
            if self._why is not None:
                raise self._why
            if self._over:
                raise StopAsyncIteration
            news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(news)
            await news
        return self._buffer.popleft()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the topic. Messages already taken in can still be iterated over."""
        if not self._over:
            self._over = True
            self._leave()
            self._wake()
            self._closed(self.topic)

    # For the client

    @property
    @abstractmethod
    def brokers(self) -> tuple[str, ...]:
        """Where it is now."""

    @abstractmethod
    async def start(self) -> None:
        """Returns when the promise holds."""

    @abstractmethod
    def answered(self, message: ToClient, broker: str) -> None: ...

    @abstractmethod
    def link_changed(self, broker: str, up: bool) -> None: ...

    # Within

    @abstractmethod
    def _leave(self) -> None:
        """Says goodbye; called once."""

    def _fail(self, why: NearcastError) -> None:
        """Over, and not by the application's wish."""
        self._why = why
        self.close()

    def _why_over(self) -> NearcastError:
        return self._why or LinkClosed(f"topic {self.topic!r}: closed before it was subscribed to")

    def _wake(self) -> None:
        takers, self._takers = self._takers, []
        for taker in takers:
            if not taker.done():
                taker.set_result(None)
