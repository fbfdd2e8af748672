"""States of the explored world as small tuples of numbers, and the tables that give the numbers their meaning.

A state of a process, a message, a queue and a point in time each get a number when they first occur. A step of a
process is worked out once per (state, sender, message, time) and then looked up: the machines run a few thousand
times where the explorer makes millions of transitions. Numbers stand for equal values, never for hashes, so two
states are one only if they are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from nearcast.sim.explored_outbox import Outbox, Violated
from nearcast.sim.explored_processes import Process
from nearcast.sim.freeze import clone, freeze

_V = TypeVar("_V", bound=Hashable)

State = tuple[int, ...]
"""now, faults left, place in the script, what is away, when it was last disturbed; a number per process; pairs of
channel and queue."""

NOW, FAULTS, SCRIPT, AWAY, DISTURBED, PROCESSES = range(6)


class Numbers(Generic[_V]):
    """Numbers values in the order in which they first occur."""

    __slots__ = ("_numbers", "values")

    def __init__(self) -> None:
        self._numbers: dict[_V, int] = {}
        self.values: list[_V] = []

    def __call__(self, value: _V) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


Step = tuple[int, tuple[tuple[str, int], ...], tuple[str, ...]]
"""The process's next state, what it put where, and notes for the trace."""


class Steps:
    """Every state that any process has been in, and every step from one to the next."""

    __slots__ = ("_normal", "_numbers", "_steps", "messages", "processes", "wake_s")

    def __init__(self, normal: Callable[[Process], None] | None) -> None:
        self._normal = normal
        self.processes: list[Process] = []
        self.wake_s: list[float] = []
        self.messages: Numbers[Hashable] = Numbers()
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._steps: dict[tuple[int, str, int, float], Step | Violated] = {}

    def number(self, name: str, process: Process) -> int:
        if self._normal is not None:
            self._normal(process)
        key = (name, freeze(process))
        number = self._numbers.setdefault(key, len(self.processes))
        if number == len(self.processes):
            self.processes.append(process)
            self.wake_s.append(process.wake_s())
        return number

    def take(self, name: str, at: int, source: str, message: int, now: float) -> Step:
        """What the process in this state does with the message. Raises Violated where that is a finding."""
        key = (at, source, message, now)
        step = self._steps.get(key)
        if step is None:
            step = self._steps[key] = self._work_out(name, at, source, message, now)
        if isinstance(step, Violated):
            raise step
        return step

    def _work_out(self, name: str, at: int, source: str, message: int, now: float) -> Step | Violated:
        process = clone(self.processes[at])
        out = Outbox()
        try:
            process.take(source, self.messages.values[message], now, out)
        except Violated as found:
            return found
        puts = tuple((target, self.messages(each)) for target, each in out.puts)
        return self.number(name, process), puts, tuple(out.notes)
