"""Carrying out a plan: so many of its steps at a time, in its order, until all are done or it is stopped.

    waiting -> moving -> settling -> done
    moving -> refused
    waiting -> dropped            (stopped before its turn)

A step that has begun is never taken back (rule 10): stopping means that no more begin. One whose agents have all been
told is settling: its clients follow by themselves, and the next step takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from nearcast.domain.plan import Plan, Step


class StepState(StrEnum):
    WAITING = "waiting"
    MOVING = "moving"
    SETTLING = "settling"
    DONE = "done"
    REFUSED = "refused"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class StepProgress:
    """How far a step is. `waited_s` for its turn, `took_s` until all agents had been told; None: not so far yet."""

    step: Step
    state: StepState
    why: str = ""
    waited_s: float | None = None
    took_s: float | None = None


class Execution:
    __slots__ = ("_at_once", "_begun_s", "_by_topic", "_due_s", "_next", "_told_s", "_why", "plan", "states", "stopped")

    def __init__(self, plan: Plan, at_once: int, now: float) -> None:
        self.plan = plan
        self.states = [StepState.WAITING] * len(plan.steps)
        self.stopped = False
        self._at_once = at_once
        self._by_topic = {step.topic: at for at, step in enumerate(plan.steps)}
        self._why: dict[int, str] = {}
        self._begun_s = now
        self._due_s: dict[int, float] = {}
        self._told_s: dict[int, float] = {}
        self._next = 0

    @property
    def moving(self) -> int:
        return self.states.count(StepState.MOVING)

    @property
    def over(self) -> bool:
        under_way = self.moving or self.states.count(StepState.SETTLING)
        return not under_way and (self.stopped or self._next == len(self.states))

    def due(self, now: float) -> list[Step]:
        """The steps that begin now; each of them is `moved` and then `ended` some time later, or only `ended`."""
        if self.stopped:
            return []
        first, free = self._next, self._at_once - self.moving
        self._next = min(len(self.states), first + max(0, free))
        self.states[first : self._next] = [StepState.MOVING] * (self._next - first)
        self._due_s.update(dict.fromkeys(range(first, self._next), now))
        return list(self.plan.steps[first : self._next])

    def moved(self, topic: str, now: float) -> None:
        """All agents have been told: another step may begin."""
        at = self._by_topic[topic]
        self.states[at] = StepState.SETTLING
        self._told_s[at] = now

    def ended(self, topic: str, refused: str = "") -> None:
        """`refused`: why it could not be done; the others go on."""
        at = self._by_topic[topic]
        self.states[at] = StepState.REFUSED if refused else StepState.DONE
        if refused:
            self._why[at] = refused

    def stop(self) -> None:
        self.stopped = True
        waiting = len(self.states) - self._next
        self.states[self._next :] = [StepState.DROPPED] * waiting

    def counts(self) -> dict[str, int]:
        found = Counter(self.states)
        return {state.value: found[state] for state in StepState}

    def progress(self) -> Iterable[StepProgress]:
        """Of every step, in the plan's order."""
        for at, step in enumerate(self.plan.steps):
            due_s, told_s = self._due_s.get(at), self._told_s.get(at)
            waited_s = None if due_s is None else due_s - self._begun_s
            took_s = None if due_s is None or told_s is None else told_s - due_s
            yield StepProgress(step, self.states[at], self._why.get(at, ""), waited_s, took_s)
