"""Rows of different lengths in one array: those of row r are the entries `first[r]` to `first[r + 1]`."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def entries_of(first: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """(which of the rows, which entry), for all entries of these rows."""
    count = first[rows + 1] - first[rows]
    row = np.repeat(np.arange(len(rows)), count)
    before = np.cumsum(count) - count
    return row, np.arange(len(row)) + (first[rows] - before)[row]
