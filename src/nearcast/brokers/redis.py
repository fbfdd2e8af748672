"""Sessions with a Redis server.

redis-py makes the connection: address, TLS, credentials, RESP3. The messages then go past it and through hiredis. In
RESP3 one connection publishes and subscribes, so that a PING is answered after everything that the server sent before
it, messages and confirmations alike; redis-py's pool would publish over several connections, in no order.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import hiredis
import redis.asyncio
from redis.exceptions import RedisError

from nearcast.brokers.session import Session, Streams, Subscribed
from nearcast.domain.errors import LinkDown
from nearcast.transport.endpoint import Endpoint

_NOTHING = object()


async def dial_redis(endpoint: Endpoint, *, name: str, peer: str) -> Session:
    """Raises LinkDown saying why we were not let in, ConfigError when a file for TLS cannot be used."""
    connection = _Opener(endpoint, name)
    try:
        await connection.connect()  # type: ignore[no-untyped-call]  # redis-py's
        session = RedisSession(peer)
        await session.take_over(connection.take_streams())
    except (RedisError, OSError) as error:
        raise LinkDown(f"{peer} cannot be reached: {str(error) or type(error).__name__}") from error
    finally:
        connection.leave()
    return session


def redis_connection(endpoint: Endpoint, name: str) -> redis.asyncio.Connection:
    """For questions and answers, with the TLS that the endpoint asks for and no other; not connected yet."""
    return _Opener(endpoint, name)


class _Opener(redis.asyncio.Connection):
    """redis-py, for opening a connection. What is used of its inside is here, and pinned by the contract tests."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        super().__init__(
            host=endpoint.host,
            port=endpoint.port,
            username=endpoint.user,
            password=endpoint.password,
            client_name=name,
            driver_info=None,
            protocol=3,
        )
        self._tls: dict[str, Any] = {}
        if endpoint.tls is not None:
            # redis-py's own TLS would trust the machine's authorities beside ours, and cannot be told another name.
            self._tls = {
                "ssl": endpoint.tls.client_context(),
                "server_hostname": endpoint.tls.server_name or endpoint.host,
            }

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), **self._tls}

    def take_streams(self) -> Streams:
        """The connection, which is redis-py's no longer."""
        reader, writer, self._reader, self._writer = self._reader, self._writer, None, None
        return Streams(reader, writer)

    def leave(self) -> None:
        """End the connection unless it was taken."""
        if self._writer is not None:
            self.take_streams().abort()


class RedisSession(Session):
    ping_command = b"*1\r\n$4\r\nPING\r\n"
    max_payload_bytes = 512 * 1024 * 1024  # proto-max-bulk-len, unless the server is told otherwise

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self._reader = hiredis.Reader(notEnoughData=_NOTHING)
        self._by_subject: dict[bytes, Subscribed] = {}
        # A channel has no subscription ids: what the server confirms next is what was asked for next.
        self._asked: dict[bytes, deque[Subscribed]] = {}

    def subscribe(self, subscribed: Subscribed) -> None:
        self._asked.setdefault(subscribed.subject, deque()).append(subscribed)
        self.write(_command(b"SUBSCRIBE", subscribed.subject))

    def unsubscribe(self, subscribed: Subscribed) -> None:
        self.write(_command(b"UNSUBSCRIBE", subscribed.subject))

    def forget(self, subscribed: Subscribed) -> None:
        subscribed.receive = _drop

    def mute(self) -> None:
        self._by_subject.clear()
        self._asked.clear()

    def data_received(self, data: bytes) -> None:
        self.heard = True
        try:
            self._reader.feed(data)
            self._take_replies()
        except hiredis.ProtocolError as error:
            self.cut(f"the server sent what is not Redis: {error}")

    def _head(self, subject: bytes) -> bytes:
        return b"*3\r\n$7\r\nPUBLISH\r\n$%d\r\n%b\r\n$" % (len(subject), subject)

    def _take_replies(self) -> None:
        gets, by_subject = self._reader.gets, self._by_subject
        while (reply := gets()) is not _NOTHING:
            if type(reply) is int:  # The answer to a PUBLISH: how many it reached.
                continue
            if type(reply) is not hiredis.PushNotification:
                if not self._obey(reply):
                    return
                continue
            if reply[0] != b"message":
                self._changed(reply)
                continue
            subscribed = by_subject.get(reply[1])
            if subscribed is not None:
                try:
                    subscribed.receive(reply[2])
                except Exception as error:  # noqa: BLE001  # Whatever it is, the reader goes on; see `_failed`.
                    self._failed(subscribed, error)

    def _changed(self, push: list[Any]) -> None:
        kind, subject = push[0], push[1]
        if kind == b"subscribe" and (asked := self._asked.get(subject)):
            self._by_subject[subject] = asked.popleft()
            if not asked:
                del self._asked[subject]
        elif kind == b"unsubscribe":
            self._by_subject.pop(subject, None)

    def _obey(self, reply: object) -> bool:
        """Whether to go on. An error means that something was not done (a permission is missing, for one), and nobody
        knows what: a break says so to everybody, and an answer that comes after it counts no more."""
        if reply == b"PONG":
            self._answered()
            return True
        self.cut(f"the server said {reply}")
        return False


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _drop(_data: bytes) -> None:
    pass
