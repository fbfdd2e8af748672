"""The consistent hash ring: which broker has a topic that no route names.

Every broker has `vnodes` points on a circle of 2**64 positions; a topic belongs to the broker of the first point at or
after the topic's own position. Positions depend on names alone, never on the process, the platform or the order in
which brokers joined, so every client finds the same owner without asking.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import RingError

# A broker's share deviates from 1/n by about 1/sqrt(vnodes) of itself: 3 % here. So 1.2/n, the most that may move when
# a broker comes or goes, is some six deviations away for every broker of a ring, whatever the brokers are called.
DEFAULT_VNODES = 1024

_GOLDEN_64 = 0x9E3779B97F4A7C15
_MIX_A = 0xBF58476D1CE4E5B9
_MIX_B = 0x94D049BB133111EB
_MASK_64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class _Circle:
    """All points in ascending order, and for each the index of its broker."""

    positions: NDArray[np.uint64]
    brokers: NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Ring:
    """An immutable ring. Brokers are kept sorted, so two rings of the same brokers are equal."""

    brokers: tuple[str, ...]
    version: int = 0
    vnodes: int = DEFAULT_VNODES
    _circle: _Circle = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        brokers = tuple(sorted(self.brokers))
        if not brokers:
            raise RingError("a ring needs at least one broker: with none, no topic has an owner")
        for name, after in pairwise(brokers):
            if name == after:
                raise RingError(f"broker {name!r} is in the ring twice; give each broker a name of its own")
        if self.vnodes < 1:
            raise RingError(f"vnodes is {self.vnodes}; a broker needs at least one point on the ring")
        object.__setattr__(self, "brokers", brokers)
        object.__setattr__(self, "_circle", _circle_of(brokers, self.vnodes))

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...], int, int]]:
        # The circle follows from the rest: it is rebuilt (or found again), not sent or copied.
        return type(self), (self.brokers, self.version, self.vnodes)

    def owner(self, topic: str) -> str:
        """Return the broker of one topic."""
        circle = self._circle
        # bisect on a memoryview compares Python ints: for a single topic this is faster than a call into numpy.
        at = bisect_left(circle.positions.data, topic_position(topic))
        return self.brokers[int(circle.brokers[at % len(circle.brokers)])]

    def owners(self, topics: Sequence[str]) -> list[str]:
        """Return the broker of each topic, in the order given."""
        return [self.brokers[index] for index in self.owner_indices(topic_positions(topics)).tolist()]

    def owner_indices(self, positions: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return for each position the index, in `brokers`, of its owner. For callers that ask many rings."""
        circle = self._circle
        at = np.searchsorted(circle.positions, positions, side="left")
        at[at == len(circle.positions)] = 0
        return circle.brokers[at]

    def with_broker(self, name: str) -> Self:
        """Return the next version of this ring, with one more broker."""
        if name in self.brokers:
            raise RingError(f"broker {name!r} is already in the ring (version {self.version})")
        return type(self)((*self.brokers, name), self.version + 1, self.vnodes)

    def without_broker(self, name: str) -> Self:
        """Return the next version of this ring, with one broker less."""
        if name not in self.brokers:
            raise RingError(f"broker {name!r} is not in the ring (version {self.version}: {', '.join(self.brokers)})")
        if len(self.brokers) == 1:
            raise RingError(f"broker {name!r} is the last one in the ring; add another before it is removed")
        return type(self)(tuple(b for b in self.brokers if b != name), self.version + 1, self.vnodes)


def topic_position(topic: str) -> int:
    """Return a topic's place on the circle."""
    return _stable_hash(topic, b"topic")


def topic_positions(topics: Iterable[str]) -> NDArray[np.uint64]:
    """Return the places of many topics. Worth keeping by a caller that asks more than one ring about them."""
    return np.fromiter((_stable_hash(topic, b"topic") for topic in topics), dtype=np.uint64)


def broker_positions_plain(broker: str, vnodes: int) -> list[int]:
    """Return a broker's points, computed one by one: the definition that the vectorised form is tested against.

    The points are the output of the splitmix64 generator, started at the hash of the broker's name.
    """
    positions = []
    state = _stable_hash(broker, b"broker")
    for _ in range(vnodes):
        state = (state + _GOLDEN_64) & _MASK_64
        mixed = ((state ^ (state >> 30)) * _MIX_A) & _MASK_64
        mixed = ((mixed ^ (mixed >> 27)) * _MIX_B) & _MASK_64
        positions.append(mixed ^ (mixed >> 31))
    return positions


def _broker_positions(seeds: NDArray[np.uint64], vnodes: int) -> NDArray[np.uint64]:
    """Return a row of points per seed; uint64 arithmetic wraps by itself."""
    steps = np.arange(1, vnodes + 1, dtype=np.uint64) * np.uint64(_GOLDEN_64)
    mixed: NDArray[np.uint64] = seeds[:, None] + steps[None, :]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX_A)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX_B)
    mixed ^= mixed >> np.uint64(31)
    return mixed


# Simulated fleets hold the same few rings in every client: they share one circle each.
@lru_cache(maxsize=64)
def _circle_of(brokers: tuple[str, ...], vnodes: int) -> _Circle:
    seeds = np.fromiter((_stable_hash(broker, b"broker") for broker in brokers), dtype=np.uint64)
    positions = _broker_positions(seeds, vnodes).ravel()
    # A stable sort of points that are laid out by broker name: should two points coincide, the first name has it.
    order = np.argsort(positions, kind="stable")
    circle = _Circle(positions[order], (order // vnodes).astype(np.intp))
    circle.positions.flags.writeable = False
    circle.brokers.flags.writeable = False
    return circle


def _stable_hash(name: str, kind: bytes) -> int:
    # Topics and brokers are hashed apart, so that a topic named like a broker is not tied to it.
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8, person=kind).digest(), "little")
