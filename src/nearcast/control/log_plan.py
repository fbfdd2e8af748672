"""Reading a log in batches: what is between two positions is always the same messages, whoever reads it and when.

A batch takes sealed segments to their ends, and of those that are not sealed, more than one while a topic moves, what
they have now. Two things make that safe without any memory of what was read:

- Segments are looked at from the newest to the oldest. A record names its publisher's record before it, which was
  acknowledged earlier; so what it names is within what is then seen of the older segment.
- A record that is marked as doubtful, because its messages may stand in an older segment too, is not taken before all
  older segments are over. From then on it can be looked up for ever which of them stand there.

Not promised: an order between publishers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nearcast.domain.log import Position

BEGINNING = (1, 0)  # of a segment: its first record, of which nothing was taken


@dataclass(frozen=True, slots=True)
class Extent:
    """Of one segment, records up to `last` may be taken now. `over`: none will come after them."""

    epoch: int
    last: int
    over: bool

    def until(self, lasts: Mapping[int, int] | None) -> Extent:
        """Not beyond these: epoch -> record. A segment that is not named there has nothing."""
        last = self.last if lasts is None else min(self.last, lasts.get(self.epoch, 0))
        return Extent(self.epoch, last, over=self.over and last == self.last)


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far a batch goes. `ended`: (epoch, last record) of the segments that it comes to the end of, and leaves."""

    position: Position
    ended: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """Of one segment, the messages from one place up to another: (record, how many of its messages are before it).

    `older` and `newer`: what a position in this segment says of the segments before and behind it.
    """

    epoch: int
    begin: tuple[int, int]
    end: tuple[int, int]
    floor: int
    older: tuple[tuple[int, int, int], ...] = ()
    newer: tuple[tuple[int, int, int], ...] = ()

    @property
    def records(self) -> tuple[int, int]:
        """The first and the last that have messages of it."""
        return self.begin[0], self.end[0] if self.end[1] else self.end[0] - 1

    def position(self, record: int, taken: int, of: int, ahead: tuple[tuple[int, int, int], ...]) -> Position:
        """Where to read on after so many of a record's messages."""
        at = (self.epoch, record, taken) if taken < of else (self.epoch, record + 1, 0)
        return Position(
            self.floor, (*self.older, at, *self.newer), tuple(each for each in ahead if each[0] > self.floor)
        )


def frontier(start: Position, extents: Sequence[Extent]) -> Frontier:
    """As far as these segments, in the order of their epochs, can be read now."""
    at = places(start)
    floor, ended, front = start.floor, [], True
    for extent in extents:
        if extent.epoch < start.floor:
            continue
        at[extent.epoch] = max(at.get(extent.epoch, BEGINNING), (extent.last + 1, 0))
        front = front and extent.over
        if front:
            floor = extent.epoch + 1
            ended.append((extent.epoch, at.pop(extent.epoch)[0] - 1))
    read = tuple((epoch, *at[epoch]) for epoch in sorted(at) if epoch >= floor and at[epoch] != BEGINNING)
    return Frontier(Position(floor, read, tuple(each for each in start.ahead if each[0] > floor)), tuple(ended))


def spans(start: Position, end: Frontier) -> list[Span]:
    """What is between them, oldest segment first."""
    before, after, ended = places(start), places(end.position), dict(end.ended)
    found = []
    for epoch in sorted({*after, *ended}):
        if epoch < start.floor:
            continue
        begin = before.get(epoch, BEGINNING)
        until = (ended[epoch] + 1, 0) if epoch in ended else after[epoch]
        if begin < until:
            floor = min(epoch, end.position.floor)
            older = tuple((each, *after[each]) for each in sorted(after) if floor <= each < epoch)
            newer = tuple((each, *before[each]) for each in sorted(before) if each > epoch)
            found.append(Span(epoch, begin, until, floor, older, newer))
    return found


def cut(start: Position, end: Frontier, span: Span, *, record: int, taken: int, of: int) -> Frontier:
    """`end`, but in this span only up to so many messages of this record, and nothing of later segments."""
    position = span.position(record, taken, of, start.ahead)
    return Frontier(position, tuple(each for each in end.ended if each[0] < span.epoch))


def places(position: Position) -> dict[int, tuple[int, int]]:
    """Epoch -> the record that is next, and how many of its messages were taken."""
    return {epoch: (record, taken) for epoch, record, taken in position.read}


def split(span: Span, parts: int) -> list[Span]:
    """By records, into so many spans at most."""
    first, last = span.records
    size = -(-(last - first + 1) // max(1, parts))
    out = []
    for low in range(first, last + 1, size):
        begin = span.begin if low == first else (low, 0)
        end = span.end if low + size > last else (low + size, 0)
        out.append(replace(span, begin=begin, end=end))
    return out
