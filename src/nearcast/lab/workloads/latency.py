"""Round-trip times between clients on a WAN and one cloud: a fitted distribution, or a matrix of real ones.

The distribution was fitted by maximum likelihood to the 5,698 finite round-trip times between the 76 cities of the
United States and Canada in WonderNetwork's 2020 pings (`latency/wondernetwork2020_avg_ms.npy` in the folder that
NEARCAST_DATA names; `tests/real` repeats the fit). Of the shapes tried, a Weibull has the smallest largest deviation of
the cumulative share: 0.029, against 0.057 for a lognormal and 0.070 for a normal. The paper took its values from North
America too, but from DNS servers in 2002, which were slower: its clients see 75 ms where these see 46 ms.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.errors import ConfigError

Floats = NDArray[np.float64]

SHAPE = 1.99
SCALE_MS = 52.1


@dataclass(frozen=True, slots=True)
class FittedRtt:
    """Round-trip times of clients anywhere in North America to a cloud somewhere in it."""

    shape: float = SHAPE
    scale_ms: float = SCALE_MS

    def sample(self, rng: np.random.Generator, clients: int) -> Floats:
        """One round-trip time per client, in ms."""
        return self.scale_ms * rng.weibull(self.shape, clients)

    def share_below(self, rtt_ms: Floats) -> Floats:
        """The share of clients with at most this round-trip time."""
        return np.asarray(1.0 - np.exp(-((rtt_ms / self.scale_ms) ** self.shape)))


@dataclass(frozen=True, slots=True)
class MeasuredRtt:
    """Round-trip times of one row of a real matrix: the cloud is at that row's site, clients at any of the others."""

    rtt_ms: tuple[float, ...]

    def sample(self, rng: np.random.Generator, clients: int) -> Floats:
        """One round-trip time per client, in ms; a site may have any number of clients."""
        return rng.choice(np.asarray(self.rtt_ms), clients)


Rtt = FittedRtt | MeasuredRtt


def fit(rtt_ms: Floats) -> FittedRtt:
    """The Weibull distribution under which these values are likeliest."""
    logs = np.log(rtt_ms)
    shape = 1.0
    for _ in range(200):  # A fixed-point iteration, damped; it has settled long before.
        powers = rtt_ms**shape
        shape = 0.5 * shape + 0.5 / float((powers * logs).sum() / powers.sum() - logs.mean())
    return FittedRtt(shape, float((rtt_ms**shape).mean() ** (1.0 / shape)))


def read_matrix(path: Path) -> MeasuredRtt:
    """The row of the best-placed site (smallest median) of a square .npy matrix in ms.

    NaN and the diagonal are left out. ConfigError when there is no such matrix.
    """
    try:
        matrix = np.load(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read a latency matrix from {path}: {error}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ConfigError(
            f"{path} holds an array of shape {matrix.shape}, not a square matrix of round-trip times in ms"
        )
    between = matrix.astype(np.float64)
    np.fill_diagonal(between, np.nan)
    between[~(between > 0.0)] = np.nan
    known = np.isfinite(between).sum(axis=1)
    if not (known * 2 > len(between)).any():
        raise ConfigError(f"{path}: no site has a round-trip time to more than half of the others")
    medians = np.full(len(between), np.inf)
    enough = known * 2 > len(between)
    medians[enough] = np.nanmedian(between[enough], axis=1)
    row = between[int(np.argmin(medians))]
    return MeasuredRtt(tuple(row[np.isfinite(row)].tolist()))
