"""How late topics were, look by look: arrays of a fixed length, so that a thousand topics cost some megabytes."""

import numpy as np

from nearcast.domain.places import Floats
from nearcast.wire.promises import PromiseStanding

LOOKS = 450
"""Kept: fifteen minutes at a look every two seconds."""

MOST_TOPICS = 4096
_FEW = 64


class History:
    """Of the topics that were seen first, at most `MOST_TOPICS`."""

    def __init__(self, looks: int = LOOKS) -> None:
        self._looks = looks
        self._at_s = np.full(looks, np.nan)
        self._count = 0
        self._column: dict[str, int] = {}
        self._measured = np.full((looks, _FEW), np.nan, dtype=np.float32)
        self._worst = self._measured.copy()

    def add(self, at_s: float, standings: dict[str, PromiseStanding]) -> None:
        row = self._count % self._looks
        self._count += 1
        for topic in standings:
            if topic not in self._column and len(self._column) < MOST_TOPICS:
                self._column[topic] = len(self._column)
        self._grow(len(self._column))
        self._at_s[row] = at_s
        self._measured[row] = self._worst[row] = np.nan
        known = [(self._column[topic], each) for topic, each in standings.items() if topic in self._column]
        if known:
            columns = [column for column, _ in known]
            self._measured[row, columns] = [_or_nan(each.measured_ms) for _, each in known]
            self._worst[row, columns] = [_or_nan(each.worst_ms) for _, each in known]

    def of(self, topic: str) -> tuple[Floats, Floats, Floats]:
        """(seconds since 1970, measured, worst case), the oldest first; NaN where nothing was known."""
        column = self._column.get(topic)
        if column is None:
            return np.empty(0), np.empty(0), np.empty(0)
        first = max(0, self._count - self._looks)
        rows = np.arange(first, self._count) % self._looks
        measured, worst = self._measured[rows, column].astype(float), self._worst[rows, column].astype(float)
        seen = np.flatnonzero(~(np.isnan(measured) & np.isnan(worst)))
        begin = int(seen[0]) if len(seen) else len(rows)
        return self._at_s[rows][begin:], measured[begin:], worst[begin:]

    def _grow(self, columns: int) -> None:
        while columns > self._measured.shape[1]:
            more = np.full_like(self._measured, np.nan)
            self._measured = np.concatenate([self._measured, more], axis=1)
            self._worst = np.concatenate([self._worst, more], axis=1)


def _or_nan(value: float | None) -> float:
    return np.nan if value is None else value
