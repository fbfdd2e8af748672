"""Network coordinates on a plane whose distances are latencies, heights included: landmark MDS, brokers the landmarks.

Laying out the coordinates' space alone would hide what their heights say: sites that are equally far from each other
are often found at one point of the space, with heights.
"""

from dataclasses import dataclass

import numpy as np

from nearcast.domain.places import Bools, Floats, Spots

MOST_LANDMARKS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """`lay` gives points, a row each, for spots of the space; NaN for those that are nowhere."""

    landmarks: Spots
    lift: Floats  # from squared distances to the landmarks, less their mean, to a point
    mean: Floats
    middle: Floats
    turn: Floats

    def lay(self, spots: Spots) -> Floats:
        squared = spots.to(self.landmarks) ** 2
        return self._laid(squared)

    def _laid(self, squared: Floats) -> Floats:
        return np.asarray((-0.5 * (squared - self.mean) @ self.lift - self.middle) @ self.turn)

    @classmethod
    def of(cls, landmarks: Spots) -> "Plane":
        """As they lie widest (classical MDS). With fewer than three, in a line or at a point."""
        count = len(landmarks)
        squared = _between(landmarks) ** 2
        centred = squared - squared.mean(axis=0) - squared.mean(axis=1)[:, None] + squared.mean()
        values, vectors = np.linalg.eigh(-0.5 * centred)
        best = np.argsort(values)[::-1][:2]
        wide = np.maximum(values[best], 0.0)
        lift = np.zeros((count, 2))
        for column, (value, place) in enumerate(zip(wide, best, strict=True)):
            if value > 1e-12:
                lift[:, column] = vectors[:, place] / np.sqrt(value)
        return cls(landmarks, lift, squared.mean(axis=0), np.zeros(2), np.eye(2))


def _between(spots: Spots) -> Floats:
    """Distances between landmarks; a broker is at no distance from itself, whatever its height."""
    apart = spots.to(spots)
    np.fill_diagonal(apart, 0.0)
    return apart


class Projection:
    """Remembers how it laid brokers out, so that the map does not turn or flip when coordinates move a little."""

    def __init__(self) -> None:
        self._before: dict[str, Floats] = {}

    def fit(self, names: tuple[str, ...], brokers: Spots) -> tuple[Plane, Floats]:
        """The plane, and where it has the brokers. Those that are nowhere count for nothing."""
        known: Bools = ~np.isnan(brokers.height)
        chosen = np.flatnonzero(known)[:MOST_LANDMARKS]
        if not len(chosen):
            return Plane(brokers[chosen], np.zeros((0, 2)), np.zeros(0), np.zeros(2), np.eye(2)), _nowhere(len(names))
        plane = Plane.of(brokers[chosen])
        laid = _nowhere(len(names))
        laid[known] = plane.lay(brokers[known])
        # A landmark to itself is no distance; `lay` would count its height twice.
        laid[chosen] = plane._laid(_between(plane.landmarks) ** 2)  # noqa: SLF001  # the same module
        middle, turn = self._turned(names, laid, known)
        plane = Plane(plane.landmarks, plane.lift, plane.mean, middle, turn)
        laid = (laid - middle) @ turn
        self._before = {name: laid[at] for at, name in enumerate(names) if known[at]}
        return plane, laid

    def _turned(self, names: tuple[str, ...], laid: Floats, known: Bools) -> tuple[Floats, Floats]:
        """The shift and turn that bring points closest to where they were (Procrustes)."""
        same = [(at, self._before[name]) for at, name in enumerate(names) if known[at] and name in self._before]
        if len(same) < 2:
            return np.zeros(2), np.eye(2)
        now = laid[[at for at, _ in same]]
        before = np.array([point for _, point in same])
        left, _, right = np.linalg.svd((now - now.mean(axis=0)).T @ (before - before.mean(axis=0)))
        turn = left @ right
        return np.asarray(now.mean(axis=0) - before.mean(axis=0) @ turn.T), turn


def _nowhere(count: int) -> Floats:
    return np.full((count, 2), np.nan)
