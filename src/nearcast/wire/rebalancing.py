"""Orders about plans, and what the leader answers: the plan, and how far it is."""

from __future__ import annotations

from typing import Literal

import msgspec

from nearcast.domain.route import Strategy

MOST_STEPS = 1000
"""Steps in one answer: of some 400 bytes each, less than half of what a NATS server takes in one message."""

Doing = Literal["plan", "apply", "status", "stop"]


class RebalanceOrder(msgspec.Struct, frozen=True, tag=True):
    """`plan`: the number of the plan to apply, as the answer to "plan" gave it. `policy` empty: the configured one.

    `reason`: why it is applied, or stopped.
    """

    asker: str
    number: int
    do: Doing
    policy: str = ""
    plan: int = 0
    reason: str = ""


class PlannedStep(msgspec.Struct, frozen=True):
    """`state`, `waited_s` and `took_s`: see nearcast.control.execution; `why`: for which reason it was refused."""

    topic: str
    strategy: Strategy
    brokers: tuple[str, ...]
    was_strategy: Strategy
    was_brokers: tuple[str, ...]
    reason: str
    state: str = "waiting"
    why: str = ""
    waited_s: float | None = None
    took_s: float | None = None


class PlannedHome(msgspec.Struct, frozen=True):
    """A subscriber that gets another home."""

    subscriber: str
    broker: str
    was: str
    reason: str


class StepCounts(msgspec.Struct, frozen=True):
    """How many steps are in which state."""

    waiting: int = 0
    moving: int = 0
    done: int = 0
    refused: int = 0
    dropped: int = 0
    settling: int = 0


_NO_STEPS = StepCounts()


class Rebalancing(msgspec.Struct, frozen=True, tag=True):
    """A plan and how far it is; `plan` 0: there is none. Of `steps` the first are told, `counts` is of all.

    Of `homes` the first are told too; there are `homes_count`, of which `homes_left` have yet to arrive.

    `state`: proposed, running, stopping (what has begun still ends), stopped or done. `refused`: why the order was not
    carried out.
    """

    number: int
    plan: int = 0
    policy: str = ""
    state: str = ""
    counts: StepCounts = _NO_STEPS
    steps: tuple[PlannedStep, ...] = ()
    rent: int = 0
    release: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    load_ratios: tuple[tuple[str, float], ...] = ()
    objections: tuple[str, ...] = ()
    automatic: bool = False
    refused: str = ""
    homes: tuple[PlannedHome, ...] = ()
    homes_count: int = 0
    homes_left: int = 0


class Foreseen(msgspec.Struct, frozen=True, tag=True):
    """What an order would do: topics that would move (the first of `steps_count`), and what else is to be known.

    `refused`: why it would not be carried out.
    """

    number: int
    steps: tuple[PlannedStep, ...] = ()
    steps_count: int = 0
    notes: tuple[str, ...] = ()
    refused: str = ""
