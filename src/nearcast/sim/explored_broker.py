"""A broker of the explored world: it matches what it gets against its subscriptions and hands it on.

One connection is a FIFO channel each way. With `concurrent` it does as NATS does: the reader of one connection matches
a message, then hands it to one receiver after the other, while readers of other connections do the same; a receiver
that unsubscribes in between does not get it.
"""

from __future__ import annotations

import math

from nearcast.sim.explored_outbox import Outbox, agent_of
from nearcast.sim.explored_telling import told
from nearcast.wire.control import Beat, Switch
from nearcast.wire.envelope import Envelope


class Broker:
    """`wants`: what each connected library keeps subscribed, whether or not its connection is there.

    `last_epoch`: with it, what an agent's own subscription brings it and it surely has no use for is left out.
    """

    __slots__ = ("busy", "concurrent", "last_epoch", "name", "subscribed", "up", "wants")

    def __init__(self, name: str, *, concurrent: bool, last_epoch: int | None) -> None:
        self.name = name
        self.concurrent = concurrent
        self.last_epoch = last_epoch
        self.up = True
        self.subscribed: dict[str, None] = {}
        self.wants: dict[str, bool] = {}  # whether it has been confirmed
        self.busy: dict[str, Handing] = {}

    def wake_s(self) -> float:
        return math.inf

    def take(self, source: str, message: object, _now: float, out: Outbox) -> None:
        match message:
            case Envelope():
                receivers = [each for each in self.subscribed if not self._useless(each, message)]
                if not self.concurrent:
                    out.puts += [(receiver, message) for receiver in receivers]
                elif receivers:
                    self.busy[source] = Handing(message, receivers)
            case "subscribe":
                self.subscribed[source] = None
                self.wants[source] = True
                out.puts.append((source, "subscribed"))
            case "unsubscribe":
                self._leave(source)
                self.wants.pop(source, None)
            case ("hand on", str(sender), str(receiver)):
                self._hand_on(sender, receiver, out)
            case "crash":
                self.up = False
                self.subscribed.clear()
                self.busy.clear()
            case "restart":
                self.up = True
            case ("disconnected", str(other), bool(forgets)):
                self._leave(other)
                self.busy.pop(other, None)
                if forgets:
                    self.wants.pop(other, None)
            case ("wants", str(other)):
                self.wants.setdefault(other, False)
            case ("unconfirmed", str(other)) if other in self.wants:
                self.wants[other] = False
            case ("wants no more", str(other)):
                self.wants.pop(other, None)
            case ("reconnected", str(other)):
                self._reconnect(other, out)

    def _leave(self, other: str) -> None:
        self.subscribed.pop(other, None)
        for sender, handing in list(self.busy.items()):
            if other in handing.waiting:
                handing.waiting.remove(other)
                self._finish(sender)

    def _reconnect(self, other: str, out: Outbox) -> None:
        out.puts.append((other, "restored"))
        if other in self.wants:
            self.subscribed[other] = None
            if not self.wants[other]:
                self.wants[other] = True
                out.puts.append((other, "subscribed"))

    def _hand_on(self, sender: str, receiver: str, out: Outbox) -> None:
        """To any of the connections left, as a server walks its map."""
        handing = self.busy[sender]
        out.notes.append(f"{self.name} hands on to {receiver}: {told(handing.message)}")
        handing.waiting.remove(receiver)
        out.puts.append((receiver, handing.message))
        self._finish(sender)

    def _finish(self, sender: str) -> None:
        if not self.busy[sender].waiting:
            del self.busy[sender]

    def _useless(self, receiver: str, envelope: Envelope) -> bool:
        if self.last_epoch is None or receiver != agent_of(self.name):
            return False
        if isinstance(envelope.notice, Switch | Beat):
            return True
        return envelope.trail is not None and envelope.trail.known_epoch >= self.last_epoch


class Handing:
    """A message that is matched and not yet handed on to all of its receivers."""

    __slots__ = ("message", "waiting")

    def __init__(self, message: Envelope, waiting: list[str]) -> None:
        self.message = message
        self.waiting = waiting
