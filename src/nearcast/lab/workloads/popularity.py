"""How unevenly real topics are liked: weights from a table of real counts, for workloads that take some."""

import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import ConfigError

_COUNT_COLUMN = "subscribers"


def read_weights(path: Path) -> NDArray[np.float64]:
    """The weight of every row of a CSV file (or .csv.gz), descending: its `subscribers`, else the sum of its counts.

    Counts are the columns whose names are numbers (minutes, in a table of invocations per minute). Rows of weight 0
    are left out. ConfigError when nothing is left, or the file cannot be read.
    """
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            rows = csv.reader(file)
            header = next(rows, [])
            columns = [at for at, name in enumerate(header) if name == _COUNT_COLUMN] or [
                at for at, name in enumerate(header) if name.isdigit()
            ]
            weights = np.array([sum(float(row[at] or 0.0) for at in columns) for row in rows])
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(f"cannot read topic weights from {path}: {error}") from error
    weights = weights[weights > 0.0]
    if not len(weights):
        raise ConfigError(f"{path} has no column {_COUNT_COLUMN!r} and no columns of counts named by numbers")
    return np.sort(weights)[::-1]


def weights_for(weights: NDArray[np.float64], topics: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Weights of `topics` topics that sum to 1, as uneven as `weights`: a sample of them, in random order."""
    chosen = rng.choice(weights, topics, replace=topics > len(weights))
    return np.asarray(chosen / chosen.sum())
