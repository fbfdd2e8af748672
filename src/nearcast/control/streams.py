"""Each publisher's messages in its order, each once, and a hole only with a report (rule 6).

A publisher is **known** from the first message that is delivered of it: from then on its numbers must be contiguous,
and whatever is ahead is held. A hole becomes a `Gap` on evidence: at once where the evidence came over the only path
there is, else after `patience_s`, in which another path may still bring what is missing.

A **stranger** is a publisher of which nothing was delivered yet. Where to start is the delicate question: in the
middle of a leg, with the first message seen, because the path keeps order, unless an agent began to forward there on
account of a move that this subscriber has not heard of; at the start of a later leg only when nothing of the leg before
can still be under way: no older epoch is alive, or `END` of that leg has come through every broker that this subscriber
is attached to.

Of a publisher that has been silent for long only the next number is kept: whenever it comes back, with new messages or
with old ones that it sends again, it is no stranger.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from nearcast.control.instructions import Deliver, Instruction, Report
from nearcast.control.rules import Rules
from nearcast.control.timing import Timing
from nearcast.domain.report import Gap
from nearcast.wire.envelope import LOST, Envelope

MOST_PAST = 10_000
"""Publishers that have been silent for long and are remembered, per subscription; beyond, those silent longest go."""


class View(msgspec.Struct, frozen=True, gc=False):
    """What the subscriber knows when a message comes: the circumstances that decide whether it can be delivered."""

    settled: bool  # no barrier is under way and `subscribe()` has returned: strangers may start
    patience_s: float  # how long a stranger whose start is in doubt may wait
    epoch: int  # of the route that it knows
    floor: int  # the oldest epoch alive; legs of older ones are over
    through: tuple[str, ...]  # the brokers that an END must have come through
    alone: bool  # it came from the one broker, no transition: a jump on the direct path is proof


class Stream:
    __slots__ = ("ended", "heard_s", "held", "missed", "next", "top", "waiting_s")

    def __init__(self, start: int, now: float) -> None:
        self.next = start
        self.held: dict[int, Envelope] = {}
        self.top = start - 1  # the highest number the publisher is known to have used
        self.waiting_s = math.inf  # since when there is evidence of a hole
        self.heard_s = now
        self.ended = 0  # the last number of a leg that is over
        self.missed = False  # nothing was heard of it for long, or its agent missed it, and that was reported


class Stranger:
    __slots__ = ("ended", "held", "held_s", "low", "since_s", "top")

    def __init__(self, now: float) -> None:
        self.held: dict[int, Envelope] = {}
        self.held_s = now  # since when something of it is held
        self.top = 0  # the highest number that a mark of it has shown
        self.low = 1  # what is before this has been delivered, or never was
        self.ended: dict[str, list[tuple[int, int]]] = {}  # broker -> legs whose END came through it: first, last
        self.since_s = now

    @property
    def over(self) -> int:
        """The last number of a leg that is over, as `Stream.ended`."""
        return max((last for legs in self.ended.values() for _, last in legs), default=0)


class Streams:
    __slots__ = ("_opened", "_topic", "known", "past", "rules", "slack_s", "strangers", "timing")

    def __init__(self, topic: str, timing: Timing, rules: Rules) -> None:
        self._topic = topic
        self.timing = timing
        self.rules = rules
        self.known: dict[int, Stream] = {}
        self.strangers: dict[int, Stranger] = {}
        self.past: dict[int, int] = {}  # publisher that was silent for long -> its next number
        self.slack_s = 0.0  # for how long messages may be at a processor: so much more patience is needed
        self._opened = False  # whether `subscribe()` has returned

    def passes(self, envelope: Envelope, now: float) -> bool:
        """The common case, kept short: what comes next, with nothing held and no hole open. It is to be given."""
        stream = self.known.get(envelope.publisher)
        seq = envelope.seq
        if stream is None or seq != stream.next or stream.top >= seq:
            return False
        stream.next = seq + 1
        stream.top = seq
        stream.heard_s = now
        stream.missed = False
        return True

    def data(self, envelope: Envelope, view: View, now: float) -> list[Instruction]:
        if self.passes(envelope, now):
            return self._given(envelope)
        stream = self._known(envelope.publisher, now)
        if stream is None:
            return self._from_stranger(envelope, view, now)
        stream.heard_s = now
        stream.missed = False
        seq = envelope.seq
        if not self.rules.legs:
            return self._unordered(stream, envelope)
        if seq < stream.next or seq in stream.held:
            return []
        stream.held[seq] = envelope
        stream.top = max(stream.top, seq)
        proven = seq - 1 if view.alone and _direct(envelope, stream) else 0
        return self._advance(envelope.publisher, stream, proven, now)

    def mark(self, envelope: Envelope, via: str, view: View, now: float, *, ends: bool) -> list[Instruction]:
        """A high-water mark or an END: evidence of what was sent, and for strangers of what is over."""
        if not self.rules.legs:
            return []
        stream = self._known(envelope.publisher, now)
        if stream is not None:
            stream.heard_s = now
            stream.missed = False
            stream.top = max(stream.top, envelope.seq)
            stream.ended = max(stream.ended, envelope.seq) if ends else stream.ended
            proven = envelope.seq if view.alone and _direct(envelope, stream) else 0
            return self._advance(envelope.publisher, stream, proven, now)
        stranger = self.strangers.get(envelope.publisher)
        if stranger is not None:
            stranger.top = max(stranger.top, envelope.seq)
        if ends:
            return self.ended(envelope.publisher, (envelope.first, envelope.seq), via, view, now)
        # Of a stranger, only the mark that came the way its messages come shows that they are past.
        passed = envelope.trail is None and envelope.seq >= envelope.first
        if view.settled and passed and (stranger is None or not stranger.held):
            stranger = self.strangers.pop(envelope.publisher, None) or Stranger(now)
            self.known[envelope.publisher] = stream = Stream(max(stranger.low, envelope.seq + 1), now)
            stream.ended = stranger.over  # another way was faster than the one that this mark came
        return []

    def ended(self, publisher: int, leg: tuple[int, int], via: str, view: View, now: float) -> list[Instruction]:
        """The publisher's leg, from its first number to its last, has passed through `via`."""
        if publisher in self.past or not self.rules.legs:
            return []
        stream = self.known.get(publisher)
        if stream is not None:
            stream.ended = max(stream.ended, leg[1])
            return []
        stranger = self.strangers.setdefault(publisher, Stranger(now))
        legs = stranger.ended.setdefault(via, [])
        if leg not in legs:
            legs.append(leg)
        return self._try_start(publisher, stranger, view, now)

    def gone(self, publisher: int) -> list[Instruction]:
        """The publisher vanished: what it sent last may never come."""
        stream = self.known.get(publisher)
        if stream is None:
            return [Report(Gap(self._topic, publisher, self.past.get(publisher), None))]
        if stream.missed:
            return []
        stream.missed = True
        return [Report(Gap(self._topic, publisher, stream.next, None))]

    @property
    def _missed_when_silent(self) -> bool:
        """Within a leg publishers announce themselves before every lease is out: one that vanished is missed here too.

        Its agent misses it as well, but may have died after it, and another knows nothing of it.
        """
        return self._opened and self.rules.legs and self.timing.idle_s < self.timing.lease_s

    def open(self, now: float) -> list[Instruction]:
        """`subscribe()` returns: what was sent before is owed to nobody, so holes in it are no gaps.

        Everything known so far was sent before: each publisher goes on with the last unbroken run of it.
        """
        self._opened = True
        out: list[Instruction] = []
        for publisher, stream in list(self.known.items()):
            if stream.top >= stream.next:
                stream.next = _last_run(stream.held, stream.top)
                stream.held = {seq: each for seq, each in stream.held.items() if seq >= stream.next}
                out += self._drain(stream)
            # What it has sent since, elsewhere, is not owed either: where it goes on is decided anew.
            del self.known[publisher]
            self.strangers[publisher] = stranger = Stranger(now)
            stranger.low = stream.next
        for publisher, stranger in list(self.strangers.items()):
            if stranger.held:
                start = _last_run(stranger.held, max(stranger.top, *stranger.held))
                stranger.held = {seq: each for seq, each in stranger.held.items() if seq >= start}
                out += self._start(publisher, stranger, start, now)
        return out

    def close(self, view: View, now: float) -> list[Instruction]:
        """The subscriber leaves: who has waited long is let in, with a report if its start is in doubt."""
        out: list[Instruction] = []
        for publisher, stranger in list(self.strangers.items()):
            if self._opened and stranger.held and now >= stranger.held_s + self.timing.patience_s:
                out += self._start_at_last(publisher, stranger, view, now)
        return out

    def postpone(self, now: float) -> None:
        """A new move begins: patience with strangers counts from here, however often that happens."""
        for stranger in self.strangers.values():
            stranger.since_s = now

    def settle(self, view: View, now: float, *, afresh: bool = False) -> list[Instruction]:
        """The circumstances changed: strangers that waited for it may start."""
        out: list[Instruction] = []
        for publisher, stranger in list(self.strangers.items()):
            if afresh:
                stranger.since_s = now
            out += self._try_start(publisher, stranger, view, now)
        return out

    def wake_s(self, stranger_patience_s: float) -> float:
        waiting = self.known.values() if self._opened else ()
        hole_s = min((stream.waiting_s for stream in waiting), default=math.inf)
        stranger_s = min((each.since_s for each in self.strangers.values() if each.held), default=math.inf)
        return min(hole_s + self.timing.patience_s + self.slack_s, stranger_s + stranger_patience_s)

    def tick(self, view: View, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        slack_s = self.slack_s
        for publisher, stream in list(self.known.items()):
            if self._opened and now >= stream.waiting_s + self.timing.patience_s + slack_s:
                out += self._give_up(publisher, stream, stream.top, now)
            elif now >= stream.heard_s + self.timing.forget_s and not stream.held:
                self._put_away(publisher)
            elif (
                now >= stream.heard_s + self.timing.lease_s + slack_s
                and stream.ended != stream.top  # in the middle of a leg, or the end of one did not come
                and self._missed_when_silent
            ):
                out += self.gone(publisher)
        for publisher, stranger in list(self.strangers.items()):
            if stranger.held and now >= stranger.since_s + view.patience_s:
                out += self._start_at_last(publisher, stranger, view, now)
            elif not stranger.held and now >= stranger.since_s + self.timing.forget_s:
                del self.strangers[publisher]
        return out

    def _put_away(self, publisher: int) -> None:
        """What it sent last may come once more, however late: it sends again what was not confirmed."""
        self.past[publisher] = self.known.pop(publisher).next
        if len(self.past) > MOST_PAST:
            del self.past[next(iter(self.past))]

    def _known(self, publisher: int, now: float) -> Stream | None:
        stream = self.known.get(publisher)
        if stream is None and publisher in self.past:
            self.known[publisher] = stream = Stream(self.past.pop(publisher), now)
        return stream

    # Strangers

    def _from_stranger(self, envelope: Envelope, view: View, now: float) -> list[Instruction]:
        if not self.rules.legs:
            self.known[envelope.publisher] = stream = Stream(-1, now)
            return self._unordered(stream, envelope)
        stranger = self.strangers.setdefault(envelope.publisher, Stranger(now))
        if envelope.seq < stranger.low:
            return []
        if not stranger.held:
            stranger.since_s = stranger.held_s = now
        before = stranger.held.get(envelope.seq)
        if before is None or (before.trail is not None and envelope.trail is None):  # the direct copy says more
            stranger.held[envelope.seq] = envelope
        return self._try_start(envelope.publisher, stranger, view, now)

    def _try_start(self, publisher: int, stranger: Stranger, view: View, now: float) -> list[Instruction]:
        if not stranger.held:
            return []
        start = stranger.held[min(stranger.held)]
        if start.seq == stranger.low or (view.settled and self._may_start(start, stranger, view)):
            return self._start(publisher, stranger, start.seq, now)  # before `low` nothing can come, whatever is moving
        return []

    def _may_start(self, start: Envelope, stranger: Stranger, view: View) -> bool:
        if start.seq > start.first:
            return start.trail is None or start.trail.known_epoch <= view.epoch
        return self._leg_before_is_over(start, stranger, view)

    @staticmethod
    def _leg_before_is_over(start: Envelope, stranger: Stranger, view: View) -> bool:
        if view.floor > start.before:
            return True
        before = start.seq - 1  # a later leg that is over says nothing of it: it may have gone another way, and faster
        return all(
            any(first <= before <= last for first, last in stranger.ended.get(broker, ())) for broker in view.through
        )

    def _start_at_last(self, publisher: int, stranger: Stranger, view: View, now: float) -> list[Instruction]:
        """Its time is up. Only a move that has not ended yet may have kept it waiting: then nothing is missing."""
        first = stranger.held[min(stranger.held)]
        started = self._start(publisher, stranger, first.seq, now)
        if first.seq == first.first and view.through and self._leg_before_is_over(first, stranger, view):
            return started
        return [Report(Gap(self._topic, publisher, None, first.seq - 1)), *started]

    def _start(self, publisher: int, stranger: Stranger, start: int, now: float) -> list[Instruction]:
        del self.strangers[publisher]
        self.known[publisher] = stream = Stream(start, now)
        stream.held = stranger.held
        stream.top = max(stranger.held, default=start - 1)
        stream.ended = stranger.over
        return self._advance(publisher, stream, 0, now)

    # Known streams

    def _advance(self, publisher: int, stream: Stream, proven: int, now: float) -> list[Instruction]:
        """Delivers what is in order; up to the number `proven` what is missing will not come any more."""
        out = self._drain(stream)
        if stream.next <= proven:
            out += self._give_up(publisher, stream, proven, now)
        elif stream.top < stream.next:
            stream.waiting_s = math.inf
        elif out or stream.waiting_s == math.inf:
            stream.waiting_s = now
        return out

    def _give_up(self, publisher: int, stream: Stream, last: int, now: float) -> list[Instruction]:
        """Reports the hole in front, at most up to `last`, and goes on behind it."""
        first = stream.next
        stream.next = min(min(stream.held, default=last + 1), last + 1)
        out: list[Instruction] = [Report(Gap(self._topic, publisher, first, stream.next - 1))]
        out += self._drain(stream)
        stream.waiting_s = math.inf if stream.top < stream.next else now
        return out

    def _drain(self, stream: Stream) -> list[Instruction]:
        out: list[Instruction] = []
        while (envelope := stream.held.pop(stream.next, None)) is not None:
            out += self._given(envelope)
            stream.next += 1
        return out

    def _given(self, envelope: Envelope) -> list[Instruction]:
        """To the application: the message, or that it was left out where it should have been processed."""
        if not envelope.flags & LOST:
            return [Deliver(envelope)]
        gap = Gap(self._topic, envelope.publisher, envelope.seq, envelope.seq)
        return [Report(gap)] if self._opened else []

    @staticmethod
    def _unordered(stream: Stream, envelope: Envelope) -> list[Instruction]:
        """Rule 6 off: repeats are removed by number, order is as it comes."""
        if envelope.seq in stream.held:
            return []
        stream.held[envelope.seq] = envelope
        return [Deliver(envelope)]


def _direct(envelope: Envelope, stream: Stream) -> bool:
    """Whether what is missing was sent on this very leg, which came here without an agent in between."""
    return envelope.trail is None and envelope.first <= stream.next


def _last_run(held: Collection[int], top: int) -> int:
    """Where the unbroken run that ends with `top` begins; behind `top` when that itself is missing."""
    start = top + 1
    while start - 1 in held:
        start -= 1
    return start
