"""Executions of a channel: what each read, what came of it, and how far the channel has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

RECENT = 64
"""So many executions are kept where all is read at once; older ones are put aside by as many."""

_FAILURES = 16
_PLAN = 50_000


@dataclass(frozen=True, slots=True)
class Window:
    """What is new: versions of a dataset after the one and up to the other."""

    after: int
    until: int


@dataclass(frozen=True, slots=True)
class Execution:
    """Committed. `at_s` was its current time, `windows` are of the datasets that it read, by name.

    `subscriptions`: the version of the table of subscriptions. `path`: its results, below the channel's folder; empty
    without rows. `late_s`: how long after its time it began.
    """

    number: int
    at_s: float
    windows: Mapping[str, Window] = field(default_factory=dict)
    subscriptions: int = 0
    path: str = ""
    rows: int = 0
    keys: int = 0
    took_s: float = 0.0
    late_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """An execution that came to nothing. What was new for it is new for the next one."""

    at_s: float
    reason: str
    windows: Mapping[str, Window] = field(default_factory=dict)
    took_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Keys:
    """A file that has, for every key, the newest execution with rows for it up to number `after`."""

    path: str
    after: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Of one channel, as it is kept: the newest last. `older` names where those before them are, if there are any.
    `plan` is how Spark ran the last one. Results of executions up to number `floor` have been removed.

    The first execution of all is the creation of the channel, number `first`: what was there then is not new.
    `started`: the last number that an execution was given, whether anything came of it or not. It is written when what
    the execution reads of the datasets is settled, and before it looks who has subscribed.
    """

    executions: tuple[Execution, ...]
    failures: tuple[Failure, ...] = ()
    older: str = ""
    plan: str = ""
    floor: int = 0
    keys: Keys | None = None
    first: int = 0
    started: int = 0

    @classmethod
    def created(cls, number: int, at_s: float, windows: Mapping[str, Window]) -> Progress:
        return cls((Execution(number, at_s, windows),), floor=number, first=number)

    @property
    def count(self) -> int:
        """Executions so far."""
        return self.last.number - self.first

    @property
    def recent(self) -> tuple[Execution, ...]:
        """The last ones, without the creation of the channel."""
        return tuple(each for each in self.executions if each.number > self.first)

    @property
    def last(self) -> Execution:
        return self.executions[-1]

    @property
    def settled(self) -> int:
        """The last execution that may not have looked at who has subscribed until now: all later ones will."""
        return max(self.last.number, self.started)

    def starting(self) -> Progress:
        """The next one begins: its number is `started`."""
        return replace(self, started=self.settled + 1)

    @property
    def full(self) -> bool:
        """Time to put some aside."""
        return len(self.executions) >= 2 * RECENT

    def windows(self, versions: Mapping[str, int]) -> dict[str, Window]:
        """Of the next execution, when the newest versions are these."""
        done = self.last.windows
        return {name: Window(done[name].until if name in done else 0, until) for name, until in versions.items()}

    def committed(self, execution: Execution, plan: str = "") -> Progress:
        if execution.number != self.started:
            raise ValueError(f"execution {execution.number} where {self.started} was started")
        return replace(self, executions=(*self.executions, execution), plan=plan[:_PLAN])

    def failed(self, failure: Failure) -> Progress:
        return replace(self, failures=(*self.failures, failure)[-_FAILURES:])

    def expired(self, floor: int) -> Progress:
        """Without the results of executions up to `floor`."""
        return replace(self, floor=max(self.floor, floor))

    def put_aside(self, older: str, keys: str) -> Progress:
        """Without the oldest executions, which are in `older` from now on; `keys` has what is known after the last."""
        return replace(self, executions=self.executions[RECENT:], older=older, keys=Keys(keys, self.last.number))


@dataclass(frozen=True, slots=True)
class Schedule:
    """Of a repetitive channel: when the next execution is due. Wall-clock times, so that it outlasts the process."""

    due_s: float
    period_s: float

    def begun(self, now_s: float) -> tuple[float, Schedule]:
        """How late an execution begins that begins now, and what is due after it.

        One that outlasted its period delays the next. Whole periods that were missed are left out: nothing is missed
        with them, because windows go on where they ended.
        """
        late_s = max(0.0, now_s - self.due_s)
        begun_s = self.due_s if late_s < self.period_s else now_s
        return late_s, replace(self, due_s=begun_s + self.period_s)
