"""The connection of one process to one broker, as everything above this package sees it."""

from collections.abc import Callable
from typing import Protocol

from nearcast.domain.broker import Addresses

Receive = Callable[[bytes], None]
OnState = Callable[[bool], None]
LearnAddresses = Callable[[Addresses], None]
"""What a process does with the addresses it is told: they are for whoever answers `Connect`."""


def forget_addresses(_addresses: Addresses) -> None:
    """For a process whose `Connect` finds every broker by its name."""


class Link(Protocol):
    """A live connection to one broker.

    After a break it reconnects by itself, waiting longer after every failed attempt, and subscribes again to what it
    was subscribed to. `on_state(False)` tells of the break; `on_state(True)` tells that the connection is back and
    that every subscription is confirmed again. Messages may be received between the two.

    There is no request and reply here: those are messages on subjects of their own (hello and welcome, see `wire`), the
    same over every kind of server.

    Not promised: that a published message arrives (what was handed over before a break may be lost, and a break is
    noticed late: up to some four seconds when the server just falls silent); that two links keep an order between each
    other; that anything published during a break is received.
    """

    @property
    def broker(self) -> str:
        """The name of the broker at the other end."""
        ...

    @property
    def up(self) -> bool:
        """Connected, as far as is known, with every subscription confirmed."""
        ...

    def publish(self, topic: str, data: bytes) -> None:
        """Hand a message over. Messages of one link reach each subscriber in the order of these calls.

        Raises LinkDown while the link is not up, LinkClosed after `close()`, MessageTooLarge when the server would not
        take it. Never waits: when the server takes less than is published, the link breaks at some point, and what it
        kept is lost; who publishes without a pause calls `flush()` now and then.
        """
        ...

    async def subscribe(self, topic: str, receive: Receive) -> None:
        """Return once the subscription is confirmed: whatever the server handles from then on is received.

        `receive` is called on the event loop, once per message, in the order of arrival; it must not block. What it
        raises goes to the event loop's exception handler, and the next message is received. Raises LinkDown when the
        link is or goes down before the confirmation, and then is not subscribed; ValueError when this link is
        subscribed to the topic already.
        """
        ...

    async def unsubscribe(self, topic: str) -> None:
        """Leave a topic without throwing away what the server had sent before: it is received, then this returns.

        Does nothing when not subscribed. A break ends it early: there is nothing left to drain.
        """
        ...

    async def flush(self) -> None:
        """Return once the server has handled all that was published before. Raises LinkDown when it cannot be known."""
        ...

    async def rtt(self) -> float:
        """Seconds for one round trip to the server, behind whatever is under way. Raises LinkDown as `flush()` does."""
        ...

    async def close(self) -> None:
        """End the connection for good. What was published before is still sent; nothing more is received."""
        ...


class Connect(Protocol):
    """What a process is given to reach brokers by: it hides addresses, credentials and who the process is."""

    async def __call__(self, broker: str, on_state: OnState) -> Link:
        """A link that is up. Raises LinkDown when the broker cannot be reached now: then there is no link.

        `on_state` is not called for this first connection.
        """
        ...
