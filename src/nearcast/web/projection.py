"""Network coordinates, of however many dimensions, on a plane: as they lie widest, and turned as they were before."""

import numpy as np

from nearcast.domain.places import Bools, Floats


class Projection:
    """Remembers how it laid brokers out, so that the map does not turn or flip when coordinates move a little."""

    def __init__(self) -> None:
        self._before: dict[str, Floats] = {}

    def fit(self, names: tuple[str, ...], vec: Floats) -> tuple[Floats, Floats]:
        """(middle, axes) such that `(vec - middle) @ axes` are points of the plane. Rows with NaN count for nothing."""
        known: Bools = np.asarray(~np.isnan(vec).any(axis=1))
        points = vec[known]
        size = vec.shape[1]
        if not len(points):
            return np.zeros(size), np.eye(size, 2)
        middle = points.mean(axis=0)
        _, _, rows = np.linalg.svd(points - middle, full_matrices=True)
        axes = np.zeros((size, 2))
        axes[:, : min(2, size)] = rows[:2].T
        axes = self._turned(names, (vec - middle) @ axes, known, axes)
        laid = (vec - middle) @ axes
        self._before = {name: laid[at] for at, name in enumerate(names) if known[at]}
        return middle, axes

    def _turned(self, names: tuple[str, ...], laid: Floats, known: Bools, axes: Floats) -> Floats:
        """The rotation or reflection of the plane that brings points closest to where they were (Procrustes)."""
        same = [(at, self._before[name]) for at, name in enumerate(names) if known[at] and name in self._before]
        if len(same) < 2:
            return axes
        now = laid[[at for at, _ in same]]
        before = np.array([point for _, point in same])
        left, _, right = np.linalg.svd((now - now.mean(axis=0)).T @ (before - before.mean(axis=0)))
        return np.asarray(axes @ (left @ right))
