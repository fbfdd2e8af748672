"""The links of one process, made on demand, one per broker.

Orders to one broker are carried out in the order they were given. What is published before a broker has been reached
for the first time waits for it; what is published while an established link is down is dropped: the machines above
know of the break and send again what matters.
"""

from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass

from nearcast.brokers.link import Connect, Link, Receive
from nearcast.domain.errors import LinkDown, LinkError
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew

_FIRST_RETRY_S = 0.05
_LAST_RETRY_S = 2.0
_MOST_WAITING = 10_000


@dataclass(frozen=True, slots=True)
class Inbox:
    """What a process hears on a broker from the moment it is connected, before anything it says there is sent."""

    subject: str
    receive: Receive


class LinkPool:
    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        crew: Crew,
        *,
        inbox: Callable[[str], Inbox | None],
        on_state: Callable[[str, bool], None],
        on_open: Callable[[str], None] = lambda _broker: None,
    ) -> None:
        """`on_open(broker)`: reached for the first time. `on_state(broker, up)`: that link broke, or is back."""
        self._connect = connect
        self._clock = clock
        self._crew = crew
        self._inbox = inbox
        self._on_state = on_state
        self._on_open = on_open
        self._peers: dict[str, _Peer] = {}
        self._leaving: dict[_Peer, None] = {}

    def publish(self, broker: str, subject: str, data: bytes) -> None:
        (self._peers.get(broker) or self._peer(broker)).publish(subject, data)

    def sender(self, broker: str) -> Callable[[str, bytes], None]:
        """What `publish` does for this broker."""
        return self._peer(broker).publish

    def attach(self, broker: str, topic: str, receive: Receive, attached: Callable[[], None]) -> None:
        """Subscribes, however long it takes; `attached` is called when it is confirmed."""
        self._peer(broker).want(topic, _Want(receive, attached))

    def detach(self, broker: str, topic: str) -> None:
        self._peer(broker).want(topic, None)

    def is_attached(self, broker: str, topic: str) -> bool:
        peer = self._peers.get(broker)
        return peer is not None and topic in peer.subscribed

    def reach(self, broker: str) -> None:
        """Connects, if that has not begun yet."""
        self._peer(broker)

    def keep(self, brokers: Container[str]) -> None:
        """Leaves all others. For a pool whose links nobody holds on to."""
        for broker in [each for each in self._peers if each not in brokers]:
            peer = self._peers.pop(broker)
            self._leaving[peer] = None
            self._crew.start(self._leave(peer), f"leave {broker}")

    def reached(self, broker: str) -> bool:
        """Whether there has been a connection, even if it is broken now."""
        peer = self._peers.get(broker)
        return peer is not None and peer.open

    def up(self, broker: str) -> bool:
        peer = self._peers.get(broker)
        return peer is not None and peer.open and (link := peer.link) is not None and link.up

    @property
    def broken(self) -> list[str]:
        """Brokers whose established link is down now."""
        return [name for name, peer in self._peers.items() if peer.open and peer.link and not peer.link.up]

    async def flush(self, broker: str) -> None:
        """Raises LinkDown when it cannot be known that the broker has handled all that was published."""
        peer = self._peers.get(broker)
        if peer is None or not peer.open or peer.link is None:
            raise LinkDown(f"flush: not connected to {broker!r}")
        await peer.link.flush()

    async def close(self) -> None:
        """Ends every link after what was published has been handed to its connection; also those that are asked for
        while others end.
        """
        ended: list[_Peer] = []
        while left := [peer for peer in (*self._peers.values(), *self._leaving) if peer not in ended]:
            for peer in left:
                await peer.end()
            ended += left

    async def _leave(self, peer: "_Peer") -> None:
        await peer.end()
        del self._leaving[peer]

    def _peer(self, broker: str) -> "_Peer":
        peer = self._peers.get(broker)
        if peer is None:
            inbox = self._inbox(broker)
            self._peers[broker] = peer = _Peer(broker, self._clock, self._crew, inbox, self._on_state, self._on_open)
            self._crew.start(peer.connect(self._connect), f"connect to {broker}")
        return peer


@dataclass(frozen=True, slots=True)
class _Want:
    receive: Receive
    attached: Callable[[], None]


class _Peer:
    """One broker: its link, what it should be subscribed to, and what waits for the first connection."""

    def __init__(  # noqa: PLR0917  # private, and called in one place
        self,
        broker: str,
        clock: Clock,
        crew: Crew,
        inbox: Inbox | None,
        on_state: Callable[[str, bool], None],
        on_open: Callable[[str], None],
    ) -> None:
        self.broker = broker
        self.link: Link | None = None
        self.open = False  # the inbox is heard, so whatever is asked can be answered
        self.subscribed: dict[str, _Want] = {}
        self._clock = clock
        self._crew = crew
        self._inbox = inbox
        self._on_state = on_state
        self._on_open = on_open
        self._wanted: dict[str, _Want | None] = {}  # orders not yet carried out
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=_MOST_WAITING)
        self._working = False
        self._ended = False

    def publish(self, subject: str, data: bytes) -> None:
        if self.open:
            link = self.link
            assert link is not None
            if link.up:
                link.publish(subject, data)
        else:
            self._waiting.append((subject, data))

    def want(self, topic: str, want: _Want | None) -> None:
        self._wanted[topic] = want
        self._work()

    async def connect(self, connect: Connect) -> None:
        retry_s = _FIRST_RETRY_S
        while self.link is None and not self._ended:
            try:
                self.link = await connect(self.broker, self._changed)
            except LinkDown:
                await self._clock.sleep(retry_s)
                retry_s = min(2 * retry_s, _LAST_RETRY_S)
        if self._ended:
            await self.end()
        elif self._inbox is None:
            self._opened()
        else:
            want = _Want(self._inbox.receive, self._opened)
            self._wanted = {self._inbox.subject: want, **self._wanted}
        self._work()

    async def end(self) -> None:
        """For good, also when it is only just being reached."""
        self._ended = True
        self._wanted.clear()
        if self.link is not None:
            await self.link.close()

    def _opened(self) -> None:
        self.open = True
        while self._waiting and self.link is not None and self.link.up:
            self.link.publish(*self._waiting.popleft())
        self._on_open(self.broker)

    def _changed(self, up: bool) -> None:
        if self.open:
            self._on_state(self.broker, up)
        if up:
            self._work()

    def _work(self) -> None:
        if self._wanted and not self._working and self.link is not None and self.link.up:
            self._working = True
            self._crew.start(self._carry_out(self.link), f"subscriptions at {self.broker}")

    async def _carry_out(self, link: Link) -> None:
        try:
            while self._wanted and link.up:
                topic, want = next(iter(self._wanted.items()))
                del self._wanted[topic]
                if topic in self.subscribed:
                    del self.subscribed[topic]
                    await link.unsubscribe(topic)
                if want is None:
                    continue
                try:
                    await link.subscribe(topic, want.receive)
                except LinkError:
                    self._wanted.setdefault(topic, want)
                    continue
                self.subscribed[topic] = want
                if topic not in self._wanted:
                    want.attached()
        finally:
            self._working = False
