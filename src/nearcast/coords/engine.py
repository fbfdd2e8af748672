"""Vivaldi for thousands of nodes at once: the arithmetic of `vivaldi`, with arrays in the place of nodes.

In a round every node takes in one measurement of one peer, and sees the peer as it was before the round. There is no
latency filter: what is measured here comes from tables of medians, in which there is nothing to filter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearcast.coords.coordinate import DIMENSIONS, ERROR_MAX, HEIGHT_MIN_S, NEAR_S, Coordinate
from nearcast.coords.vivaldi import CC, CE, HEIGHT_FIRST_S, RHO, WINDOW

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_NANOSECONDS = 1e9


class Engine:
    """The coordinates of `count` nodes. Arrays are the engine's own: read them between rounds, and do not write."""

    def __init__(self, count: int, rng: np.random.Generator, *, dimensions: int = DIMENSIONS) -> None:
        self.vec: Floats = np.zeros((count, dimensions))
        self.height: Floats = np.full(count, HEIGHT_FIRST_S)
        self.adjustment: Floats = np.zeros(count)
        self.error: Floats = np.full(count, ERROR_MAX)
        self._beyond: Floats = np.zeros((count, WINDOW))
        self._at = np.zeros(count, dtype=np.intp)
        self._rng = rng

    def __len__(self) -> int:
        return len(self.vec)

    def coordinate(self, node: int) -> Coordinate:
        vec = tuple(self.vec[node].tolist())
        return Coordinate(vec, float(self.height[node]), float(self.adjustment[node]), float(self.error[node]))

    def step(self, peer: Ints, rtt_s: Floats) -> None:
        """Node i measures `peer[i]` at `rtt_s[i]`; one whose time is NaN measures nothing."""
        node = np.flatnonzero(np.isfinite(rtt_s))
        peer, rtt_s = peer[node], np.maximum(rtt_s[node], NEAR_S)
        peer_vec, peer_height = self.vec[peer], self.height[peer]
        distance_s = self._distance_s(node, peer)
        own_error = self.error[node]
        weight = own_error / np.maximum(own_error + self.error[peer], NEAR_S)
        wrong = np.abs(distance_s - rtt_s) / rtt_s
        error = np.minimum(CE * weight * wrong + own_error * (1.0 - CE * weight), ERROR_MAX)

        vec, height = self._pushed(
            self.vec[node], self.height[node], CC * weight * (rtt_s - distance_s), peer_vec, peer_height
        )
        beyond = rtt_s - (np.linalg.norm(vec - peer_vec, axis=1) + height + peer_height)
        self._beyond[node, self._at[node]] = beyond
        self._at[node] = (self._at[node] + 1) % WINDOW
        adjustment = self._beyond[node].sum(axis=1) / (2.0 * WINDOW)

        raw_s = np.linalg.norm(vec, axis=1) + height + HEIGHT_MIN_S
        from_origin_s = _whole(np.where(raw_s + adjustment > 0.0, raw_s + adjustment, raw_s))
        vec, height = self._pushed(
            vec, height, -((from_origin_s / RHO) ** 2), np.zeros_like(vec), np.full(len(node), HEIGHT_MIN_S)
        )
        self.vec[node], self.height[node], self.adjustment[node], self.error[node] = vec, height, adjustment, error

    def distances_s(self, one: Ints, other: Ints) -> Floats:
        """Predicted round-trip times between the nodes of two lists, pair by pair."""
        return self._distance_s(one, other)

    def _distance_s(self, one: Ints, other: Ints) -> Floats:
        raw_s = np.linalg.norm(self.vec[one] - self.vec[other], axis=1) + self.height[one] + self.height[other]
        adjusted_s = raw_s + self.adjustment[one] + self.adjustment[other]
        return _whole(np.where(adjusted_s > 0.0, adjusted_s, raw_s))

    def _pushed(
        self, vec: Floats, height: Floats, force: Floats, other_vec: Floats, other_height: Floats
    ) -> tuple[Floats, Floats]:
        way = vec - other_vec
        apart = np.linalg.norm(way, axis=1)
        near = apart <= NEAR_S
        if near.any():
            way[near] = self._rng.random((int(near.sum()), vec.shape[1])) - 0.5
        length = np.where(near, np.linalg.norm(way, axis=1), apart)
        moved = vec + way * (force / length)[:, None]
        pushed = (height + other_height) * force / np.where(near, 1.0, apart) + height
        return moved, np.where(near, height, np.maximum(pushed, HEIGHT_MIN_S))


def _whole(values_s: Floats) -> Floats:
    """In whole nanoseconds."""
    return np.asarray(np.trunc(values_s * _NANOSECONDS) / _NANOSECONDS)
