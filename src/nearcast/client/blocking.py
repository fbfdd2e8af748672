"""The client for scripts: the same, without `await`. An event loop runs in a thread of its own.

Every call crosses into that thread: for throughput, use the asynchronous client.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from nearcast.client.client import Client
from nearcast.client.log_subscription import Since
from nearcast.client.open import open_client
from nearcast.client.subscription import OnReport, Overflow, Subscription
from nearcast.domain.errors import LinkClosed
from nearcast.domain.message import Message
from nearcast.transport.config import Config

_T = TypeVar("_T")


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="nearcast", daemon=True)
        self._thread.start()
        self.closed = False

    def call(self, make: Callable[[], Awaitable[_T]]) -> _T:
        """Awaits there what `make` makes there."""
        if self.closed:
            raise LinkClosed("the client is closed; start another one")

        async def done() -> _T:
            return await make()

        future = asyncio.run_coroutine_threadsafe(done(), self._loop)
        try:
            return future.result()
        except BaseException:  # such as KeyboardInterrupt: what was asked is given up
            future.cancel()
            raise

    def close(self) -> None:
        self.closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class BlockingClient:
    """Use as `with BlockingClient(...) as client`, or call `close()`. May be shared by threads."""

    def __init__(
        self, config: Config | Path | None = None, *, name: str = "", site: str = "", gateway: str = ""
    ) -> None:
        """As `open_client`."""
        self._thread = LoopThread()
        try:
            self._client: Client = self._thread.call(
                lambda: _at_once(lambda: open_client(config, name=name, site=site, gateway=gateway))
            )
        except BaseException:
            self._thread.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish(self, topic: str, payload: bytes, *, timeout_s: float = 30.0) -> int:
        """As `Client.publish`."""
        return self._thread.call(lambda: self._client.publish(topic, payload, timeout_s=timeout_s))

    def subscribe(
        self,
        topic: str,
        *,
        on_report: OnReport | None = None,
        buffer: int = 65_536,
        overflow: Overflow = Overflow.DROP_OLDEST,
        since: Since | None = None,
    ) -> "BlockingSubscription":
        """As `Client.subscribe`. `on_report` is called in the client's own thread."""
        subscription = self._thread.call(
            lambda: self._client.subscribe(topic, on_report=on_report, buffer=buffer, overflow=overflow, since=since)
        )
        return BlockingSubscription(subscription, self._thread)

    def set_gateway(self, broker: str) -> None:
        """As `Client.set_gateway`."""
        self._thread.call(lambda: _at_once(lambda: self._client.set_gateway(broker)))

    def close(self) -> None:
        """Says goodbye, hands over what was published, and ends; who waits for a message is let go."""
        if not self._thread.closed:
            self._thread.call(self._client.close)
            self._thread.close()


class BlockingSubscription:
    """Iterate over it, or `get` the next message; leave it with `close()` or `with`."""

    def __init__(self, subscription: Subscription, thread: LoopThread) -> None:
        self._subscription = subscription
        self._thread = thread

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        try:
            return self._thread.call(self._subscription.__anext__)
        except (StopAsyncIteration, LinkClosed):
            raise StopIteration from None

    def get(self, timeout_s: float) -> Message | None:
        """The next message; None when none came in time, or the subscription is over."""
        try:
            return self._thread.call(lambda: asyncio.wait_for(self._subscription.__anext__(), timeout_s))
        except (StopAsyncIteration, TimeoutError, LinkClosed):
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leaves the topic. Messages already taken in can still be iterated over."""
        self._thread.call(lambda: _at_once(self._subscription.close))


async def _at_once(work: Callable[[], _T]) -> _T:
    return work()
