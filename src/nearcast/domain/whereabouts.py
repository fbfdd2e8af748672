"""Where a broker and the clients of its topics are, as its agent reports it (ePulsar, section 3.2).

What is said of a topic is of the same size however many clients it has. Distances between spots are round-trip times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of the space of network coordinates and a height above it, in seconds."""

    vec: tuple[float, ...]
    height: float


def along_s(one: Spot, other: Spot) -> float:
    """Along the space, without the heights."""
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(one.vec, other.vec, strict=True)))


def distance_s(one: Spot, other: Spot) -> float:
    """The round trip between them."""
    return along_s(one, other) + one.height + other.height


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of messages from publish to receipt, on `samples` of them; wrong by up to `uncertainty_s`, as clocks are."""

    samples: int
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float
    uncertainty_s: float = 0.0

    def at(self, percentile: int) -> float:
        """In seconds, for one of `slo.PERCENTILES`."""
        found: float = getattr(self, f"p{percentile}_s")
        return found


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """One topic at one broker.

    `publishers` and `subscribers` are the middles of each; None where nobody is, or nobody has said where.
    `deviation_s` is W(t): how far the farthest of both sides are from their middles, along the space and in height.
    `worst_s` is E(t): the longest round trip of a publisher to this broker plus the longest of a subscriber, measured
    where a client measured it. `latencies` None: nothing was measured lately. `elsewhere`: what E(t) would be at some
    other brokers, those near by that every single client has measured.
    """

    topic: str
    publishers: Spot | None = None
    subscribers: Spot | None = None
    deviation_s: float = 0.0
    worst_s: float = 0.0
    latencies: Latencies | None = None
    elsewhere: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """One broker, its topics with clients that said where they are, and what its agent measured to its peers lately.

    `rtts_s`: round-trip times to other brokers, by name. `clock_offset_s`: what to add to this agent's wall clock to
    get the fleet's, give or take `clock_uncertainty_s`.
    """

    broker: str
    at: Spot
    topics: tuple[TopicPlace, ...] = ()
    rtts_s: tuple[tuple[str, float], ...] = ()
    clock_offset_s: float = 0.0
    clock_uncertainty_s: float = 0.0
