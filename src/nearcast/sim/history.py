"""What happened in one run, in the order it happened: the evidence that `nearcast.sim.check` judges."""

from collections.abc import Iterator
from typing import Any

import msgspec

from nearcast.domain.errors import WireError
from nearcast.domain.report import Discontinuity, Gap

FORMAT = "nearcast.history/1"

# An event is a plain tuple, (kind, time_s, *fields): building an object per event would slow down what is measured.
Event = tuple[Any, ...]

FIELDS: dict[str, tuple[str, ...]] = {
    "publish": ("publisher", "topic", "seq"),
    "published": ("publisher", "topic", "seq"),
    "subscribed": ("subscription", "topic"),
    "unsubscribe": ("subscription",),
    "unsubscribed": ("subscription",),
    "crashed": ("subscription",),
    "delivered": ("subscription", "publisher", "seq"),
    "unsequenced": ("subscription",),
    "gap": ("subscription", "topic", "publisher", "first", "last"),
    "discontinuity": ("subscription", "topic", "broker", "from_s", "to_s"),
    "fault": ("text",),
    "move": ("topic", "epoch", "phase"),
    "home": ("client", "broker"),
    "finished": (),
}


class History:
    """An append-only record of one run.

    Times are seconds on one clock for the whole run, the wall clock that discontinuities are told in. What came before
    what is decided by the order of the calls, not by the times: in virtual time many events share one instant. A
    subscription is named by a number of its own; who subscribes again takes a new one. Sequence numbers are those of
    the protocol, one count per publisher and topic.
    """

    __slots__ = ("_append", "events")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._append = self.events.append

    def __len__(self) -> int:
        return len(self.events)

    def publish_begun(self, time_s: float, publisher: int, topic: str, seq: int) -> None:
        self._append(("publish", time_s, publisher, topic, seq))

    def publish_returned(self, time_s: float, publisher: int, topic: str, seq: int) -> None:
        """From here on the message is owed to those who were subscribed when its publish call began."""
        self._append(("published", time_s, publisher, topic, seq))

    def subscribe_returned(self, time_s: float, subscription: int, topic: str) -> None:
        """From here on the subscription is owed what is published. Deliveries before this are allowed."""
        self._append(("subscribed", time_s, subscription, topic))

    def unsubscribe_begun(self, time_s: float, subscription: int) -> None:
        self._append(("unsubscribe", time_s, subscription))

    def unsubscribe_closed(self, time_s: float, subscription: int) -> None:
        self._append(("unsubscribed", time_s, subscription))

    def crashed(self, time_s: float, subscription: int) -> None:
        """The subscriber's process ended without unsubscribing."""
        self._append(("crashed", time_s, subscription))

    def delivered(self, time_s: float, subscription: int, publisher: int, seq: int) -> None:
        self._append(("delivered", time_s, subscription, publisher, seq))

    def unsequenced_delivered(self, time_s: float, subscription: int) -> None:
        self._append(("unsequenced", time_s, subscription))

    def reported(self, time_s: float, subscription: int, report: Gap | Discontinuity) -> None:
        """The subscription was told that it may have missed something."""
        if isinstance(report, Gap):
            self._append(("gap", time_s, subscription, report.topic, report.publisher, report.first, report.last))
        else:
            self._append(
                ("discontinuity", time_s, subscription, report.topic, report.broker, report.from_s, report.to_s)
            )

    def fault(self, time_s: float, text: str) -> None:
        """A note for the reader of a trace; it excuses nothing."""
        self._append(("fault", time_s, text))

    def moved(self, time_s: float, topic: str, epoch: int, phase: str) -> None:
        """A note for the reader of a trace: a move of `topic` to `epoch` entered `phase`."""
        self._append(("move", time_s, topic, epoch, phase))

    def rehomed(self, time_s: float, client: str, broker: str) -> None:
        """A note for the reader of a trace: the client's home is this broker from now on."""
        self._append(("home", time_s, client, broker))

    def finished(self, time_s: float) -> None:
        """The run is over and has settled: what is not here by now is missing."""
        self._append(("finished", time_s))

    def to_bytes(self) -> bytes:
        """JSON lines, a header and then one event each. Equal histories give equal bytes, in any process."""
        return msgspec.json.Encoder().encode_lines([{"format": FORMAT}, *self.events])

    @classmethod
    def from_bytes(cls, data: bytes) -> "History":
        """The history that `to_bytes` wrote; WireError when `data` is not one."""
        try:
            lines = msgspec.json.Decoder().decode_lines(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise WireError(f"not a history: {error}; expected JSON lines as History.to_bytes writes them") from error
        if not lines or lines[0] != {"format": FORMAT}:
            found = lines[0] if lines else "nothing"
            raise WireError(f"not a history of format {FORMAT}: its first line is {found}")
        history = cls()
        for event in _events(lines[1:]):
            history.events.append(event)
        return history


def _events(lines: list[Any]) -> Iterator[Event]:
    for number, line in enumerate(lines, start=2):
        kind = line[0] if isinstance(line, list) and line else None
        if not isinstance(kind, str) or kind not in FIELDS:
            raise WireError(f"history line {number}: {line!r} is no event; kinds are {', '.join(FIELDS)}")
        if len(line) != 2 + len(FIELDS[kind]):
            expected = ", ".join((kind, "time_s", *FIELDS[kind]))
            raise WireError(f"history line {number}: {line!r} does not have the fields ({expected})")
        yield tuple(line)
