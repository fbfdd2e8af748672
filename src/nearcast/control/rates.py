"""Bytes a second of many things, each over the last so many seconds: what comes in bursts counts evenly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class MovingRates:
    """Amounts are kept in slots of `slot_s`, for `window_s`; things are numbered from 0, and may come at any time.

    The window should hold the longest period of what is counted, or rates come and go with it. Until it has passed
    once, rates are over the time since the first slot began.
    """

    __slots__ = ("_begun", "_last", "_slot_s", "_sums")

    def __init__(self, window_s: float, slot_s: float) -> None:
        self._slot_s = slot_s
        self._sums: Floats = np.zeros((max(1, round(window_s / slot_s)), 0))
        self._begun: int | None = None
        self._last = 0

    def add(self, at_s: float, which: Ints, size_bytes: Floats) -> None:
        """Of a thing that is named twice both count. What is older than the window is forgotten at once."""
        slot = self._slot(at_s)
        self._begun = slot if self._begun is None else min(self._begun, slot)
        self._advance(slot)
        if self._last - slot >= len(self._sums):
            return
        missing = int(which.max(initial=-1)) + 1 - self._sums.shape[1]
        if missing > 0:
            self._sums = np.concatenate((self._sums, np.zeros((len(self._sums), missing))), axis=1)
        np.add.at(self._sums[slot % len(self._sums)], which, size_bytes)

    def rates(self, now_s: float, count: int) -> Floats:
        """Of the first `count` things, in bytes a second, up to now; 0 for those of which nothing was heard."""
        self._advance(self._slot(now_s))
        found = np.zeros(count)
        if self._begun is None:
            return found
        slots = min(len(self._sums), self._last - self._begun + 1)
        known = self._sums.sum(axis=0)[:count]
        found[: len(known)] = known / (slots * self._slot_s)
        return found

    def forget(self, which: int) -> None:
        """Another thing may have its number from now on."""
        if which < self._sums.shape[1]:
            self._sums[:, which] = 0.0

    def _slot(self, at_s: float) -> int:
        return math.floor(at_s / self._slot_s)

    def _advance(self, slot: int) -> None:
        for passed in range(max(self._last + 1, slot - len(self._sums) + 1), slot + 1):
            self._sums[passed % len(self._sums)] = 0.0
        self._last = max(self._last, slot)


class KeyRates:
    """Of things that come and go by name. What was added since the last look counts as of that look."""

    __slots__ = ("_added", "_free", "_numbers", "_rates")

    def __init__(self, window_s: float, slot_s: float) -> None:
        self._rates = MovingRates(window_s, slot_s)
        self._added: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []

    def add(self, key: str, size_bytes: int) -> None:
        self._added[key] = self._added.get(key, 0) + size_bytes

    def forget(self, key: str) -> None:
        self._added.pop(key, None)
        number = self._numbers.pop(key, None)
        if number is not None:
            self._rates.forget(number)
            self._free.append(number)

    def look(self, now_s: float) -> dict[str, float]:
        """Bytes a second by key; those of which nothing was heard are missing."""
        for key in self._added:
            if key not in self._numbers:
                self._numbers[key] = self._free.pop() if self._free else len(self._numbers)
        if self._added:
            which = np.array([self._numbers[key] for key in self._added], dtype=np.int64)
            self._rates.add(now_s, which, np.array(list(self._added.values()), dtype=np.float64))
            self._added.clear()
        found = self._rates.rates(now_s, len(self._numbers) + len(self._free)).tolist()
        return {key: found[number] for key, number in self._numbers.items()}
