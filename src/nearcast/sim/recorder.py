"""Writes down what the clients of one run do and get, on real servers as in virtual time."""

from collections.abc import Callable

from nearcast.client import Client, Subscription
from nearcast.domain.errors import LeaseLost, LinkClosed
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.history import History

Report = Gap | Discontinuity


class Recorder:
    """`now` is the clock of the history. Subscriptions are numbered from `first` on."""

    def __init__(self, history: History, now: Callable[[], float], *, first: int = 1) -> None:
        self.history = history
        self._now = now
        self._next = first

    async def publish(self, client: Client, topic: str, payload: bytes, *, timeout_s: float = 60.0) -> None:
        """Publishes and records it; a message given up before it had a route was never published."""
        publisher = client.publication(topic).machine.id

        def begun(seq: int) -> None:
            self.history.publish_begun(self._now(), publisher, topic, seq)

        try:
            seq = await client.publish(topic, payload, timeout_s=timeout_s, begun=begun)
        except (LeaseLost, LinkClosed):
            return
        self.history.publish_returned(self._now(), publisher, topic, seq)

    async def subscribe(
        self,
        client: Client,
        topic: str,
        in_run_time: Callable[[Report], Report] = lambda report: report,
        *,
        also: Callable[[int, Message], None] | None = None,
        also_report: Callable[[Report], None] | None = None,
    ) -> tuple[int, Subscription] | None:
        """The subscription and its number in the history; None when the client was closed before it was subscribed.

        `in_run_time` translates reports from the subscriber's clock to the history's. `also` is told of every message
        after it was written down, with the subscription's number, and `also_report` of every report.
        """
        number, self._next = self._next, self._next + 1
        history, now = self.history, self._now

        def delivered(message: Message) -> None:
            if message.sequenced:
                history.delivered(now(), number, message.publisher, message.seq)
            else:
                history.unsequenced_delivered(now(), number)
            if also is not None:
                also(number, message)

        def reported(what: Report) -> None:
            history.reported(now(), number, in_run_time(what))
            if also_report is not None:
                also_report(what)

        try:
            subscription = await client.subscribe(topic, delivered, on_report=reported)
        except LinkClosed:
            return None
        history.subscribe_returned(now(), number, topic)
        return number, subscription
