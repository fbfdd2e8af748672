"""Why a topic was moved: what was seen, what could be chosen, what was expected; and afterwards, what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from nearcast.domain.plan import Forecast
from nearcast.domain.route import Strategy

MOST_DECISIONS = 16
"""Kept of one topic: the newest."""

OPERATOR = "operator"
"""In place of a policy's name: a move that somebody asked for."""

DRAINING = "drain"
"""Likewise: the topic's broker is to be emptied."""

_NOTHING = Forecast()


@dataclass(frozen=True, slots=True)
class Measured:
    """The percentile of a topic's latencies on so many messages, wrong by up to `uncertainty_ms`, as clocks are.

    `after_s`: how long after clients were told of a move it was measured; None before it.
    """

    percentile: int
    latency_ms: float
    samples: int
    uncertainty_ms: float = 0.0
    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One move of one topic. `id` is unique in the deployment; `at_s` is in seconds since 1970.

    `plan` 0: of no plan. `refused`: why it came to nothing. `told_s` and `done_s`: how long it took from the order
    until every client was being told, and until nobody used the old route any more.
    """

    id: str
    topic: str
    at_s: float
    policy: str
    plan: int
    reason: str
    strategy: Strategy
    brokers: tuple[str, ...]
    was_strategy: Strategy
    was_brokers: tuple[str, ...]
    slo: str = ""
    forecast: Forecast = _NOTHING
    before: Measured | None = None
    epoch: int = 0
    refused: str = ""
    told_s: float | None = None
    done_s: float | None = None
    after: Measured | None = None

    @property
    def error_ms(self) -> float | None:
        """How much more was measured than was predicted for the worst case; None while one of them is not known."""
        predicted_ms = self.forecast.predicted_ms
        return None if self.after is None or predicted_ms is None else self.after.latency_ms - predicted_ms


def merged(known: tuple[Decision, ...], newer: tuple[Decision, ...]) -> tuple[Decision, ...]:
    """By time, the newest `MOST_DECISIONS`, those that were refused going first; one in both is as `newer` has it."""
    by_id = {each.id: each for each in (*known, *newer)}
    found = sorted(by_id.values(), key=lambda each: (each.at_s, each.id))
    while len(found) > MOST_DECISIONS:
        found.remove(next((each for each in found if each.refused), found[0]))
    return tuple(found)
