"""One connection to NATS servers with JetStream, kept up.

The library's own reconnecting is not used: once it is back it sends what was given up long before. Here a broken
connection is thrown away, with all that was under way on it, and a new one is made.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import nats.errors
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from nearcast.domain.errors import ConfigError, NearcastError
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew
from nearcast.transport.endpoint import Endpoint

PATIENCE_S = 2.0  # for how long an answer, or a connection, is waited for
RETRY_S = 0.1
_PING_S = 1.0
_NEVER_S = 86_400.0  # for the library: time is kept here


class Connection(Client):
    """From a connect to a break; the library's client, with an end that waits for nobody."""

    def __init__(self, endpoint: Endpoint, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._tls = tls
        self.js = self.jetstream(timeout=_NEVER_S)
        self.trouble: Exception | None = None  # the newest that the library has met
        self._broken = asyncio.Event()
        self._waiting: dict[asyncio.Timeout, None] = {}

    async def reach(self, name: str) -> None:
        endpoint = self._endpoint
        async with asyncio.timeout(PATIENCE_S):
            await self.connect(
                servers=[endpoint.url],
                name=name,
                user=endpoint.user,
                password=endpoint.password,
                tls=self._tls,
                tls_hostname=None if endpoint.tls is None else endpoint.tls.server_name or endpoint.host,
                allow_reconnect=False,
                max_reconnect_attempts=1,  # 0 would mean: for ever
                reconnect_time_wait=0,
                ping_interval=int(_NEVER_S),
                pending_size=0,
                error_cb=self._met,
                closed_cb=self._closed,
            )

    async def end(self) -> None:
        """The library's `close()` waits until a frozen server has taken what is still to be sent."""
        self.broke()
        self._status = Client.CLOSED
        for task in (self._reading_task, self._flusher_task, self._ping_interval_task):
            if task is not None:
                task.cancel()
        for subscription in self._subs.values():
            subscription._stop_processing()  # noqa: SLF001  # as `close()` does
        writer = self._transport._io_writer if isinstance(self._transport, TcpTransport) else None  # noqa: SLF001
        if writer is not None:
            writer.transport.abort()
            await asyncio.sleep(0)  # closes it; `wait_closed()` waits for ever when TLS could not be agreed on

    @property
    def broken(self) -> bool:
        return self._broken.is_set()

    def broke(self) -> None:
        self._broken.set()
        for limit in self._waiting:
            _strike(limit)

    @contextlib.contextmanager
    def waiting(self, limit: asyncio.Timeout) -> Iterator[None]:
        """Within, `limit` strikes at once when the connection breaks."""
        if self.broken:
            _strike(limit)
        self._waiting[limit] = None
        try:
            yield
        finally:
            del self._waiting[limit]

    async def until_broken(self) -> None:
        """A server that is frozen or cut off breaks nothing: one that does not answer a ping is taken for gone."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PING_S):
                    await self._broken.wait()
                    return
            if not await self._answers():
                self.broke()

    async def _answers(self) -> bool:
        """The library's `flush()` cancels what it waits for, and fails, loudly, when the answer comes after all."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError, nats.errors.Error, OSError):
            async with asyncio.timeout(PATIENCE_S) as limit:
                with self.waiting(limit):
                    await self._send_ping(answer)
                    await asyncio.shield(answer)
        return answer.done()

    def _connect_command(self) -> bytes:
        """The library goes on without TLS, and sends the password, when the server does not ask for TLS."""
        if self._tls is not None and not self._server_info.get("tls_required"):
            raise nats.errors.SecureConnWantedError
        return super()._connect_command()

    async def _met(self, error: Exception) -> None:
        """Kept for who asks why; the library would log it as an error, whatever it is."""
        self.trouble = error

    async def _closed(self) -> None:
        self.broke()


class Session:
    """To one of several servers of a cluster, or to the one there is: whichever lets us in."""

    def __init__(
        self,
        endpoints: Callable[[], Sequence[Endpoint]],
        name: str,
        clock: Clock,
        *,
        what: str,
        down: type[NearcastError],
    ) -> None:
        """`endpoints` is asked before every attempt to connect. `what` is at their end; `down` is raised when it is
        not reached, or does not answer.
        """
        self._endpoints = endpoints
        self._name = name
        self._clock = clock
        self._what = what
        self._down = down
        self._crew = Crew()
        self._newest: Connection | None = None
        self._connection: Connection | None = None  # the newest, while it is up
        self._connected = asyncio.Event()
        self._why = "it does not answer"
        self._where = ""
        self._attempts = 0
        self.closed = True

    def start(self) -> None:
        """Begins to connect, and goes on until it is closed."""
        self.closed = False
        self._crew = Crew()
        self._crew.start(self._keep_up(), f"{self._what} of {self._name}")

    async def open(self) -> None:
        """Returns when it is connected. Raises `down`, and stays closed, when that takes more than PATIENCE_S."""
        self.start()
        try:
            async with self.asking("open"):
                pass
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        self.closed = True
        if self._newest is not None:
            self._newest.broke()
        await self._crew.close()

    @contextlib.asynccontextmanager
    async def asking(self, what: str) -> AsyncIterator[Connection]:
        """A connection to ask on. Raises `down` when what is done within takes more than PATIENCE_S in all, when
        the connection breaks meanwhile, and for errors of the library that are not handled within.
        """
        if self.closed:
            raise self._down(f"{what}: {self._what} is not asked: it was closed here, or never opened")
        connection: Connection | None = None
        task = asyncio.current_task()
        assert task is not None
        cancellations = task.cancelling()
        try:
            async with asyncio.timeout(PATIENCE_S) as limit:
                connection = await self._up()
                with connection.waiting(limit):
                    yield connection
        except TimeoutError:
            what = f"{what}: {self._what}{self._where}"
            if self.closed:
                raise self._down(f"{what} is not asked any more: it was closed here") from None
            if connection is None:
                raise self._down(f"{what} cannot be reached, and nothing was done: {self._why}") from None
            how = "was lost before it answered" if connection.broken else f"has not answered for {PATIENCE_S:.0f} s"
            raise self._down(f"{what} {how}: it may have been done, or may yet be") from None
        except (nats.errors.Error, OSError) as error:
            raise self._down(f"{what}: {self._what}{self._where} failed: {error}") from error
        finally:
            if task.cancelling() > cancellations:
                raise asyncio.CancelledError  # again, if the library has missed it: see _keep_up

    async def _up(self) -> Connection:
        while self._connection is None:
            await self._connected.wait()
        return self._connection

    async def _keep_up(self) -> None:
        while not self.closed:  # until Python 3.12 asyncio.wait_for, which the library uses, may miss a cancellation
            trouble: Exception | None = None
            try:
                endpoint = self._next()
                self._where = f" at {endpoint.url}"
                tls = None if endpoint.tls is None else endpoint.tls.client_context()
                connection = self._newest = Connection(endpoint, tls)
            except ConfigError as error:  # the next attempt may find it mended
                self._why = str(error)
                await self._clock.sleep(RETRY_S)
                continue
            try:
                await connection.reach(self._name)
                self._connection = connection
                self._connected.set()
                await connection.until_broken()
            except (nats.errors.Error, OSError) as error:
                trouble = error
            finally:
                self._connection = None
                self._connected.clear()
                await connection.end()
            self._why = str(connection.trouble or trouble or "") or "it does not answer"
            await self._clock.sleep(RETRY_S)

    def _next(self) -> Endpoint:
        """In turn, beginning with the first."""
        endpoints = self._endpoints()
        self._attempts += 1
        return endpoints[(self._attempts - 1) % len(endpoints)]


def _strike(limit: asyncio.Timeout) -> None:
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time())
