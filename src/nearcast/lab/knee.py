"""Which of many figures tells another best, and where a rising curve has its knee."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LEAST_BEND = 0.1  # of the way from the chord to the corner: less is no knee
_LEAST_POINTS = 5


def ranks(values: ArrayLike) -> NDArray[np.float64]:
    """From 1; equal values share the mean of their ranks."""
    _, where, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[where])


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Spearman's; 0 where one of them is the same everywhere."""
    left, right = ranks(one), ranks(other)
    left, right = left - left.mean(), right - right.mean()
    scale = float(np.sqrt((left**2).sum() * (right**2).sum()))
    return float((left * right).sum()) / scale if scale else 0.0


def best_tellers(figures: Mapping[str, Sequence[float]], of: Sequence[float]) -> dict[str, float]:
    """The rank correlation of each with `of`, the strongest first, the first by name of equals."""
    found = {name: rank_correlation(values, of) for name, values in figures.items()}
    return dict(sorted(found.items(), key=lambda each: (-abs(each[1]), each[0])))


def rising(values: ArrayLike) -> NDArray[np.float64]:
    """The nearest curve that never falls (least squares, by pooling neighbours)."""
    level: list[float] = []
    weight: list[int] = []
    for value in np.asarray(values, dtype=np.float64).tolist():
        level.append(value)
        weight.append(1)
        while len(level) > 1 and level[-2] > level[-1]:
            pooled = weight[-2] + weight[-1]
            level[-2:] = [(level[-2] * weight[-2] + level[-1] * weight[-1]) / pooled]
            weight[-2:] = [pooled]
    return np.repeat(level, weight)


def knee(at: ArrayLike, values: ArrayLike) -> float | None:
    """Where values that rise with `at` leave the floor: the point farthest below the chord (Kneedle).

    By the logarithms of both, so that a ceiling far above does not hide the floor, and smoothed so that the values
    never fall. None where there is no such point, or too few. All must be more than 0.
    """
    x, y = np.log(np.asarray(at, dtype=np.float64)), np.log(np.asarray(values, dtype=np.float64))
    if len(x) < _LEAST_POINTS:
        return None
    order = np.argsort(x, kind="stable")
    x, y = x[order], rising(y[order])
    if x[-1] <= x[0] or y[-1] <= y[0]:
        return None
    bend = (x - x[0]) / (x[-1] - x[0]) - (y - y[0]) / (y[-1] - y[0])
    best = int(bend.argmax())
    return float(np.exp(x[best])) if bend[best] >= _LEAST_BEND else None
