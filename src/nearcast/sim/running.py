"""A history that is judged while it is written: messages are counted and not kept, for runs of millions of them.

For runs without faults: whatever was owed and has not come is lost, also where that was reported.
"""

from collections import deque
from dataclasses import dataclass, field

from nearcast.sim.history import History


@dataclass(slots=True)
class _Publisher:
    """How far its publish calls have come; `lately` is when, as long as it matters to those who leave."""

    topic: str
    begun: int = 0
    returned: int = 0
    lately: deque[tuple[float, int]] = field(default_factory=deque)
    returned_before: int = 0  # what `lately` began with


@dataclass(slots=True)
class _Stream:
    """What came of one publisher to one subscription: all from `first` to `newest` but `holes`, and `earlier` ones."""

    first: int
    newest: int
    holes: set[int] = field(default_factory=set)
    earlier: set[int] = field(default_factory=set)

    def lost(self, owed_from: int, owed_to: int) -> int:
        """How many of the numbers after `owed_from` did not come: up to the newest that did, or to `owed_to`."""
        before = max(0, self.first - 1 - owed_from) - sum(seq > owed_from for seq in self.earlier)
        return before + sum(seq > owed_from for seq in self.holes) + max(0, owed_to - max(self.newest, owed_from))


@dataclass(slots=True)
class _Subscription:
    topic: str | None = None
    owed_from: dict[int, int] = field(default_factory=dict)  # by publisher: what had begun when it subscribed
    owed_to: dict[int, int] | None = None  # what was surely under way when it left; None while it is there
    streams: dict[int, _Stream] = field(default_factory=dict)


class Running(History):
    """Use it as a `History`; `events` has all but publications and deliveries. In the end ask for `counts`.

    They are those of `nearcast.sim.check.check`, with the same `grace_s`. A publisher's publish calls return in their
    order, and it has one topic.
    """

    __slots__ = ("_grace_s", "_publishers", "_subscriptions", "_tally")

    def __init__(self, *, grace_s: float) -> None:
        super().__init__()
        self._grace_s = grace_s
        self._publishers: dict[int, _Publisher] = {}
        self._subscriptions: dict[int, _Subscription] = {}
        self._tally = dict.fromkeys(("published", "delivered", "duplicated", "reordered", "invented"), 0)

    def publish_begun(self, time_s: float, publisher: int, topic: str, seq: int) -> None:  # noqa: ARG002  # as History has it
        known = self._publishers.get(publisher)
        if known is None:
            known = self._publishers[publisher] = _Publisher(topic, seq - 1, seq - 1, returned_before=seq - 1)
        known.begun = seq

    def publish_returned(self, time_s: float, publisher: int, topic: str, seq: int) -> None:  # noqa: ARG002  # as History has it
        known = self._publishers[publisher]
        known.returned = seq
        lately = known.lately
        lately.append((time_s, seq))
        while lately[0][0] < time_s - self._grace_s:
            known.returned_before = lately.popleft()[1]
        self._tally["published"] += 1

    def subscribe_returned(self, time_s: float, subscription: int, topic: str) -> None:
        super().subscribe_returned(time_s, subscription, topic)
        one = self._subscriptions.setdefault(subscription, _Subscription())
        one.topic = topic
        one.owed_from = {number: each.begun for number, each in self._publishers.items() if each.topic == topic}

    def unsubscribe_begun(self, time_s: float, subscription: int) -> None:
        super().unsubscribe_begun(time_s, subscription)
        one = self._subscriptions.setdefault(subscription, _Subscription())
        if one.owed_to is None:
            one.owed_to = {
                number: _returned_by(each, time_s - self._grace_s)
                for number, each in self._publishers.items()
                if each.topic == one.topic
            }

    def crashed(self, time_s: float, subscription: int) -> None:
        raise NotImplementedError("a run with crashes is judged by nearcast.sim.check")

    def delivered(self, time_s: float, subscription: int, publisher: int, seq: int) -> None:  # noqa: ARG002  # as History has it
        tally = self._tally
        tally["delivered"] += 1
        try:
            stream = self._subscriptions[subscription].streams[publisher]
        except KeyError:
            self._first(subscription, publisher, seq)
            return
        if seq == stream.newest + 1:
            stream.newest = seq
        elif seq > stream.newest:
            stream.holes.update(range(stream.newest + 1, seq))
            stream.newest = seq
        elif seq in stream.holes:
            stream.holes.remove(seq)
            tally["reordered"] += 1
        elif seq < stream.first and seq not in stream.earlier:
            stream.earlier.add(seq)
            tally["reordered"] += 1
        else:
            tally["duplicated"] += 1
        if seq > self._begun(publisher):
            tally["invented"] += 1

    def counts(self) -> dict[str, int | float]:
        """What came of it, once the run has settled."""
        lost = sum(self._lost(one) for one in self._subscriptions.values())
        reports = {kind: sum(event[0] == kind for event in self.events) for kind in ("gap", "discontinuity")}
        return {
            **self._tally,
            "lost": lost,
            "gaps": reports["gap"],
            "discontinuities": reports["discontinuity"],
        }

    def _begun(self, publisher: int) -> int:
        known = self._publishers.get(publisher)
        return -1 if known is None else known.begun

    def _first(self, subscription: int, publisher: int, seq: int) -> None:
        one = self._subscriptions.setdefault(subscription, _Subscription())
        one.streams[publisher] = _Stream(seq, seq)
        known = self._publishers.get(publisher)
        if known is None or seq > known.begun or one.topic not in {None, known.topic}:
            self._tally["invented"] += 1

    def _lost(self, one: _Subscription) -> int:
        if one.topic is None:
            return 0
        lost = 0
        for number, publisher in self._publishers.items():
            if publisher.topic != one.topic:
                continue
            owed_from = one.owed_from.get(number, 0)
            owed_to = publisher.returned if one.owed_to is None else one.owed_to.get(number, 0)
            stream = one.streams.get(number)
            lost += max(0, owed_to - owed_from) if stream is None else stream.lost(owed_from, owed_to)
        return lost


def _returned_by(publisher: _Publisher, time_s: float) -> int:
    found = publisher.returned_before
    for returned_s, seq in publisher.lately:
        if returned_s > time_s:
            break
        found = seq
    return found
