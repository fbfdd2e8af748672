"""What moves cost one agent: messages it carried elsewhere, notices it sent, and how long its broker took to empty.

Counted while it happens and looked at by nobody here: the figures go out with the agent's report.
"""

from __future__ import annotations

from collections.abc import Iterable

from nearcast.domain.load import Handover

_MOST_LEFT = 100


class Counted:
    """Of one topic. `told_s`: since when clients are told to leave this broker; None: they are not, or have left."""

    __slots__ = ("emptied_s", "forwarded", "forwarded_bytes", "notices", "told_s")

    def __init__(self) -> None:
        self.forwarded = 0
        self.forwarded_bytes = 0
        self.notices = 0
        self.told_s: float | None = None
        self.emptied_s: float | None = None

    def told(self, now: float, *, leaves: bool) -> None:
        """`leaves`: the route that clients are told of does not have this broker any more."""
        if not leaves:
            self.told_s = None
        elif self.told_s is None:
            self.told_s, self.emptied_s = now, None

    def emptied(self, now: float) -> None:
        if self.told_s is not None:
            self.emptied_s = now - self.told_s
            self.told_s = None

    def of(self, topic: str) -> Handover | None:
        """None where there is nothing to tell."""
        if not (self.forwarded or self.notices or self.emptied_s is not None):
            return None
        return Handover(topic, self.forwarded, self.forwarded_bytes, self.notices, self.emptied_s)


class Handovers:
    """Of topics that an agent has forgotten: the latest one by one, and all of them together."""

    __slots__ = ("_gone", "_left")

    def __init__(self) -> None:
        self._left: dict[str, Counted] = {}
        self._gone = Handover("")

    def keep(self, topic: str, counted: Counted) -> None:
        """The topic is forgotten, and what was counted of it is not."""
        if counted.of(topic) is not None:
            self._left[topic] = counted
        if len(self._left) > _MOST_LEFT:
            oldest = next(iter(self._left))
            self._gone = summed((self._gone, self._left.pop(oldest).of(oldest)))

    def take_up(self, topic: str) -> Counted:
        """It is known again: it is counted on."""
        return self._left.pop(topic, None) or Counted()

    def told(self, known: Iterable[tuple[str, Counted]]) -> tuple[Handover, tuple[Handover, ...]]:
        """All together, and topic by topic, those that cost most first; `known` are those not forgotten."""
        each = [handover for topic, counted in (*known, *self._left.items()) if (handover := counted.of(topic))]
        each.sort(key=lambda handover: (-handover.forwarded, -handover.notices, handover.topic))
        return summed((self._gone, *each)), tuple(each)


def summed(handovers: Iterable[Handover | None]) -> Handover:
    """Under no topic's name; of the times until a broker was empty, the longest."""
    found = [each for each in handovers if each is not None]
    return Handover(
        "",
        sum(each.forwarded for each in found),
        sum(each.forwarded_bytes for each in found),
        sum(each.notices for each in found),
        max((each.emptied_s for each in found if each.emptied_s is not None), default=None),
    )
