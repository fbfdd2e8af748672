"""A persistent topic's log as it is now, for those who read it in batches: how far it goes, and what is in between."""

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from nearcast.brokers.log import LogSite, LogSites, SegmentReader, Stored
from nearcast.client.log_subscription import FIRST, NEW, Since
from nearcast.control.log_plan import BEGINNING, Extent, Frontier, Span, cut, frontier, places, spans
from nearcast.domain.errors import ConfigError, LogDown, LogRefused, LogTrimmed
from nearcast.domain.log import Position, Segment, TopicLog
from nearcast.domain.message import Message
from nearcast.transport.clock import Clock
from nearcast.wire.record import LogMessage, Record, decode_record
from nearcast.wire.rejects import Rejects

_RETRY_S = 0.2
_T = TypeVar("_T")


class Written(NamedTuple):
    """What one publisher has in the log: its messages, and (epoch, number) of its last record."""

    messages: list[LogMessage]
    before: tuple[int, int] = (0, 0)

    @property
    def last(self) -> int:
        return self.messages[-1].seq if self.messages else 0


NOTHING_WRITTEN = Written([])


def without(payloads: Sequence[bytes], written: Sequence[LogMessage], what: str) -> list[bytes]:
    """Those that are not written yet, in their order. Raises LogRefused when something else was."""
    there = Counter(message.payload for message in written)
    left = []
    for payload in payloads:
        if there[payload]:
            there[payload] -= 1
        else:
            left.append(payload)
    if others := there.total():
        raise LogRefused(
            f"{what}, {len(written)} messages were published before, and {others} of them are not among these"
            f" {len(payloads)}: what is published again must be the same"
        )
    return left


class LogView:
    """Made by `Client.view`. Whatever is asked of a site that is away is asked again for `patience_s`, then LogDown."""

    def __init__(
        self, topic: str, log: TopicLog, sites: LogSites, clock: Clock, rejects: Rejects, *, patience_s: float
    ) -> None:
        self.topic = topic
        self.log = log
        self._sites = sites
        self._clock = clock
        self._rejects = rejects
        self._patience_s = patience_s

    async def begin(self, since: Since) -> Position:
        """Where to begin. LogTrimmed when what a position names is gone."""
        match since:
            case Position():
                if since.floor < self.log.floor:
                    raise self._trimmed(f"what was written before epoch {self.log.floor} has been removed")
                return since
            case str() if since == NEW:
                start = Position(self.log.segments[0].epoch)
                return frontier(start, await self._extents(start, doubtful=True)).position
            case str() if since == FIRST:
                return await self._first()
            case float():
                found = [(each.epoch, await self._first_since(each, since)) for each in self.log.segments]
                read = tuple((epoch, record, 0) for epoch, record in found if record > 1)
                return Position(self.log.segments[0].epoch, read)
        raise ConfigError(f"topic {self.topic!r}: cannot begin at {since!r}")

    async def frontier(
        self,
        start: Position,
        *,
        most: int | None = None,
        until: Mapping[int, int] | None = None,
        strict: bool = True,
    ) -> Frontier:
        """Everything that there is behind `start`; or so many messages of it, or not beyond what `lasts` said once."""
        end = frontier(start, [each.until(until) for each in await self._extents(start)])
        return end if most is None else await self._limited(start, end, most, strict=strict)

    async def lasts(self) -> dict[int, int]:
        """Epoch -> the last record that there is now."""
        extents = await self._extents(Position(0), doubtful=True)
        return {extent.epoch: extent.last for extent in extents}

    async def _limited(self, start: Position, end: Frontier, most: int, *, strict: bool) -> Frontier:
        """No further than so many messages behind `start`."""
        for span in spans(start, end):
            async for stored, record in self.records(span, strict=strict):
                first, last = _within(span, stored.seq, record)
                if last - first >= most:
                    return cut(start, end, span, record=stored.seq, taken=first + most, of=len(record.messages))
                most -= last - first
        return end

    async def messages(
        self, span: Span, ahead: tuple[tuple[int, int, int], ...], *, strict: bool = True
    ) -> AsyncIterator[tuple[Message, int]]:
        """With the number of the record that each is in. Unless `strict`, what was removed is passed over."""
        had = {publisher: seq for _, publisher, seq in ahead}
        async for stored, record in self.records(span, strict=strict):
            known = had.get(stored.publisher, 0)
            if record.doubt:
                known = max(known, await self._elsewhere(stored.publisher, span.epoch, record))
            first, last = _within(span, stored.seq, record)
            count = len(record.messages)
            for index in range(first, last):
                message = record.messages[index]
                if message.seq > known:
                    position = span.position(stored.seq, index + 1, count, ahead)
                    yield (
                        Message(self.topic, message.payload, stored.publisher, message.seq, message.sent_ns, position),
                        stored.seq,
                    )

    async def records(self, span: Span, *, strict: bool = True) -> AsyncIterator[tuple[Stored, Record]]:
        """Raises LogTrimmed when some have been removed, if `strict`."""
        segment, (first, last) = self.log.segment(span.epoch), span.records
        if segment is None:
            if strict:
                raise self._trimmed(f"the segment of epoch {span.epoch} has been removed")
            return
        async for stored in self._stored(segment, first, last, strict=strict):
            if not stored.publisher:
                return
            record = self._rejects.read(partial(decode_record, stored.data), f"log of {self.topic}")
            if record is not None:
                yield stored, record

    async def written(self, publisher: int) -> Written:
        """All that counts and is still there, wherever the topic was then."""
        found = Written([])
        for segment in self.log.segments:
            site, name = self._site(segment)
            if segment.empty or await self._tried(partial(site.last, name, publisher)) is None:
                continue
            found = await self._tried(partial(self._more_of, segment, publisher, found))
        return found

    # Within

    async def _more_of(self, segment: Segment, publisher: int, found: Written) -> Written:
        site, name = self._site(segment)
        newest = await site.last(name, publisher)
        end = segment.end if segment.end is not None else await site.mark(name)
        messages, before, at = list(found.messages), found.before, 0
        async with _reading(await site.read(name, publisher=publisher)) as reader:
            while newest is not None and at < newest.seq and (stored := await reader.next()) is not None:
                at = stored.seq
                if end is not None and at > end:
                    break
                known = messages[-1].seq if messages else 0
                messages += [each for each in decode_record(stored.data).messages if each.seq > known]
                before = segment.epoch, at
        return Written(messages, before)

    async def _extents(self, start: Position, *, doubtful: bool = False) -> list[Extent]:
        """What may be taken of each segment now; of one behind another that is not over, nothing `doubtful`."""
        wanted = [segment for segment in self.log.segments if segment.epoch >= start.floor]
        found = [await self._tried(partial(self._extent, segment)) for segment in reversed(wanted)]
        found.reverse()
        if doubtful:
            return found
        at, settled = places(start), True
        for index, extent in enumerate(found):
            if not settled:
                found[index] = await self._clear(extent, at.get(extent.epoch, BEGINNING))
            if found[index] != extent:  # what is behind may follow on what is left here
                return found[: index + 1]
            settled = settled and extent.over
        return found

    async def _extent(self, segment: Segment) -> Extent:
        if segment.end is not None:
            return Extent(segment.epoch, max(0, segment.end - 1), over=True)
        site, name = self._site(segment)
        state = await site.state(name)
        mark = await site.mark(name)  # asked for afterwards: when there is none, it comes behind what was seen
        if mark is not None:
            return Extent(segment.epoch, mark - 1, over=True)
        return Extent(segment.epoch, 0 if state is None else state.last, over=False)

    async def _clear(self, extent: Extent, begin: tuple[int, int]) -> Extent:
        span = Span(extent.epoch, begin, (extent.last + 1, 0), extent.epoch)
        if begin < span.end:
            async for stored, record in self.records(span, strict=False):
                if record.doubt:
                    return Extent(extent.epoch, stored.seq - 1, over=False)
        return extent

    async def _first(self) -> Position:
        segment = self.log.segments[0]
        site, name = self._site(segment)
        state = None if segment.empty else await self._tried(partial(site.state, name))
        read = ((segment.epoch, state.first, 0),) if state is not None and state.first > 1 else ()
        return Position(segment.epoch, read)

    async def _first_since(self, segment: Segment, since_s: float) -> int:
        if segment.empty:
            return 1
        site, name = self._site(segment)
        found = await self._tried(partial(site.first_since, name, since_s))
        if found is not None:
            return found
        return (await self._tried(partial(self._extent, segment))).last + 1

    async def _elsewhere(self, publisher: int, epoch: int, record: Record) -> int:
        """The publisher's last message in the segments in which those of a doubtful record may stand too."""
        last = 0
        for segment in self.log.segments:
            if not record.before[0] <= segment.epoch < epoch or segment.empty:
                continue
            site, name = self._site(segment)
            found = await self._tried(partial(site.last, name, publisher))
            end = segment.end if segment.end is not None else await self._tried(partial(site.mark, name))
            if found is not None and (end is None or found.seq <= end):
                last = max(last, decode_record(found.data).last)
        return last

    async def _stored(self, segment: Segment, first: int, last: int, *, strict: bool) -> AsyncIterator[Stored]:
        """From one record to another, however often the servers die, unless nothing comes for too long."""
        site, name = self._site(segment)
        due, until_s = first, self._until_s()
        while due <= last:
            try:
                async with _reading(await site.read(name, after=due - 1)) as reader:
                    while due <= last:
                        stored = await reader.next()
                        if stored is None:
                            break
                        if stored.seq > due and strict:
                            raise self._trimmed(f"records {due} to {stored.seq - 1} of epoch {segment.epoch}")
                        due, until_s = stored.seq + 1, self._until_s()
                        if stored.seq <= last:
                            yield stored
                if due > last:
                    return
                state = await site.state(name)
            except LogDown:
                if self._clock.now() > until_s:
                    raise
                await self._clock.sleep(_RETRY_S)
                continue
            if state is None or state.first > last:
                if strict:
                    raise self._trimmed(f"records {due} to {last} of epoch {segment.epoch}")
                return
            if self._clock.now() > until_s:
                raise LogDown(f"topic {self.topic!r}: record {due} of {name!r} does not come; was its disk lost?")

    async def _tried(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        until_s = self._until_s()
        while True:
            try:
                return await ask()
            except LogDown:
                if self._clock.now() > until_s:
                    raise
                await self._clock.sleep(_RETRY_S)

    def _until_s(self) -> float:
        return self._clock.now() + self._patience_s

    def _site(self, segment: Segment) -> tuple[LogSite, str]:
        return self._sites.at(segment.broker), self.log.name(segment.epoch)

    def _trimmed(self, what: str) -> LogTrimmed:
        return LogTrimmed(
            f"topic {self.topic!r}: {what}: retention was faster than the reader (`nearcast topic set {self.topic}"
            " --retain` keeps more)"
        )


def _within(span: Span, number: int, record: Record) -> tuple[int, int]:
    """Which messages of this record are in the span: from one, up to before another."""
    first = span.begin[1] if number == span.begin[0] else 0
    last = span.end[1] if number == span.end[0] else len(record.messages)
    return first, last


@contextlib.asynccontextmanager
async def _reading(reader: SegmentReader) -> AsyncIterator[SegmentReader]:
    try:
        yield reader
    finally:
        await reader.close()
