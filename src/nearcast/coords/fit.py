"""A map from all measurements at once: what a coordinator, who sees them all, can add to what each node found out.

Nodes move so that the relative error of the measured pairs gets small, in the mean of absolute values, which a few wild
pairs cannot spoil. It begins where the nodes say that they are. Deterministic.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nearcast.coords.coordinate import HEIGHT_MIN_S

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_ROUNDS = 1500
_STEP_S = 0.004  # at first; it falls to nothing
_ROUND = 0.02  # errors smaller than this pull in proportion to themselves,
_ROUND_MORE = 1.0  # and larger ones too at first: nobody is given up before everybody has found a place
_FLOOR_S = 0.005  # of round trips that are shorter, what was measured is believed, and not this map
_NEAR_S = 1e-6
_MEAN_KEPT, _SQUARE_KEPT = 0.9, 0.999  # Adam's (Kingma and Ba), with their usual values


def fitted(
    vec: Floats, height: Floats, one: Ints, other: Ints, rtt_s: Floats, *, rounds: int = _ROUNDS
) -> tuple[Floats, Floats]:
    """Vectors and heights of all nodes, in seconds, for measurements `rtt_s` between nodes `one` and `other`.

    Who is measured by nobody stays where it was.
    """
    at = np.concatenate((vec, height[:, None]), axis=1)
    mean, square = np.zeros_like(at), np.zeros_like(at)
    for number in range(1, rounds + 1):
        left = 1.0 - (number - 1) / rounds
        slope = _slope(at, one, other, rtt_s, _ROUND + _ROUND_MORE * max(0.0, 2.0 * left - 1.0))
        mean = _MEAN_KEPT * mean + (1.0 - _MEAN_KEPT) * slope
        square = _SQUARE_KEPT * square + (1.0 - _SQUARE_KEPT) * slope**2
        step_s = _STEP_S * left
        usual = np.sqrt(square / (1.0 - _SQUARE_KEPT**number)) + 1e-12
        at = at - step_s * mean / (1.0 - _MEAN_KEPT**number) / usual
        at[:, -1] = np.maximum(at[:, -1], HEIGHT_MIN_S)
    return at[:, :-1], at[:, -1]


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
