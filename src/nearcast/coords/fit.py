"""A map from all measurements at once: what a coordinator, who sees them all, can add to what each node found out.

Nodes move so that the relative error of the measured pairs gets small, in the mean of absolute values, which a few wild
pairs cannot spoil. It begins where the nodes say that they are. Deterministic.

As far as pairs were not measured, what heights explain as well is not put into the space: a weak pull draws every node
to its middle. Else noise is fitted, and those pairs pay for it. Where all pairs were measured nobody pays, and a height
where the space would do is worth less: a client beside its broker would seem two heights away from it.

The map may have more dimensions than the nodes' own: 17 sites that are equally far apart need 16 of them, and with 8
some of these would seem a third too far. How many depends on what was measured: a node whose place has more parts than
it has peers that were measured could be anywhere, as far as the others are concerned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearcast.coords.coordinate import HEIGHT_MIN_S

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

MOST_DIMENSIONS = 16

_ROUNDS = 1500
_STEP_S = 0.004  # at first; it falls to nothing
_SMALL_STEP = 0.01  # of a usual round trip; it soon gets smaller, so that all come to rest
_ROUND = 0.02  # errors smaller than this pull in proportion to themselves,
_ROUND_MORE = 1.0  # and larger ones too at first: nobody is given up before everybody has found a place
_FLOOR_S = 0.005  # of round trips that are shorter, what was measured is believed, and not this map
_NEAR_S = 1e-6
_PULL = 0.06  # what a usual round trip's length from the middle weighs, in relative errors, where few pairs are known
_ASIDE_S = 0.001  # how far, at most, nodes begin off the space that they come from: nothing draws them off it later
_MEAN_KEPT, _SQUARE_KEPT = 0.9, 0.999  # Adam's (Kingma and Ba), with their usual values


def fitted(
    vec: Floats,
    height: Floats,
    one: Ints,
    other: Ints,
    rtt_s: Floats,
    *,
    rounds: int = _ROUNDS,
    most_dimensions: int = MOST_DIMENSIONS,
    gently: bool = False,
) -> tuple[Floats, Floats]:
    """Vectors and heights of all nodes, in seconds, for measurements `rtt_s` between nodes `one` and `other`.

    Vectors have at least as many dimensions as were given. Who is measured by nobody stays where it was. `gently`: from
    where nodes are by small steps only, for those who find their way by a map must be able to follow it.
    """
    measured = np.union1d(one, other)
    peers, known = _peers(one, other, len(measured))
    dimensions = min(most_dimensions, int(peers * max(1.0 / 3.0, known)))
    aside = np.zeros((len(vec), max(0, dimensions - vec.shape[1])))
    aside[measured] = np.random.default_rng(0).uniform(-_ASIDE_S, _ASIDE_S, (len(measured), aside.shape[1]))
    at = np.concatenate((vec, aside, height[:, None]), axis=1)
    mean, square = np.zeros_like(at), np.zeros_like(at)
    usual_s = max(float(np.median(rtt_s)), _FLOOR_S)
    first_s, more = (_SMALL_STEP * usual_s, 0.0) if gently else (_STEP_S, _ROUND_MORE)
    pull_per_s = _PULL * (1.0 - known) / usual_s
    for number in range(1, rounds + 1):
        left = 1.0 - (number - 1) / rounds
        slope = _slope(at, one, other, rtt_s, _ROUND + more * max(0.0, 2.0 * left - 1.0))
        slope[measured, :-1] += pull_per_s * _inwards(at[measured, :-1])
        mean = _MEAN_KEPT * mean + (1.0 - _MEAN_KEPT) * slope
        square = _SQUARE_KEPT * square + (1.0 - _SQUARE_KEPT) * slope**2
        step_s = first_s * (left**2 if gently else left)
        size = np.sqrt(square / (1.0 - _SQUARE_KEPT**number)) + 1e-12
        at = at - step_s * mean / (1.0 - _MEAN_KEPT**number) / size
        at[:, -1] = np.maximum(at[:, -1], HEIGHT_MIN_S)
    return at[:, :-1], at[:, -1]


def _peers(one: Ints, other: Ints, nodes: int) -> tuple[float, float]:
    """How many peers a node has that were measured, and what part that is of all others.

    A place has as many parts as that where all pairs were measured, and a third of it where most are to be predicted.
    """
    low, high = np.minimum(one, other), np.maximum(one, other)
    peers = 2.0 * len(np.unique(np.stack((low, high)), axis=1).T) / max(nodes, 1)
    return peers, min(1.0, peers / max(nodes - 1, 1))


def _inwards(vec: Floats) -> Floats:
    """How the mean length of vectors rises with each; nearer to the middle than a millisecond it is less."""
    return np.asarray(vec / np.sqrt(np.sum(vec**2, axis=1, keepdims=True) + _ASIDE_S**2) / len(vec))


def distances_s(vec: Floats, height: Floats, one: Ints, other: Ints) -> Floats:
    return np.asarray(np.linalg.norm(vec[one] - vec[other], axis=1) + height[one] + height[other])


def _slope(at: Floats, one: Ints, other: Ints, rtt_s: Floats, rounded: float) -> Floats:
    """How the mean error rises with each node's vector and height; errors below `rounded` count by their squares."""
    way = at[one, :-1] - at[other, :-1]
    apart = np.maximum(np.linalg.norm(way, axis=1), _NEAR_S)
    scale = np.maximum(rtt_s, _FLOOR_S)
    error = (apart + at[one, -1] + at[other, -1] - rtt_s) / scale
    pull = error / np.sqrt(error**2 + rounded**2) / scale / len(rtt_s)
    slope = np.zeros_like(at)
    along = way * (pull / apart)[:, None]
    for column in range(way.shape[1]):
        slope[:, column] = np.bincount(one, along[:, column], len(at)) - np.bincount(other, along[:, column], len(at))
    slope[:, -1] = np.bincount(one, pull, len(at)) + np.bincount(other, pull, len(at))
    return slope
