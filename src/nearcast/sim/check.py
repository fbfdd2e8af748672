"""Judges a history: was every message that was owed delivered once, in its publisher's order, or its loss told?

Owed to a subscription is a message whose publish call began after subscribe() had returned, and itself returned. A
publish call that never returned (its process died in it) owes nothing: its message may arrive or not.

A subscription that leaves, or whose process crashes, is not owed what was then still on its way: the messages whose
publish call returned in the last `grace_s` before, or later, may be missing, but only the last ones of each publisher.
A subscription still there when the run finished is owed everything.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from typing import NamedTuple

from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.history import History


class Finding(NamedTuple):
    """One message, seen from one subscription."""

    subscription: int
    publisher: int
    seq: int


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What `check` found. Lists are sorted by subscription, publisher and number; a repeat is listed each time.

    `longest_pause_s` is the longest time in which a subscription received nothing although a message for it had been
    published; one that never came counts until the next one that did.
    """

    published: int
    delivered: int
    unsequenced: int
    lost: tuple[Finding, ...]
    covered: tuple[Finding, ...]
    duplicated: tuple[Finding, ...]
    reordered: tuple[Finding, ...]
    invented: tuple[Finding, ...]
    gaps: int
    discontinuities: int
    longest_pause_s: float

    @property
    def honest(self) -> bool:
        """Nothing lost without a word, nothing twice, nothing out of order, nothing that nobody published."""
        return not (self.lost or self.duplicated or self.reordered or self.invented)

    @property
    def clean(self) -> bool:
        """Honest, and nothing was reported missing: what a run without faults must be."""
        return self.honest and not (self.covered or self.gaps or self.discontinuities)

    def counts(self) -> dict[str, int | float]:
        """The same as numbers, for a result's metrics."""
        return {
            "published": self.published,
            "delivered": self.delivered,
            "unsequenced": self.unsequenced,
            "lost": len(self.lost),
            "covered": len(self.covered),
            "duplicated": len(self.duplicated),
            "reordered": len(self.reordered),
            "invented": len(self.invented),
            "gaps": self.gaps,
            "discontinuities": self.discontinuities,
            "longest_pause_s": self.longest_pause_s,
        }


def check(history: History, *, grace_s: float) -> CheckResult:
    """Judges a finished history; ValueError when the record itself contradicts itself or has no end.

    A missing message is covered when it lies within a gap that was reported to that subscription, or when its publish
    call and a discontinuity that was reported to it overlap. What was recorded after `finished` is not looked at.
    """
    index = _Index.of(history)
    judged = [_judge(number, index.subscriptions[number], index, grace_s) for number in sorted(index.subscriptions)]
    return CheckResult(
        published=len(index.returned_s),
        delivered=sum(len(one.deliveries) for one in index.subscriptions.values()),
        unsequenced=index.unsequenced,
        lost=tuple(finding for one in judged for finding in sorted(one.lost)),
        covered=tuple(finding for one in judged for finding in sorted(one.covered)),
        duplicated=tuple(finding for one in judged for finding in sorted(one.duplicated)),
        reordered=tuple(finding for one in judged for finding in sorted(one.reordered)),
        invented=tuple(finding for one in judged for finding in sorted(one.invented)),
        gaps=sum(len(gaps) for one in index.subscriptions.values() for gaps in one.gaps.values()),
        discontinuities=sum(len(one.discontinuities) for one in index.subscriptions.values()),
        longest_pause_s=max((one.longest_pause_s for one in judged), default=0.0),
    )


class _Message(NamedTuple):
    topic: str
    publisher: int
    seq: int


@dataclass(slots=True)
class _Subscription:
    """What the record says of one subscription. `topic` is None when its subscribe() never returned."""

    topic: str | None = None
    owed_from: int = 0  # how many publish calls on the topic had begun when subscribe() returned
    subscribed_s: float = inf
    left_s: float | None = None
    deliveries: list[tuple[float, int, int]] = field(default_factory=list)  # time, publisher, number
    gaps: dict[int, list[Gap]] = field(default_factory=dict)  # by publisher
    discontinuities: dict[tuple[str, str, float], Discontinuity] = field(default_factory=dict)

    def end_open_gaps(self, publisher: int, seq: int) -> None:
        """A publisher that was thought to have vanished is back with `seq`: later losses need a report of their own."""
        gaps = self.gaps[publisher]
        for position, gap in enumerate(gaps):
            if gap.last is None and (gap.first is None or gap.first <= seq):
                gaps[position] = replace(gap, last=seq - 1)


@dataclass(slots=True)
class _Index:
    """The record, sorted by who it concerns."""

    begun_s: dict[_Message, float] = field(default_factory=dict)
    returned_s: dict[_Message, float] = field(default_factory=dict)
    by_topic: dict[str, list[_Message]] = field(default_factory=dict)  # in the order in which publish calls began
    subscriptions: dict[int, _Subscription] = field(default_factory=dict)
    unsequenced: int = 0

    @classmethod
    def of(cls, history: History) -> "_Index":
        index = cls()
        subscriptions = index.subscriptions
        for event in history.events:
            kind = event[0]
            if kind == "delivered":
                _, time_s, number, publisher, seq = event
                one = subscriptions.get(number) or subscriptions.setdefault(number, _Subscription())
                one.deliveries.append((time_s, publisher, seq))
                if publisher in one.gaps:
                    one.end_open_gaps(publisher, seq)
            elif kind in {"publish", "published"}:
                index.add_publish(kind, event[1], _Message(event[3], event[2], event[4]))
            elif kind == "finished":
                return index
            elif kind == "unsequenced":
                index.unsequenced += 1
            elif kind not in {"fault", "move", "home", "unsubscribed"}:
                index.add_change(kind, event[1], event[2], *event[3:])
        raise ValueError("the history has no end: call finished() once the run has settled, then check it")

    def add_publish(self, kind: str, time_s: float, message: _Message) -> None:
        if kind == "publish":
            if message in self.begun_s:
                raise ValueError(f"{message} is published twice in the history: a number is used once")
            self.begun_s[message] = time_s
            self.by_topic.setdefault(message.topic, []).append(message)
        else:
            if message not in self.begun_s or message in self.returned_s:
                raise ValueError(f"{message}: a publish call returned that had not begun, or twice")
            self.returned_s[message] = time_s

    def add_change(self, kind: str, time_s: float, number: int, *fields: object) -> None:
        one = self.subscriptions.setdefault(number, _Subscription())
        match kind, fields:
            case "subscribed", (str(topic),):
                if one.topic is not None:
                    raise ValueError(f"subscription {number} subscribes twice in the history: take a new number")
                one.topic, one.subscribed_s = topic, time_s
                one.owed_from = len(self.by_topic.get(topic, ()))
            case (("unsubscribe" | "crashed"), ()):
                one.left_s = time_s if one.left_s is None else one.left_s
            case "gap", (str(topic), int(publisher), (int() | None) as first, (int() | None) as last):
                one.gaps.setdefault(publisher, []).append(Gap(topic, publisher, first, last))
            case "discontinuity", (str(topic), str(broker), (int() | float()) as from_s, to_s):
                assert to_s is None or isinstance(to_s, int | float)
                one.discontinuities[topic, broker, from_s] = Discontinuity(topic, broker, from_s, to_s)
            case _:
                raise ValueError(f"{(kind, time_s, number, *fields)} is no event of a history")


@dataclass(slots=True)
class _Judged:
    lost: list[Finding] = field(default_factory=list)
    covered: list[Finding] = field(default_factory=list)
    duplicated: list[Finding] = field(default_factory=list)
    reordered: list[Finding] = field(default_factory=list)
    invented: list[Finding] = field(default_factory=list)
    longest_pause_s: float = 0.0


def _judge(number: int, one: _Subscription, index: _Index, grace_s: float) -> _Judged:
    judged = _Judged()
    seen: dict[int, set[int]] = {}
    newest: dict[int, int] = {}
    arrivals: list[tuple[float, float]] = []  # first deliveries: time, and when its publish call began
    for time_s, publisher, seq in one.deliveries:
        numbers = seen.setdefault(publisher, set())
        if seq in numbers:
            judged.duplicated.append(Finding(number, publisher, seq))
            continue
        numbers.add(seq)
        if seq < newest.setdefault(publisher, seq):
            judged.reordered.append(Finding(number, publisher, seq))
        else:
            newest[publisher] = seq
        if one.topic is not None:
            begun_s = index.begun_s.get(_Message(one.topic, publisher, seq))
            if begun_s is None:
                judged.invented.append(Finding(number, publisher, seq))
            else:
                arrivals.append((time_s, begun_s))

    missing_since: list[float] = []
    for message in _missing(one, index, seen, newest, grace_s):
        finding = Finding(number, message.publisher, message.seq)
        (judged.covered if _covered(one, index, message) else judged.lost).append(finding)
        missing_since.append(index.begun_s[message])
    judged.longest_pause_s = _longest_pause_s(one.subscribed_s, arrivals, missing_since)
    return judged


def _missing(
    one: _Subscription, index: _Index, seen: dict[int, set[int]], newest: dict[int, int], grace_s: float
) -> Iterator[_Message]:
    """What was owed and has not come."""
    if one.topic is None:
        return
    nothing: set[int] = set()
    excused_after_s = inf if one.left_s is None else one.left_s - grace_s
    for message in islice(index.by_topic.get(one.topic, ()), one.owed_from, None):
        if message.seq in seen.get(message.publisher, nothing):
            continue
        returned_s = index.returned_s.get(message)
        if returned_s is None:
            continue
        if returned_s > excused_after_s and message.seq > newest.get(message.publisher, -1):
            continue
        yield message


def _covered(one: _Subscription, index: _Index, message: _Message) -> bool:
    if any(gap.topic == message.topic and gap.covers(message.seq) for gap in one.gaps.get(message.publisher, ())):
        return True
    begun_s, returned_s = index.begun_s[message], index.returned_s[message]
    return any(
        told.topic == message.topic and told.covers(begun_s, returned_s) for told in one.discontinuities.values()
    )


def _longest_pause_s(subscribed_s: float, arrivals: list[tuple[float, float]], missing_since: list[float]) -> float:
    longest_s = 0.0
    waiting_since_s = inf
    for position in range(len(arrivals) - 1, -1, -1):
        time_s, begun_s = arrivals[position]
        # From the back, so that the oldest of all that had not come yet is at hand.
        waiting_since_s = min(waiting_since_s, begun_s)
        before_s = arrivals[position - 1][0] if position else subscribed_s
        longest_s = max(longest_s, time_s - max(before_s, waiting_since_s, subscribed_s))
    times_s = [time_s for time_s, _ in arrivals]
    for begun_s in missing_since:
        following = bisect_right(times_s, begun_s)
        if following < len(times_s):
            longest_s = max(longest_s, times_s[following] - begun_s)
    return longest_s
