"""What an operator has ordered: who, what, why, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

MOST_TASKS = 200
"""Kept in a deployment: the newest."""

TaskState = Literal["running", "done", "refused"]


@dataclass(frozen=True, slots=True)
class Task:
    """One order. `id` is unique in the deployment; `at_s` is in seconds since 1970.

    `subject`: the topic, the broker or the plan. `state` "done": it is written, and clients are being told; what goes
    on by itself after that (a broker that empties) is told where it is asked for. `outcome`: what came of it. `epoch`:
    of the topic from which on it is so, of an order that changes a topic's route; else 0.
    """

    id: str
    at_s: float
    by: str
    what: str
    subject: str
    reason: str = ""
    state: TaskState = "running"
    outcome: str = ""
    took_s: float | None = None
    epoch: int = 0


def newest(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """By time, the newest `MOST_TASKS`; of two with one id, the later one."""
    by_id = {each.id: each for each in tasks}
    return tuple(sorted(by_id.values(), key=lambda each: (each.at_s, each.id))[-MOST_TASKS:])
