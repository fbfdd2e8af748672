"""What `nearcast bench client` compares: nats-py and redis-py as their manuals use them, and nearcast.

Each side publishes and subscribes on one topic at the same server. Subscribers hand every payload to `take`, from the
library's own iterator or from its own callback.
"""

import asyncio
import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec
import nats
import redis.asyncio
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as RawSubscription

from nearcast.client.client import Client
from nearcast.client.open import open_client
from nearcast.client.subscription import Subscription
from nearcast.domain.message import Message
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import NATS, REDIS

Take = Callable[[bytes], None]


class Style(enum.StrEnum):
    ITERATOR = "iterator"
    CALLBACK = "callback"


class Where(msgspec.Struct, frozen=True):
    """`config` is nearcast's file for the fleet; without it the raw library goes to the server at `url`."""

    kind: str
    url: str
    topic: str
    config: str | None = None


class Side(Protocol):
    """One client: one connection, or what the library takes for one."""

    async def publish(self, payload: bytes) -> None: ...

    async def publish_many(self, payload: bytes, count: int) -> None:
        """In the way that the library is fast in. Returns when the event loop has had a turn."""
        ...

    async def subscribe(self, take: Take, style: Style) -> None:
        """Returns when it is confirmed."""
        ...

    async def close(self) -> None: ...


async def connect(where: Where) -> Side:
    if where.config is not None:
        return _Nearcast(open_client(Path(where.config)), where.topic)
    if where.kind == REDIS:
        return _RawRedis(where)
    assert where.kind == NATS
    return _RawNats(await nats.connect(where.url, allow_reconnect=False), where.topic)


class _Nearcast:
    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._crew = Crew()

    async def publish(self, payload: bytes) -> None:
        await self._client.publish(self._topic, payload)

    async def publish_many(self, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._client.publish(self._topic, payload)
        await asyncio.sleep(0)

    async def subscribe(self, take: Take, style: Style) -> None:
        def receive(message: Message) -> None:
            take(message.payload)

        if style is Style.CALLBACK:
            await self._client.subscribe(self._topic, receive)
        else:
            self._crew.start(self._iterate(await self._client.subscribe(self._topic), take), "iterator")

    @staticmethod
    async def _iterate(subscription: Subscription, take: Take) -> None:
        async for message in subscription:
            take(message.payload)

    async def close(self) -> None:
        await self._crew.close()
        await self._client.close()


class _RawNats:
    def __init__(self, client: NatsClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._crew = Crew()

    async def publish(self, payload: bytes) -> None:
        await self._client.publish(self._topic, payload)

    async def publish_many(self, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self._client.publish(self._topic, payload)
        await asyncio.sleep(0)

    async def subscribe(self, take: Take, style: Style) -> None:
        async def receive(message: Msg) -> None:
            take(message.data)

        if style is Style.CALLBACK:
            await self._client.subscribe(self._topic, cb=receive)
        else:
            self._crew.start(self._iterate(await self._client.subscribe(self._topic), take), "iterator")
        await self._client.flush()
        await self._client.flush()  # the first one's PING may overtake the SUB in nats-py's buffer

    @staticmethod
    async def _iterate(subscription: RawSubscription, take: Take) -> None:
        async for message in subscription.messages:
            take(message.data)

    async def close(self) -> None:
        await self._crew.close()
        await self._client.close()


class _RawRedis:
    def __init__(self, where: Where) -> None:
        self._client = redis.asyncio.Redis.from_url(where.url)
        self._pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        self._topic = where.topic
        self._crew = Crew()

    async def publish(self, payload: bytes) -> None:
        await self._client.publish(self._topic, payload)

    async def publish_many(self, payload: bytes, count: int) -> None:
        async with self._client.pipeline(transaction=False) as pipeline:
            for _ in range(count):
                pipeline.publish(self._topic, payload)
            await pipeline.execute()

    async def subscribe(self, take: Take, style: Style) -> None:
        def receive(message: dict[str, Any]) -> None:
            take(message["data"])

        if style is Style.CALLBACK:
            await self._pubsub.subscribe(**{self._topic: receive})
            await self._confirmed()
            self._crew.start(self._pubsub.run(), "callbacks")
        else:
            await self._pubsub.subscribe(self._topic)
            await self._confirmed()
            self._crew.start(self._listen(take), "iterator")

    async def _confirmed(self) -> None:
        await self._pubsub.get_message(timeout=5.0)  # the confirmation, which is ignored: nothing is published yet

    async def _listen(self, take: Take) -> None:
        async for message in self._pubsub.listen():
            take(message["data"])

    async def close(self) -> None:
        await self._crew.close()
        await self._pubsub.aclose()  # type: ignore[no-untyped-call]  # redis-py's
        await self._client.aclose()
