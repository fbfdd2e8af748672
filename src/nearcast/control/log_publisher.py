"""One publisher of one persistent topic: what waits, what is under way, and what is known to be written.

One record is under way at a time; what is published meanwhile goes into the next one, so that a write to disk serves
many messages. A record names the publisher's record before it, and is appended only behind that one. What became of a
record whose acknowledgement was lost is found out by appending it again: either it was not there, or it is in the way.

Rule 7 decides what an acknowledgement means. A segment is sealed only when nobody holds a lease on its epoch, so one
that comes while ours holds is good. One that comes later counts when a later word confirms the same epoch; when the
topic has moved meanwhile, the record may stand behind the seal, where nobody reads. Then, and when the old segment
cannot be asked any more, its messages are appended to the next segment too, with a mark of doubt; readers remove
repeats.

Not promised: that a message of which `confirmed` was not told is in the log, or that it is not.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from nearcast.control.instructions import Instruction
from nearcast.control.log_route import LogRoute
from nearcast.wire.control import Welcome
from nearcast.wire.record import MOST_RECORD_BYTES, LogMessage, Record

MOST_MESSAGES = 4096  # in one record


class Write(msgspec.Struct, frozen=True):
    """Append this record to the segment of `epoch` at `broker`, behind record `after` of this publisher."""

    epoch: int
    broker: str
    after: int
    record: Record


class LogPublisher:
    __slots__ = (
        "_after",
        "_before",
        "_doubt",
        "_epoch",
        "_held_s",
        "_late",
        "_seq",
        "_under_way",
        "_waiting",
        "confirmed",
        "route",
    )

    def __init__(self, route: LogRoute, last: int = 0, before: tuple[int, int] = (0, 0)) -> None:
        """`last` and `before`: the message and (epoch, number) of the record up to which a publisher of this id, which
        is no more, has written.
        """
        self.route = route
        self.confirmed = last  # every message up to this number is in the log
        self._seq = last
        self._waiting: deque[LogMessage] = deque()  # not confirmed, and not in the record that is under way
        self._under_way: Write | None = None
        self._epoch = route.epoch  # of the segment that is written to
        self._after = before[1] if before[0] == route.epoch else 0  # our newest record in it
        self._before = before  # our newest record that counts, wherever it is
        self._doubt: int | None = None  # since this epoch the first messages that wait may be in the log already
        self._late: tuple[Write, int, float] | None = None  # acknowledged at that time, without a lease
        self._held_s = math.inf  # until when the epoch is surely not sealed, once the route has another

    @property
    def id(self) -> int:
        return self.route.publisher

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.route.broker,)

    @property
    def unconfirmed(self) -> int:
        return self._seq - self.confirmed

    @property
    def last(self) -> int:
        return self._seq

    def publish(self, payload: bytes, sent_ns: int) -> int:
        """The message's number. It is confirmed when `confirmed` has reached it."""
        self._seq += 1
        self._waiting.append(LogMessage(self._seq, sent_ns, payload))
        return self._seq

    def write(self, now: float) -> Write | None:
        """What to append now, if anything. Exactly one of `written`, `in_the_way` and `failed` follows."""
        if self._under_way is not None or self._late is not None:
            return None
        if self._epoch != self.route.epoch:
            self._epoch, self._after, self._held_s = self.route.epoch, 0, math.inf
        if not self._waiting or now >= self.route.held_until_s():
            return None
        self._under_way = Write(self._epoch, self.route.broker, self._after, self._next_record())
        return self._under_way

    def written(self, at: int, now: float) -> None:
        """The quorum has written the record, as this number."""
        write = self._taken()
        if now < self._held_until_s():
            self._count(write, at)
        elif self._epoch == self.route.epoch:
            self._late = write, at, now
        else:
            self._again(write)

    def in_the_way(self, at: int, record: Record | None, now: float) -> None:
        """Our newest record there is not `after`, but this one, as this number; 0 and None: there is none any more.

        Nobody else writes there. A newer one is what was under way before, of which the acknowledgement was lost; when
        there is only an older one, retention has removed the one we took for the newest.
        """
        write = self._taken()
        if record is None or at <= write.after:
            self._after = at
            self._again(write)
            return
        stored = tuple(message for message in write.record.messages if message.seq <= record.last)
        self._waiting.extendleft(reversed(write.record.messages[len(stored) :]))
        if stored:
            self._under_way = msgspec.structs.replace(write, record=Record(stored))
            self.written(at, now)
        else:
            self._after = at

    def failed(self) -> None:
        """It is not known whether it was written: it is tried again, where the topic is then."""
        self._again(self._taken())

    def welcome(self, message: Welcome, now: float) -> list[Instruction]:
        held_s = self.route.held_until_s()
        moved = self.route.welcome(message)
        if moved and self._epoch != self.route.epoch:
            self._held_s = min(self._held_s, held_s)
        if self._late is not None:
            write, at, acknowledged_s = self._late
            if self._epoch != self.route.epoch:
                self._late = None
                self._again(write)
            elif self.route.confirmed_since(acknowledged_s):
                self._late = None
                self._count(write, at)
        return self.route.moved(now) if moved else []

    def _held_until_s(self) -> float:
        return self.route.held_until_s() if self._epoch == self.route.epoch else self._held_s

    def _next_record(self) -> Record:
        """As many as fit. Within one segment there is no doubt: what is there already is in the way."""
        messages: list[LogMessage] = []
        size_bytes = 0
        while self._waiting and len(messages) < MOST_MESSAGES:
            size_bytes += self._waiting[0].size_bytes
            if messages and size_bytes > MOST_RECORD_BYTES:
                break
            messages.append(self._waiting.popleft())
        return Record(tuple(messages), self._before, self._doubt not in {None, self._epoch})

    def _taken(self) -> Write:
        write, self._under_way = self._under_way, None
        assert write is not None
        return write

    def _count(self, write: Write, at: int) -> None:
        self.confirmed = write.record.last
        self._before = write.epoch, at
        self._after = at
        self._doubt = None

    def _again(self, write: Write) -> None:
        self._waiting.extendleft(reversed(write.record.messages))
        if self._doubt is None:
            self._doubt = write.epoch
