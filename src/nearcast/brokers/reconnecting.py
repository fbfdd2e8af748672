"""The Link to a real server of whatever kind: confirms, drains, watches the server, reconnects."""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial

from nearcast.brokers.link import OnState, Receive
from nearcast.brokers.patience import Patience
from nearcast.brokers.session import Session, Subscribed, ignore
from nearcast.domain.errors import LinkClosed, LinkDown, LinkError
from nearcast.transport.crew import Crew

# A stopped server, or one behind a dead network, keeps its connections: it is asked this often, and given up when it
# has been silent as many times.
KNOCK_S = 1.0
MOST_UNANSWERED = 3
# A connection that broke before it was this old counts as a failed attempt: a server that lets in and throws out is
# not asked twenty times a second.
SETTLED_S = 5.0

Dial = Callable[[], Awaitable[Session]]

_log = logging.getLogger(__name__)


class ReconnectingLink:
    """A `nearcast.brokers.link.Link`. `dial` makes a new session, or raises LinkDown.

    A server that takes less than is published: what it has not taken is kept up to `session.MOST_UNSENT_BYTES`, then
    the connection is ended, as a server does with a client that does not read. Who publishes without a pause calls
    `flush()` now and then.
    """

    def __init__(
        self,
        broker: str,
        dial: Dial,
        on_state: OnState,
        *,
        patience: Patience | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.broker = broker
        self.up = False
        self._dial = dial
        self._on_state = on_state
        self._patience = patience or Patience()
        self._rng = rng or random.Random()
        self._loop = asyncio.get_running_loop()
        self._crew = Crew()
        self._closed = False
        self._session: Session | None = None
        self._by_topic: dict[str, Subscribed] = {}
        self._sids = 0
        self._attempt = 0
        self._up_since_s = 0.0
        self._why_down = "not connected yet"
        self._watch: asyncio.TimerHandle | None = None
        self._unanswered = 0
        self._unsent_bytes = 0

    async def open(self) -> "ReconnectingLink":
        """Connect for the first time; LinkDown when that fails."""
        await self._connect()
        return self

    def publish(self, topic: str, data: bytes) -> None:
        if not self.up:
            raise self._reason_down("publish")
        assert self._session is not None
        self._session.publish(topic, data)

    async def subscribe(self, topic: str, receive: Receive) -> None:
        session = self._session_up("subscribe")
        if topic in self._by_topic:
            raise ValueError(f"this link to {self.broker!r} is subscribed to {topic!r} already: unsubscribe first")
        self._sids += 1
        self._by_topic[topic] = subscribed = Subscribed(self._sids, topic, receive)
        session.subscribe(subscribed)
        try:
            await session.ping()
        except BaseException:
            if self._by_topic.get(topic) is subscribed:
                del self._by_topic[topic]
                session.unsubscribe(subscribed)
            session.forget(subscribed)
            raise
        if self._session is not session:  # Confirmed, and lost again before this task could run.
            raise LinkDown(f"subscribe: {session.peer}: the connection broke: {session.over}")
        subscribed.confirmed = True

    async def unsubscribe(self, topic: str) -> None:
        subscribed = self._by_topic.pop(topic, None)
        session = self._session
        if subscribed is None or session is None:
            return
        session.unsubscribe(subscribed)
        try:
            await session.ping()
        except LinkError:
            pass  # The server forgets a subscription with its connection: there is nothing left to drain.
        finally:
            session.forget(subscribed)

    async def flush(self) -> None:
        await self._session_up("flush").ping()

    async def rtt(self) -> float:
        session = self._session_up("rtt")
        asked_s = time.perf_counter()  # uvloop's own clock counts milliseconds
        await session.ping()
        return time.perf_counter() - asked_s

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        was_up, self.up = self.up, False
        if self._watch is not None:
            self._watch.cancel()
        session, self._session = self._session, None
        self._by_topic.clear()
        if session is not None:
            session.on_lost = ignore
            session.mute()
            session.fail_pings(LinkClosed(f"the link to {self.broker!r} was closed"))
        await self._crew.close()
        if session is None:
            return
        try:
            if was_up:
                # A socket that is closed while something is left to read is reset, and what is unsent is lost. So the
                # server is asked first whether it has everything.
                with contextlib.suppress(LinkDown, TimeoutError):
                    async with asyncio.timeout(self._patience.answer_s):
                        await session.ping()
        finally:
            session.cut("closed by its owner")
        await session.gone()

    # Connecting

    async def _connect(self) -> None:
        """Be up, or raise LinkDown and have no session."""
        try:
            async with asyncio.timeout(self._patience.answer_s):
                await self._use(await self._dial())
        except TimeoutError as error:
            message = f"the link to {self.broker!r}: no answer within {self._patience.answer_s:g} s"
            raise LinkDown(message) from error

    async def _use(self, session: Session) -> None:
        session.on_lost = partial(self._break, session)
        self._session = session
        try:
            for subscribed in self._by_topic.values():
                session.subscribe(subscribed)
            await session.ping()
        except BaseException:
            session.on_lost = ignore
            session.cut("gave up connecting")
            self._session = None
            raise
        if self._session is not session:
            raise LinkDown(f"{session.peer}: the connection broke: {session.over}")
        self._up_since_s = self._loop.time()
        self._unanswered = self._unsent_bytes = 0
        self._watch = self._loop.call_later(KNOCK_S, self._look, session)
        self.up = True

    async def _reconnect(self) -> None:
        while not self.up:
            await asyncio.sleep(self._patience.before_attempt_s(self._attempt, self._rng))
            self._attempt += 1
            try:
                await self._connect()
            except LinkDown as error:
                self._why_down = str(error)
        _log.info("the link to %r is back", self.broker)
        self._tell(True)

    def _look(self, session: Session) -> None:
        """Any sign of life counts, not only the answer: that may stand behind much that is slow to be sent.

        Counted in looks, not in seconds: when this process was stopped itself, one look comes late, and then what the
        server had answered is read.
        """
        unsent_bytes = session.unsent_bytes
        alive = session.heard or unsent_bytes < self._unsent_bytes
        self._unanswered = 0 if alive else self._unanswered + 1
        self._unsent_bytes = unsent_bytes
        session.heard = False
        if self._unanswered >= MOST_UNANSWERED:
            session.cut(f"no answer within {KNOCK_S * MOST_UNANSWERED:g} s")
        else:
            session.knock()
            self._watch = self._loop.call_later(KNOCK_S, self._look, session)

    def _break(self, session: Session, reason: str) -> None:
        if self._session is not session:
            return
        self._session = None
        was_up, self.up = self.up, False
        self._why_down = reason
        for subscribed in list(self._by_topic.values()):
            if not subscribed.confirmed:
                del self._by_topic[subscribed.topic]
        if not was_up:
            return
        assert self._watch is not None
        self._watch.cancel()
        if self._loop.time() - self._up_since_s >= SETTLED_S:
            self._attempt = 0
        _log.warning("the link to %r broke: %s", self.broker, reason)
        self._crew.start(self._reconnect(), f"reconnect to {self.broker}")
        self._tell(False)

    # Shared

    def _tell(self, up: bool) -> None:
        try:
            self._on_state(up)
        except Exception as error:  # noqa: BLE001  # A bug of the owner's: told as one, and the link goes on.
            message = f"the owner of the link to {self.broker!r} failed when told that it is {'up' if up else 'down'}"
            self._loop.call_exception_handler({"message": message, "exception": error})

    def _session_up(self, wanted: str) -> Session:
        if not self.up:
            raise self._reason_down(wanted)
        assert self._session is not None
        return self._session

    def _reason_down(self, wanted: str) -> LinkError:
        if self._closed:
            return LinkClosed(f"{wanted}: the link to {self.broker!r} was closed")
        return LinkDown(f"{wanted}: the link to {self.broker!r} is not up now ({self._why_down}); wait until it is")
