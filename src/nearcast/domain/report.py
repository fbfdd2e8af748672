"""What a subscriber is told when it may have missed something. A loss that neither value covers is a bug."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages of one publisher on one topic that will not come, as far as evidence goes.

    Both ends are inclusive. `first` None: everything up to `last` that was not seen. `last` None: the publisher
    vanished, and nobody knows what it sent from `first` on; this holds until a message of that publisher is delivered
    again, from where a further loss is a further gap.
    """

    topic: str
    publisher: int
    first: int | None
    last: int | None

    def covers(self, seq: int) -> bool:
        """Whether the message numbered `seq` lies within this gap."""
        return (self.first is None or self.first <= seq) and (self.last is None or seq <= self.last)


@dataclass(frozen=True, slots=True)
class Discontinuity:
    """A time in which messages on one topic may have been missed, when nobody is left who knows which.

    Wall-clock seconds of the subscriber, both ends inclusive and already widened by the transit bound. `to_s` None:
    still open; once it is over it is reported again, with the same topic, broker and `from_s` and with its end, and
    that report replaces this one.
    """

    topic: str
    broker: str
    from_s: float
    to_s: float | None

    def covers(self, begun_s: float, returned_s: float) -> bool:
        """Whether a publish call that lasted from `begun_s` to `returned_s` may have fallen into this time."""
        return self.from_s <= returned_s and (self.to_s is None or begun_s <= self.to_s)
