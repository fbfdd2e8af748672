"""Carrying out a plan: so many of its steps at a time, in its order, until all are done or it is stopped.

    waiting -> moving -> done | refused
    waiting -> dropped            (stopped before its turn)

A step that has begun is never taken back (rule 10): stopping means that no more begin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from nearcast.domain.plan import Plan, Step


class StepState(StrEnum):
    WAITING = "waiting"
    MOVING = "moving"
    DONE = "done"
    REFUSED = "refused"
    DROPPED = "dropped"


class Execution:
    __slots__ = ("_at_once", "_by_topic", "_next", "_why", "plan", "states", "stopped")

    def __init__(self, plan: Plan, at_once: int) -> None:
        self.plan = plan
        self.states = [StepState.WAITING] * len(plan.steps)
        self.stopped = False
        self._at_once = at_once
        self._by_topic = {step.topic: at for at, step in enumerate(plan.steps)}
        self._why: dict[int, str] = {}
        self._next = 0

    @property
    def moving(self) -> int:
        return self.states.count(StepState.MOVING)

    @property
    def over(self) -> bool:
        return not self.moving and (self.stopped or self._next == len(self.states))

    def due(self) -> list[Step]:
        """The steps that begin now; each of them is `ended` some time later."""
        if self.stopped:
            return []
        first, free = self._next, self._at_once - self.moving
        self._next = min(len(self.states), first + max(0, free))
        self.states[first : self._next] = [StepState.MOVING] * (self._next - first)
        return list(self.plan.steps[first : self._next])

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

    def told(self) -> Iterable[tuple[Step, StepState, str]]:
        """Every step, how far it is, and why it was refused."""
        return ((step, self.states[at], self._why.get(at, "")) for at, step in enumerate(self.plan.steps))
