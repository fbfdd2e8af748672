"""Where a topic's messages go: the strategy, its brokers, and the epoch that orders routes of one topic.

A route answers three questions, all of them locally and deterministically:

* where does this publisher send?            `publish_to`
* where does this subscriber attach?         `attach_to`
* which brokers must a message still reach,  `missing`
  so that every subscriber of the route has it?
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass

from nearcast.domain.errors import ConfigError
from nearcast.domain.processor import Processor


class Strategy(enum.StrEnum):
    SINGLE = "single"
    ALL_SUBSCRIBERS = "all_subscribers"
    ALL_PUBLISHERS = "all_publishers"
    HOMED = "homed"


@dataclass(frozen=True, slots=True)
class Delegation:
    """`homes` lack storage or compute for a topic: whoever is at home there publishes it at `cloud`, which has both."""

    cloud: str
    homes: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.homes or list(self.homes) != sorted(set(self.homes)):
            raise ConfigError(f"delegating homes must be sorted, distinct and not empty, got {self.homes!r}")
        if self.cloud in self.homes:
            raise ConfigError(f"{self.cloud!r} cannot delegate to itself")


@dataclass(frozen=True, slots=True)
class Route:
    """One topic's route. `brokers` is sorted, so that equal routes are equal values.

    With a `processor`, publishers send to the topic's inlet at the brokers, and the agents there put what they make of
    it on the topic: see docs/processors.md. With a `delegation`, some of the brokers of a homed route are homes of
    subscribers only.
    """

    epoch: int
    strategy: Strategy
    brokers: tuple[str, ...]
    processor: Processor | None = None
    delegation: Delegation | None = None

    def __post_init__(self) -> None:
        if not self.brokers or list(self.brokers) != sorted(set(self.brokers)):
            raise ConfigError(f"route brokers must be sorted, distinct and not empty, got {self.brokers!r}")
        if self.strategy is Strategy.SINGLE and len(self.brokers) != 1:
            raise ConfigError(f"a single route has one broker, got {len(self.brokers)}: {self.brokers!r}")
        if self.delegation is not None:
            if self.strategy is not Strategy.HOMED:
                raise ConfigError(f"a route that is {self.strategy} has no homes that could delegate")
            others = sorted({self.delegation.cloud, *self.delegation.homes}.difference(self.brokers))
            if others:
                raise ConfigError(f"{others[0]!r} is part of a delegation, but not of the route's {self.brokers!r}")

    def publish_to(self, key: int, home: str | None = None) -> tuple[str, ...]:
        """The brokers a publisher with this key sends each message to (sticky: equal keys give equal answers)."""
        if self.strategy is Strategy.ALL_PUBLISHERS:
            return self.brokers
        one = self._one(key, home)
        if self.delegation is not None and one in self.delegation.homes:
            return (self.delegation.cloud,)
        return (one,)

    def attach_to(self, key: int, home: str | None = None) -> tuple[str, ...]:
        """The brokers a subscriber with this key listens on."""
        if self.strategy is Strategy.ALL_SUBSCRIBERS:
            return self.brokers
        return (self._one(key, home),)

    def missing(self, visited: Collection[str], key: int) -> tuple[str, ...]:
        """The brokers that a message seen at `visited` must still reach for every subscriber here to have it."""
        if self.strategy is Strategy.ALL_SUBSCRIBERS:
            if any(broker in visited for broker in self.brokers):
                return ()
            return (self._one(key, None),)
        return tuple(broker for broker in self.brokers if broker not in visited)

    @property
    def takes(self) -> tuple[str, ...]:
        """The brokers that publishers may send to; with a processor, those that process and spool the topic."""
        if self.delegation is None:
            return self.brokers
        return tuple(broker for broker in self.brokers if broker not in self.delegation.homes)

    @property
    def forwards(self) -> bool:
        """Whether agents forward between the brokers of this route even when nothing is moving."""
        return self.strategy is Strategy.HOMED and len(self.brokers) > 1

    def _one(self, key: int, home: str | None) -> str:
        if self.strategy is Strategy.HOMED and home in self.brokers:
            assert home is not None
            return home
        return self.brokers[key % len(self.brokers)]


def route(
    epoch: int,
    strategy: Strategy,
    brokers: Collection[str],
    processor: Processor | None = None,
    delegation: Delegation | None = None,
) -> Route:
    """A route from brokers in any order."""
    return Route(epoch, strategy, tuple(sorted(set(brokers))), processor, delegation)


def brokers_of(routes: Collection[Route]) -> tuple[str, ...]:
    """Every broker that any of these routes names, sorted."""
    return tuple(sorted({broker for each in routes for broker in each.brokers}))
