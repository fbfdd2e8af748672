"""One reader of one persistent topic: which segments it reads, what it delivers, and how far it is.

Sealed segments are read one after the other. The segments that are not sealed yet, which are more than one while a
topic moves, are read side by side, so that nobody waits for the seal; each publisher's order is kept, because a record
names the publisher's record before it, and is not taken before that has been read. Repeats are known by their numbers.

A jump in the numbers of a segment's records, or a segment that is not there any more, means that retention was faster
than the reader: it is told. Not promised: an order between publishers.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from nearcast.domain.log import Position, Segment, TopicLog
from nearcast.domain.report import Discontinuity, Gap
from nearcast.wire.record import LogMessage, Record

_MOST_PUBLISHERS = 65_536  # whose last number is remembered
_UNREAD = 1  # the first record of a segment


class Waits(msgspec.Struct, frozen=True):
    """The record's turn comes when record `seq` of the segment of `epoch` has been read."""

    epoch: int
    seq: int


class Look(msgspec.Struct, frozen=True):
    """Find the newest record of the publisher in each of these epochs' segments, and call `learnt`."""

    publisher: int
    epochs: tuple[int, ...]


class LogReader:
    __slots__ = ("_ahead", "_at", "_begin", "_done", "_last", "_last_s", "_looked", "floor", "log", "topic")

    def __init__(self, topic: str, start: Position | None = None) -> None:
        """From `start`, or else from the oldest message that there is."""
        self.topic = topic
        self.log: TopicLog | None = None
        self.floor = start.floor if start is not None else 0
        self._at: dict[int, tuple[int, int]] = {}  # epoch -> the record that is next, and what was taken of it
        for epoch, seq, taken in start.read if start is not None else ():
            self._at[epoch] = seq, taken
        self._begin: int | None = (
            -1 if start is None else None
        )  # the segment in which the oldest message is to be found
        self._done: dict[int, None] = {}
        self._last: OrderedDict[int, int] = OrderedDict()  # publisher -> its last message that was delivered
        self._ahead: dict[
            int, int
        ] = {}  # publisher -> epoch: what it has there is taken in part, or has copies elsewhere
        for epoch, publisher, seq in start.ahead if start is not None else ():
            self._last[publisher], self._ahead[publisher] = seq, epoch
        self._last_s: dict[int, float] = {}  # epoch -> when the last record that was read had been written
        self._looked: dict[tuple[int, int], None] = {}

    # Segments

    def learn(self, log: TopicLog, wall_s: float) -> list[Gap | Discontinuity]:
        """The list as it is now. What retention removed before it was read is told."""
        reports: list[Gap | Discontinuity] = []
        if self._begin == -1:
            self._begin = self.floor = log.segments[0].epoch
        elif log.floor > self.floor:
            reports.append(Discontinuity(self.topic, "*", 0.0, wall_s))
        self.floor = max(self.floor, log.floor)
        self.log = log
        self._settle()
        return reports

    def active(self) -> list[Segment]:
        """Those to read now."""
        assert self.log is not None
        out: list[Segment] = []
        for segment in self.log.segments:
            if segment.epoch < self.floor or segment.epoch in self._done:
                continue
            out.append(segment)
            if segment.end is not None:
                break
        return out

    def after(self, epoch: int) -> int:
        """The record behind which to read."""
        return self._at.get(epoch, (_UNREAD, 0))[0] - 1

    def skip(self, epoch: int, last: int) -> None:
        """Nothing up to this record is wanted."""
        self._at[epoch] = last + 1, 0
        self._settle()

    def ended(self, epoch: int, seq: int) -> None:
        """Record `seq` is the mark that seals the segment: what stands behind it counts for nobody.

        It stays the one that is next, so that whoever reads on from our position meets it too.
        """
        self._at[epoch] = seq, 0
        self._done[epoch] = None
        self._settle()

    def cut_short(self, epoch: int, wall_s: float) -> list[Gap | Discontinuity]:
        """Of a sealed segment nothing more comes, although its end was not read: the rest has been removed."""
        self._done[epoch] = None
        told = Discontinuity(self.topic, self._broker(epoch), self._last_s.get(epoch, 0.0), wall_s)
        self._settle()
        return [told]

    # Records

    def waits_for(self, epoch: int, publisher: int, record: Record) -> Waits | Look | None:
        """What has to be done before the record may be taken; None: nothing."""
        assert self.log is not None
        known = self._last.get(publisher)
        if known is not None and record.first <= known + 1:
            return None
        before, number = record.before
        segment = self.log.segment(before)
        if segment is not None and before < epoch and not self._has_read(segment, number):
            return Waits(before, number)
        if known is None and record.doubt and (publisher, epoch) not in self._looked:
            epochs = [each.epoch for each in self.log.segments if before <= each.epoch < epoch and not each.empty]
            if epochs:
                return Look(publisher, tuple(epochs))
        return None

    def learnt(self, publisher: int, epoch: int, found: list[tuple[int, int, int]]) -> None:
        """For the record of `epoch`: (epoch, number, last message) of the publisher's newest record in others.

        What we have read before counts, wherever we did; what we have not read yet is still to come, or comes here.
        """
        self._looked[publisher, epoch] = None
        assert self.log is not None
        read = [
            last
            for each, number, last in found
            if (segment := self.log.segment(each)) is not None and self._has_read(segment, number)
        ]
        if read and publisher not in self._last:
            self._remember(publisher, max(read))

    def arrived(self, epoch: int, seq: int, at_s: float) -> list[Gap | Discontinuity]:
        """The next record that the segment has. A jump: what is between was removed before it was read."""
        expected = self._at.get(epoch, (_UNREAD, 0))[0]
        excused = epoch == self._begin and epoch not in self._at
        from_s, self._last_s[epoch] = self._last_s.get(epoch, 0.0), at_s
        if seq <= expected:
            return []
        self._at[epoch] = seq, 0
        return [] if excused else [Discontinuity(self.topic, self._broker(epoch), from_s, at_s)]

    def take(self, epoch: int, seq: int, publisher: int, record: Record) -> tuple[list[LogMessage], list[Gap]]:
        """Messages to deliver, in order, each followed by `taken`; and what of this publisher will not come."""
        at, taken = self._at.get(epoch, (seq, 0))
        if seq < at:
            return [], []
        known = self._last.get(publisher)
        messages = list(record.messages)
        if seq == at and taken:  # the reader that we go on for has had the first ones
            known = max(known or 0, messages[taken - 1].seq)
        if known is not None:
            messages = [message for message in messages if message.seq > known]
        gaps = []
        if known is not None and messages and messages[0].seq > known + 1:
            gaps.append(Gap(self.topic, publisher, known + 1, messages[0].seq - 1))
        return messages, gaps

    def taken(self, epoch: int, seq: int, publisher: int, record: Record, message: LogMessage) -> Position:
        """It is delivered. Where to read on after it."""
        self._remember(publisher, message.seq)
        index = message.seq - record.first + 1
        whole = index == len(record.messages)
        self._at[epoch] = (seq + 1, 0) if whole else (seq, index)
        if not whole or (epoch > self.floor and (record.doubt or publisher in self._ahead)):
            self._ahead[publisher] = epoch
        else:
            self._ahead.pop(publisher, None)
        return self.position()

    def passed(self, epoch: int, seq: int) -> None:
        """Nothing of this record is left to take."""
        self._at[epoch] = max(self._at.get(epoch, (0, 0)), (seq + 1, 0))
        self._settle()

    def position(self) -> Position:
        read = tuple((epoch, *self._at[epoch]) for epoch in sorted(self._at))
        ahead = tuple((epoch, each, self._last[each]) for each, epoch in self._ahead.items() if each in self._last)
        return Position(self.floor, read, ahead)

    # Within

    def _has_read(self, segment: Segment, number: int) -> bool:
        epoch = segment.epoch
        if epoch < self.floor or epoch in self._done or segment.empty:
            return True
        return self._at.get(epoch, (_UNREAD, 0))[0] > number

    def _settle(self) -> None:
        """Sealed segments that were read to their end are done; what is done at the front is forgotten."""
        assert self.log is not None
        for segment in self.log.segments:
            at = self._at.get(segment.epoch, (_UNREAD, 0))[0]
            if segment.end is not None and at >= segment.end:  # the last one only marks the end
                self._done[segment.epoch] = None
        for segment in self.log.segments:
            if segment.epoch >= self.floor:
                if segment.epoch not in self._done:
                    break
                self.floor = segment.epoch + 1
        for epoch in [epoch for epoch in self._at if epoch < self.floor]:
            del self._at[epoch]
            self._last_s.pop(epoch, None)
        for epoch in [epoch for epoch in self._done if epoch < self.floor]:
            del self._done[epoch]
        for publisher in [each for each, epoch in self._ahead.items() if epoch <= self.floor]:
            del self._ahead[publisher]
        if len(self._looked) > _MOST_PUBLISHERS:
            self._looked.clear()

    def _remember(self, publisher: int, seq: int) -> None:
        self._last[publisher] = seq
        self._last.move_to_end(publisher)
        if len(self._last) > _MOST_PUBLISHERS:
            self._last.popitem(last=False)

    def _broker(self, epoch: int) -> str:
        segment = self.log.segment(epoch) if self.log is not None else None
        return segment.broker if segment is not None else "*"
