"""What could not be processed, published on the dead-letter topic by a client of the agent's own process."""

import asyncio
import base64
import logging

import msgspec

from nearcast.client import Client
from nearcast.client.open import open_client, unique_name
from nearcast.control.stage import Bury
from nearcast.domain.errors import NearcastError
from nearcast.domain.processor import dead_letter_topic
from nearcast.transport.config import Config

_MOST_WAITING = 1000
_PUBLISH_S = 30.0
_log = logging.getLogger(__name__)


class DeadLetters:
    """A client that is opened with the first of them. At most so many wait for a route: what is more is logged."""

    def __init__(self, config: Config, broker: str) -> None:
        self._config = config
        self._broker = broker
        self._waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(_MOST_WAITING)
        self._task: asyncio.Task[None] | None = None

    def bury(self, topic: str, dead: Bury) -> None:
        try:
            self._waiting.put_nowait((topic, letter(topic, self._broker, dead)))
        except asyncio.QueueFull:
            _log.warning("topic %r: a dead letter found no room: %s: %s", topic, dead.failure, dead.error)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._publish(), name="dead letters")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _publish(self) -> None:
        async with open_client(self._config, name=unique_name(f"dead-letters-{self._broker}")) as client:
            while True:
                await self._publish_next(client)

    async def _publish_next(self, client: Client) -> None:
        topic, data = await self._waiting.get()
        try:
            await client.publish(dead_letter_topic(topic), data, timeout_s=_PUBLISH_S)
        except NearcastError as error:
            _log.warning("topic %r: a dead letter could not be published: %s", topic, error)


def letter(topic: str, broker: str, dead: Bury) -> bytes:
    """A JSON object; the payload is in base64, whatever it is."""
    message = dead.message
    return msgspec.json.encode(
        {
            "topic": topic,
            "broker": broker,
            "failure": dead.failure,
            "error": dead.error,
            "publisher": message.publisher,
            "seq": message.seq,
            "sent_ns": message.sent_ns,
            "payload": base64.b64encode(message.payload).decode(),
        }
    )
