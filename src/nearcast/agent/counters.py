"""A server's own counters, as NATS shows them on its monitoring port and Redis tells them on any connection.

Asked for seldom enough to cost the server next to nothing; nothing is subscribed to. Whatever goes wrong is a LinkDown.
"""

import asyncio
from typing import Any, Protocol, TypeVar

import msgspec
import redis.asyncio
from redis.exceptions import RedisError

from nearcast.agent.analyzer import Listeners, Listening, Totals
from nearcast.brokers.redis import redis_connection
from nearcast.domain.errors import LinkDown, TopicNameError
from nearcast.domain.topic import RESERVED_PREFIX, validate_topic
from nearcast.transport.clock import Clock
from nearcast.transport.config import BrokerAt
from nearcast.transport.endpoint import NATS, Endpoint
from nearcast.transport.http import ask
from nearcast.wire.control import client_subject

_T = TypeVar("_T")
_CLIENTS = client_subject("")
_PATIENCE_S = 2.0
_MOST_BYTES = 32 * 1024 * 1024
_PAGE = 1000  # connections or channels that are asked about at a time


class Counters(Protocol):
    """Raises LinkDown when the server does not answer."""

    async def totals(self) -> Totals: ...

    async def listening(self) -> Listening:
        """Costs the server more, by the number of its clients."""
        ...

    async def close(self) -> None: ...


def counters_of(at: BrokerAt, *, agent: str, clock: Clock) -> Counters | None:
    """None for a NATS server without a monitoring port. `agent` is the name of the agent's own connection."""
    if at.endpoint.kind != NATS:
        return RedisCounters(at.endpoint, agent, clock)
    return NatsCounters(at.monitor, clock) if at.monitor is not None else None


class _Varz(msgspec.Struct):
    in_bytes: int
    out_bytes: int
    out_msgs: int
    cpu: float  # of one processor, in percent, over a second or so
    mem: int


class _Subscribed(msgspec.Struct):
    subject: str
    sid: str
    msgs: int = 0


class _Connected(msgspec.Struct):
    cid: int
    out_msgs: int
    out_bytes: int
    subscriptions_list_detail: list[_Subscribed] = []


class _Connz(msgspec.Struct):
    total: int
    connections: list[_Connected] = []


class NatsCounters:
    """Over HTTP: `/varz` for the totals, `/connz` for connections with their subscriptions."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock

    async def totals(self) -> Totals:
        found = await self._get("/varz", _Varz)
        return Totals(
            self._clock.now(),
            found.out_bytes,
            found.out_msgs,
            found.in_bytes,
            cores=found.cpu / 100.0,
            memory_bytes=found.mem,
        )

    async def listening(self) -> Listening:
        connections: list[_Connected] = []
        while True:
            page = await self._get(f"/connz?subs=detail&sort=cid&limit={_PAGE}&offset={len(connections)}", _Connz)
            connections += page.connections
            if not page.connections or len(connections) >= page.total:
                break
        return Listening(self._clock.now(), _plain_listeners(connections))

    async def close(self) -> None:
        """There is nothing to close: every question has a connection of its own."""

    async def _get(self, path: str, kind: type[_T]) -> _T:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return msgspec.json.decode(await ask(self._url, path, most_bytes=_MOST_BYTES), type=kind)
        except (OSError, TimeoutError, EOFError, ValueError, msgspec.MsgspecError) as error:
            raise LinkDown(f"{self._url}{path}: {str(error) or type(error).__name__}") from error


def _plain_listeners(connections: list[_Connected]) -> dict[str, Listeners]:
    """Ours are known by the inbox that each of our processes has. Bytes are by a connection's mean message."""
    plain: dict[str, dict[str, tuple[int, float]]] = {}
    for each in connections:
        listed = each.subscriptions_list_detail
        if any(one.subject.startswith(RESERVED_PREFIX) for one in listed):
            continue
        size = each.out_bytes / each.out_msgs if each.out_msgs else 0.0
        for one in listed:
            if _is_topic(one.subject):
                plain.setdefault(one.subject, {})[f"{each.cid}/{one.sid}"] = (one.msgs, one.msgs * size)
    return {topic: Listeners(len(found), found) for topic, found in plain.items()}


class RedisCounters:
    """Over a connection of its own: `INFO` for the totals, `PUBSUB NUMSUB` and `CLIENT LIST` for who listens."""

    def __init__(self, endpoint: Endpoint, agent: str, clock: Clock) -> None:
        """`agent` is the name of the agent's own connection."""
        self._endpoint = endpoint
        self._agent = agent
        self._clock = clock
        self._connection: redis.asyncio.Connection | None = None

    async def totals(self) -> Totals:
        found = _facts(await self._ask("INFO"))
        return Totals(
            self._clock.now(),
            int(found["total_net_output_bytes"]),
            in_bytes=int(found["total_net_input_bytes"]),
            cpu_s=float(found["used_cpu_user"]) + float(found["used_cpu_sys"]),
            memory_bytes=int(found["used_memory"]),
        )

    async def listening(self) -> Listening:
        channels = [_text(each) for each in await self._ask("PUBSUB", "CHANNELS")]
        topics = [channel for channel in channels if _is_topic(channel)]
        found: dict[str, Listeners] = {}
        for first in range(0, len(topics), _PAGE):
            answer = await self._ask("PUBSUB", "NUMSUB", *topics[first : first + _PAGE])
            pairs = zip(answer[::2], answer[1::2], strict=True)
            found |= {_text(topic): Listeners(int(number)) for topic, number in pairs}
        inboxes = {channel.removeprefix(_CLIENTS) for channel in channels if channel.startswith(_CLIENTS)}
        clients = _text(await self._ask("CLIENT", "LIST", "TYPE", "pubsub"))
        return Listening(self._clock.now(), found, _has_plain(clients, {*inboxes, self._agent}))

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _ask(self, *words: str) -> Any:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                if self._connection is None:
                    self._connection = redis_connection(self._endpoint, f"{self._agent}-counters")
                    await self._connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
                await self._connection.send_command(*words)
                return await self._connection.read_response()
        except (RedisError, OSError, TimeoutError) as error:
            await self.close()
            raise LinkDown(f"{self._endpoint.url}: {words[0]}: {str(error) or type(error).__name__}") from error
        except BaseException:
            await self.close()  # an answer may still be under way, and would be taken for another's
            raise


def _has_plain(clients: str, ours: set[str]) -> bool:
    """In `CLIENT LIST`: a line per client; among its words are its name and the number of channels it listens to."""
    for line in clients.splitlines():
        facts = dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        if facts.get("name", "") not in ours and facts.get("sub", "0") != "0":
            return True
    return False


def _facts(info: object) -> dict[str, str]:
    lines = (line.split(":", 1) for line in _text(info).splitlines() if ":" in line)
    return {key: value.strip() for key, value in lines}


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _is_topic(name: str) -> bool:
    try:
        validate_topic(name)
    except TopicNameError:
        return False
    return True
