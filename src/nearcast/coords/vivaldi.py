"""Vivaldi: one node's coordinate, drawn by springs between it and the nodes it measures.

`updated` is the whole of it: a state and one measurement give the next state, and nothing else changes. With the same
measurements it ends, bit for bit, where HashiCorp's Serf 0.9.4 does, whose constants these are (coordinate/config.go):
the latency filter and the adjustment window come from Ledlie and others ("Network Coordinates in the Wild"), and
gravity keeps all nodes together from drifting away.

Only where a node begins is ours: at a height of 1 ms, where Serf begins at the least that it allows. Heights grow in
proportion to themselves; from 10 us on, what should be height has gone into the vectors before they are there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from nearcast.coords.coordinate import ERROR_MAX, HEIGHT_MIN_S, NEAR_S, Coordinate, magnitude, minus
from nearcast.domain.errors import BadSample

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Chance = Callable[[], float]  # uniform between 0 and 1: `Random.random`, say

CE = 0.25  # how fast the error follows
CC = 0.25  # how far one measurement moves the node
FILTER_SIZE = 3  # the median of so many measurements of one peer counts
WINDOW = 20  # how many measurements the adjustment is the mean of
RHO = 150.0  # how weak gravity is
RTT_MAX_S = 10.0
HEIGHT_FIRST_S = 1e-3


@dataclass(frozen=True, slots=True)
class Vivaldi:
    """What a node knows.

    `recent`: its last measurements of each peer. `beyond`: by how much they exceeded the raw distance, a ring of
    `WINDOW`; `at` is the next place in it. `resets`: how often it had to begin anew.
    """

    coordinate: Coordinate = field(default_factory=lambda: Coordinate(height=HEIGHT_FIRST_S))
    recent: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    beyond: tuple[float, ...] = (0.0,) * WINDOW
    at: int = 0
    resets: int = 0


def updated(state: Vivaldi, peer: str, other: Coordinate, rtt_s: float, chance: Chance) -> Vivaldi:
    """The state after one measurement. BadSample, and nothing has changed, for one that cannot be.

    `chance` gives a direction where there is none, between two nodes at the same place.
    """
    own = state.coordinate
    if len(other.vec) != len(own.vec):
        raise BadSample(f"{peer}: a coordinate of {len(other.vec)} dimensions; ours have {len(own.vec)}")
    if not other.is_valid:
        raise BadSample(f"{peer}: a coordinate that no node can have: {other}")
    if not 0.0 <= rtt_s <= RTT_MAX_S:
        raise BadSample(f"{peer}: a round-trip time of {rtt_s} s; expected 0 to {RTT_MAX_S:g}")
    recent = (*state.recent.get(peer, ()), rtt_s)[-FILTER_SIZE:]
    rtt_s = sorted(recent)[len(recent) // 2]

    moved = _pulled(own, other, rtt_s, chance)
    beyond = list(state.beyond)
    beyond[state.at] = rtt_s - moved.raw_distance_s(other)
    moved = replace(moved, adjustment=_sum(beyond) / (2.0 * WINDOW))
    origin = Coordinate(vec=(0.0,) * len(own.vec))
    moved = pushed(moved, -((origin.distance_s(moved) / RHO) ** 2.0), origin, chance)
    return Vivaldi(
        moved if moved.is_valid else origin,
        MappingProxyType({**state.recent, peer: recent}),
        tuple(beyond),
        (state.at + 1) % WINDOW,
        state.resets + (not moved.is_valid),
    )


def forgotten(state: Vivaldi, peer: str) -> Vivaldi:
    """The state without a peer that is gone."""
    return replace(state, recent=MappingProxyType({name: seen for name, seen in state.recent.items() if name != peer}))


def pushed(own: Coordinate, force: float, other: Coordinate, chance: Chance) -> Coordinate:
    """Moved by `force` away from the other."""
    direction, apart = _direction(own.vec, other.vec, chance)
    vec = tuple(a + b * force for a, b in zip(own.vec, direction, strict=True))
    height = own.height
    if apart > NEAR_S:
        height = max((own.height + other.height) * force / apart + own.height, HEIGHT_MIN_S)
    return replace(own, vec=vec, height=height)


def _pulled(own: Coordinate, other: Coordinate, rtt_s: float, chance: Chance) -> Coordinate:
    distance_s = own.distance_s(other)
    rtt_s = max(rtt_s, NEAR_S)
    wrong = abs(distance_s - rtt_s) / rtt_s
    weight = own.error / max(own.error + other.error, NEAR_S)
    error = min(CE * weight * wrong + own.error * (1.0 - CE * weight), ERROR_MAX)
    return pushed(replace(own, error=error), CC * weight * (rtt_s - distance_s), other, chance)


def _direction(one: tuple[float, ...], other: tuple[float, ...], chance: Chance) -> tuple[tuple[float, ...], float]:
    """From the other to this one, of length 1, and how far they are apart; any, and 0, where they are at one place."""
    way = minus(one, other)
    if (apart := magnitude(way)) > NEAR_S:
        return _scaled(way, 1.0 / apart), apart
    way = tuple(chance() - 0.5 for _ in one)
    if (length := magnitude(way)) > NEAR_S:
        return _scaled(way, 1.0 / length), 0.0
    return (1.0, *(0.0 for _ in one[1:])), 0.0


def _scaled(vec: tuple[float, ...], factor: float) -> tuple[float, ...]:
    return tuple(each * factor for each in vec)


def _sum(values: list[float]) -> float:
    """In order, one rounding each. (From Python 3.12 on `sum` rounds otherwise.)"""
    total = 0.0
    for each in values:
        total += each
    return total
