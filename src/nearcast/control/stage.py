"""The processing of one topic at one broker: what publishers put into the inlet comes out on the topic, in order.

Everything goes through one queue: messages, which are processed one after the other, and the publishers' marks, which
only wait for what is before them. So each publisher's numbers come out on the topic as they went in, every one of them:
with what the processor made of the message (one payload, several, none), or as `LOST` where it was left out. What was
left out without a number to tell of it by is told of with `Broken`.

The worker processes are the shell's: it is told to `Process` a job, and says what came of it with `done`.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from nearcast.control.instructions import Instruction, Send
from nearcast.control.spool import Spool
from nearcast.domain.load import Processed
from nearcast.domain.message import Message
from nearcast.domain.processor import Processor, WhenFull
from nearcast.wire.control import Broken
from nearcast.wire.envelope import (
    CONTROL,
    END,
    HEARTBEAT,
    LOST,
    MOST_PAYLOAD_BYTES,
    PLAIN,
    SEVERAL,
    Envelope,
    notice,
    pack,
)

BLOCKED = 2  # times the queue: what publishers had under way when they were asked to wait still finds room
_MOST_MARKS = 4  # times the queue, and some: of what only waits for its turn
_SOME_MARKS = 1000
_WINDOW = 10  # reports that an interval is the mean of
_MOST_ERROR = 300

RAISED = "raised"
HUNG = "hung"
DIED = "died"
LATE = "late"
FAILURES = (RAISED, HUNG, DIED)


class Job(msgspec.Struct, frozen=True):
    """One message to be processed, to be begun by `start_by_s` or not at all."""

    topic: str
    number: int
    processor: Processor
    message: Message
    spool: Spool
    start_by_s: float


class Outcome(msgspec.Struct, frozen=True):
    """`results`, or what went wrong: one of `FAILURES` and its text, or `LATE`. `took_s` is of the call alone."""

    results: tuple[bytes, ...] = ()
    failure: str = ""
    error: str = ""
    took_s: float = 0.0


class Process(Instruction, frozen=True):
    """Have a worker do this, and call `done`."""

    job: Job


class Bury(Instruction, frozen=True):
    """To the dead-letter topic: this message could not be processed."""

    message: Message
    failure: str
    error: str


class Stage:
    """`wait_s`: a message that has waited for longer is left out, so that what comes late is known to be lost."""

    __slots__ = (
        "_cut",
        "_cut_s",
        "_job",
        "_jobs",
        "_queue",
        "_since",
        "_window",
        "beat_s",
        "broker",
        "counted",
        "spool",
        "spooled",
        "topic",
        "wait_s",
        "waiting",
    )

    def __init__(self, topic: str, broker: str, *, wait_s: float, beat_s: float) -> None:
        self.topic = topic
        self.broker = broker
        self.wait_s = wait_s
        self.beat_s = beat_s
        self.spool = Spool()
        self.spooled: deque[Message] = deque()  # here, and not yet copied to the others who process the topic
        self.waiting = 0  # messages that are to be processed, without the one that is
        self.counted = Processed(topic)
        self._queue: deque[tuple[Envelope, Processor | None, float]] = deque()
        self._job: tuple[Job, Envelope] | None = None
        self._jobs = 0
        self._cut = False  # something was left out that no number tells of
        self._cut_s = -math.inf  # when that was last said
        self._since = (0, 0.0)  # processed since the last report, and how long that took
        self._window: deque[tuple[int, float]] = deque(maxlen=_WINDOW)

    @property
    def idle(self) -> bool:
        return self._job is None and not self._queue

    def take(self, envelope: Envelope, processor: Processor | None, now: float) -> list[Instruction]:
        """From the inlet; `processor` None: its publisher's route has none, and it only waits for its turn."""
        if envelope.flags & CONTROL or envelope.trail is not None:
            return []  # agents put nothing into an inlet
        if envelope.flags & (END | HEARTBEAT) or processor is None:
            if len(self._queue) >= _MOST_MARKS * max(self.waiting, 1) + _SOME_MARKS:
                self._cut = True
                return self._say_cut(now)
            self._queue.append((envelope, None, now))
        elif self.waiting >= processor.queue * (BLOCKED if processor.when_full is WhenFull.BLOCK else 1):
            self._count(dropped=1)
            if not self._leave_out(envelope):
                return self._say_cut(now)
        else:
            self.waiting += 1
            self._queue.append((envelope, processor, now))
        return self._next(now)

    def done(self, number: int, outcome: Outcome, now: float) -> list[Instruction]:
        if self._job is None or self._job[0].number != number:
            return []
        (job, envelope), self._job = self._job, None
        size_bytes = sum(map(len, outcome.results))
        if not outcome.failure and size_bytes > MOST_PAYLOAD_BYTES:
            error = f"the result has {size_bytes} bytes; at most {MOST_PAYLOAD_BYTES} are taken"
            outcome = Outcome(failure=RAISED, error=error)
        out: list[Instruction]
        if outcome.failure == LATE:
            out = self._lost(envelope)
        elif outcome.failure:
            error = outcome.error[:_MOST_ERROR]
            self._count(**{outcome.failure: 1})
            others = (each for each in self.counted.errors if not each.startswith(outcome.failure))
            self.counted = msgspec.structs.replace(self.counted, errors=(*others, f"{outcome.failure}: {error}"))
            out = [Bury(job.message, outcome.failure, error), *self._made(envelope, ())]
        else:
            self._count(processed=1)
            self._since = (self._since[0] + 1, self._since[1] + outcome.took_s)
            self._spool(job)
            out = self._made(envelope, outcome.results)
        return [*out, *self._next(now)]

    def copied(self, copies: list[Message], size: int) -> None:
        """Others have spooled these."""
        self.spool.resize(size)
        self.spool.merge(copies)

    def reported(self) -> Processed:
        """As of now; the interval is the mean of the last reports that there was something in."""
        if self._since[0]:
            self._window.append(self._since)
            self._since = (0, 0.0)
        count, took_s = (sum(each) for each in zip(*self._window, strict=True)) if self._window else (0, 0.0)
        interval_ms = 1e3 * took_s / count if count else None
        return msgspec.structs.replace(self.counted, interval_ms=interval_ms, queue=self.waiting)

    def wake_s(self) -> float:
        return self._cut_s + self.beat_s if self._cut else math.inf

    def tick(self, now: float) -> list[Instruction]:
        return self._say_cut(now)

    # Within

    def _next(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        while self._job is None and self._queue:
            envelope, processor, since_s = self._queue.popleft()
            if processor is None:
                out.append(Send(self.broker, envelope))
                continue
            self.waiting -= 1
            start_by_s = since_s + self.wait_s
            if now > start_by_s:
                out += self._lost(envelope)
                continue
            self._jobs += 1
            self.spool.resize(processor.spool)
            message = Message(self.topic, envelope.payload, envelope.publisher, envelope.seq, envelope.sent_ns)
            job = Job(self.topic, self._jobs, processor, message, self.spool, start_by_s)
            self._job = job, envelope
            out.append(Process(job))
        return out + self._say_cut(now)

    def _spool(self, job: Job) -> None:
        self.spool.append(job.message)
        self.spooled.append(job.message)
        while len(self.spooled) > job.processor.spool:
            self.spooled.popleft()  # nobody looks back so far

    def _leave_out(self, envelope: Envelope) -> bool:
        """Its number comes out in its turn; False when it has none, or when even that is too much."""
        if envelope.flags & PLAIN or len(self._queue) >= _MOST_MARKS * max(self.waiting, 1) + _SOME_MARKS:
            self._cut = True
            return False
        self._queue.append((_without(envelope, LOST), None, 0.0))
        return True

    def _lost(self, envelope: Envelope) -> list[Instruction]:
        self._count(dropped=1)
        if envelope.flags & PLAIN:
            self._cut = True
            return []
        return [Send(self.broker, _without(envelope, LOST))]

    def _made(self, envelope: Envelope, results: tuple[bytes, ...]) -> list[Instruction]:
        if envelope.flags & PLAIN:  # without a number there is nothing to be gone on with
            return [Send(self.broker, msgspec.structs.replace(envelope, payload=each)) for each in results]
        if len(results) == 1:
            return [Send(self.broker, msgspec.structs.replace(envelope, payload=results[0]))]
        several = msgspec.structs.replace(envelope, flags=envelope.flags | SEVERAL, payload=pack(results))
        return [Send(self.broker, several)]

    def _say_cut(self, now: float) -> list[Instruction]:
        if not self._cut or now < self._cut_s + self.beat_s:
            return []
        self._cut, self._cut_s = False, now
        return [Send(self.broker, notice(Broken(self.topic, self.broker), 0))]

    def _count(self, **more: int) -> None:
        counted = {name: getattr(self.counted, name) + by for name, by in more.items()}
        self.counted = msgspec.structs.replace(self.counted, **counted)


def _without(envelope: Envelope, flag: int) -> Envelope:
    return msgspec.structs.replace(envelope, flags=envelope.flags | flag, payload=b"")
