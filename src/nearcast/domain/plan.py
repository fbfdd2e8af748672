"""What a policy answers: which topics and subscribers go where, which servers come and go, and why.

A plan does nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nearcast.domain.errors import ConfigError
from nearcast.domain.route import Route, Strategy


class Candidate(NamedTuple):
    """A broker that a topic could go to, and its worst case there. `full`: it would be overloaded by it."""

    broker: str
    worst_ms: float
    full: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a policy for promises saw of a topic, and what it expects.

    `worst_ms`: the worst case as the topic was placed, None when nobody said. `bound_ms` None: nothing is promised.
    `candidates`: the best few, the best first, and the one that was chosen; `feasible` brokers of `considered` would
    keep the promise.
    """

    worst_ms: float | None = None
    bound_ms: float | None = None
    predicted_ms: float | None = None
    candidates: tuple[Candidate, ...] = ()
    feasible: int = 0
    considered: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One topic's change of route. `was_strategy` and `was_brokers` are what the policy saw, by route or by ring."""

    topic: str
    strategy: Strategy
    brokers: tuple[str, ...]
    was_strategy: Strategy
    was_brokers: tuple[str, ...]
    reason: str
    forecast: Forecast | None = None

    def __post_init__(self) -> None:
        self.route(0)  # refuses brokers that no route could have
        if (self.strategy, self.brokers) == (self.was_strategy, self.was_brokers):
            raise ConfigError(f"step of {self.topic!r} changes nothing: {self.strategy.value} on {self.brokers!r}")
        if not self.reason:
            raise ConfigError(f"step of {self.topic!r} has no reason")

    def route(self, epoch: int) -> Route:
        """The route to go to. The epoch is its executor's: one more than the topic's newest."""
        return Route(epoch, self.strategy, self.brokers)


@dataclass(frozen=True, slots=True)
class HomeStep:
    """One client's change of home: it leaves the broker `was` for another one; '' for one that has had none."""

    subscriber: str
    broker: str
    was: str
    reason: str

    def __post_init__(self) -> None:
        if self.broker == self.was:
            raise ConfigError(f"step of subscriber {self.subscriber!r} changes nothing: its home is {self.was!r}")
        if not self.reason:
            raise ConfigError(f"step of subscriber {self.subscriber!r} has no reason")


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps` in the order in which they were decided, at most one per topic.

    `homes`: subscribers that get another home, at most one step each, sorted by name: they may go in any order.

    `ring`: the brokers that the ring should have once every step is done, None where it stays as it is. No topic of the
    snapshot changes hands by that alone: those that would have a step. `rent`: how many servers to add. `release`:
    brokers that nothing is left on once every step is done, to be given back. `reasons` say why there are servers to
    rent or release, why the ring changes, and what was wanted and could not be had.

    `relieved`: brokers that topics leave because they carry too much.

    `load_ratios` is what the policy expects of every broker that it may use, once all is done: an estimate.
    """

    policy: str
    at_s: float
    steps: tuple[Step, ...] = ()
    ring: tuple[str, ...] | None = None
    rent: int = 0
    release: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    load_ratios: tuple[tuple[str, float], ...] = ()
    relieved: tuple[str, ...] = ()
    homes: tuple[HomeStep, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.steps or self.homes or self.rent or self.release or self.ring is not None)
