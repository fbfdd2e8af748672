"""EP-1 and EP-2: how well network coordinates predict round-trip times, and what they cost.

The star of Figure 3: every node has the same way to a switch in the middle, 10 to 200 ms between any two. A measurement
is that and a little more, exponential with a mean of 0.2 ms (ours: what a quiet emulated network adds). Ten minutes of
one measurement a second, of a random peer, with the code that agents run.

Real round-trip times, when `--data` names the folder: each node measures random others a thousand times. Beside it what
HashiCorp's Serf reached on the same matrices, and what a coordinator can make of the measurements of 32 peers a node,
judged by the pairs that nobody measured. A prediction below 5 ms is not worth much: the table of buckets shows it.
"""

import random
import time
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearcast.coords.coordinate import Coordinate
from nearcast.coords.engine import Engine
from nearcast.coords.fit import distances_s, fitted
from nearcast.coords.vivaldi import Vivaldi, updated
from nearcast.domain.errors import ConfigError
from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

NAME = "epulsar.coordinates"
_NODES = (2, 4, 8, 16, 32, 64, 128)
_RTTS_MS = (10.0, 25.0, 50.0, 100.0, 200.0)
_QUICK_NODES, _QUICK_RTTS_MS = (2, 8, 32), (10.0, 50.0, 200.0)
_JITTER_S = 0.0002
_WARM_UP = 600
_PEERS_OF_ONE = 128
_COST_UPDATES = 5_000
_EVERY_S = 1.0  # how often an agent measures
_ROUNDS = 1_000
_PARTS = 16  # a round in so many steps: nodes do not all measure at the same instant
_SEEDS = 5
_FIT_PEERS = 32
_BUCKETS_MS = (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, np.inf)

STAR_MS = Expectation("EP-1", "largest p95 error of a predicted round-trip time on a star (ms)", "< 3.5")
STAR_PART = Expectation("EP-1", "largest p95 error on a star as a part of the round-trip time", "< 0.06")
CPU = Expectation("EP-2", "share of a core for a measurement a second", "< 0.01")
MEMORY = Expectation("EP-2", "memory of a node that knows 128 peers (MB)", "< 15")


@dataclass(frozen=True, slots=True)
class _Matrix:
    """A matrix of real round-trip times; what Serf reached on it: median and 90th percentile of the relative error, and
    what a batch fit did on unmeasured pairs. The figures are those that come with the data."""

    label: str
    file: str
    serf: tuple[float, float]
    batch: tuple[float, float]

    def no_worse(self, what: str, than: str) -> tuple[Expectation, Expectation]:
        return (
            Expectation("EP-1", f"{self.label}: median relative error {what}, over {than}", "<= 1.0"),
            Expectation("EP-1", f"{self.label}: 90th percentile of it {what}, over {than}", "<= 1.0"),
        )

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        return (*self.no_worse("of nodes", "Serf's"), *self.no_worse("of a fit", "a batch fit's"))


_MATRICES = (
    _Matrix("PlanetLab", "latency/planetlab490_median_ms.npy", (0.068, 0.284), (0.061, 0.227)),
    _Matrix("WonderNetwork", "latency/wondernetwork2020_avg_ms.npy", (0.073, 0.293), (0.059, 0.243)),
)


class StarRow(NamedTuple):
    nodes: int
    rtt_ms: float
    p50_error_ms: float
    p95_error_ms: float
    p95_part: float


class AccuracyRow(NamedTuple):
    matrix: str
    nodes: int
    method: str
    seed: int
    median: float
    p90: float
    known_median: float
    known_p90: float


class BucketRow(NamedTuple):
    matrix: str
    from_ms: float
    to_ms: float
    pairs: int
    median: float
    p90: float
    median_ms: float


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    sizes, rtts_ms = (_QUICK_NODES, _QUICK_RTTS_MS) if settings.quick else (_NODES, _RTTS_MS)
    stars = []
    for done, (nodes, rtt_ms) in enumerate([(nodes, rtt_ms) for nodes in sizes for rtt_ms in rtts_ms]):
        progress(done, len(sizes) * len(rtts_ms), f"star of {nodes} nodes, {rtt_ms:g} ms")
        stars.append(star(nodes, rtt_ms, settings.seed))
    cpu_share, memory_mb = cost(settings.seed)
    claims = [
        STAR_MS.judge(max(row.p95_error_ms for row in stars)),
        STAR_PART.judge(max(row.p95_part for row in stars)),
        CPU.judge(cpu_share),
        MEMORY.judge(memory_mb),
    ]
    tables = {"star": Table(StarRow._fields, tuple(tuple(row) for row in stars))}
    found: list[AccuracyRow] = []
    buckets: list[BucketRow] = []
    if settings.data is not None:
        count = settings.seeds or (1 if settings.quick else _SEEDS)
        for matrix in _MATRICES:
            rows, more = _on_real(matrix, settings.data, range(settings.seed, settings.seed + count), progress)
            claims += _no_worse(matrix, rows)
            found += rows
            buckets += more
        tables["accuracy"] = Table(AccuracyRow._fields, tuple(tuple(row) for row in found))
        tables["buckets"] = Table(BucketRow._fields, tuple(tuple(row) for row in buckets))
    return Outcome(
        claims=tuple(claims),
        metrics={"accuracy": _accuracy(found)},
        tables=tables,
        figures={
            "figure3": partial(_draw_star, stars),
            **({"buckets": partial(_draw_buckets, buckets)} if buckets else {}),
        },
    )


def star(nodes: int, rtt_ms: float, seed: int) -> StarRow:
    """The error of all pairs after the warm-up, against the round-trip time without jitter."""
    rng = random.Random(f"star {seed} {nodes} {rtt_ms}")
    states = [Vivaldi() for _ in range(nodes)]
    names = [f"n{number}" for number in range(nodes)]
    for _ in range(_WARM_UP):
        for one in rng.sample(range(nodes), nodes):
            other = rng.randrange(nodes - 1)
            other += other >= one
            rtt_s = rtt_ms / 1e3 + rng.expovariate(1 / _JITTER_S)
            states[one] = updated(states[one], names[other], states[other].coordinate, rtt_s, rng.random)
    at = [state.coordinate for state in states]
    errors_ms = [abs(a.distance_s(b) * 1e3 - rtt_ms) for i, a in enumerate(at) for b in at[:i]]
    p50, p95 = np.percentile(errors_ms, (50, 95)).tolist()
    return StarRow(nodes, rtt_ms, round(p50, 3), round(p95, 3), round(p95 / rtt_ms, 4))


def cost(seed: int) -> tuple[float, float]:
    """The share of a core that one node takes, and what it keeps in memory (MB)."""
    rng = random.Random(seed)
    peers = [Coordinate(tuple(rng.uniform(-0.1, 0.1) for _ in range(8))) for _ in range(_PEERS_OF_ONE)]
    samples = [(f"n{number}", rng.uniform(0.001, 0.2)) for number in range(_PEERS_OF_ONE)]
    tracemalloc.start()
    state = Vivaldi()
    for (name, rtt_s), peer in zip(samples, peers, strict=True):
        state = updated(state, name, peer, rtt_s, rng.random)
    memory_mb = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    begun_s = time.process_time()
    for number in range(_COST_UPDATES):
        name, rtt_s = samples[number % _PEERS_OF_ONE]
        state = updated(state, name, peers[number % _PEERS_OF_ONE], rtt_s, rng.random)
    used_s = (time.process_time() - begun_s) / _COST_UPDATES
    return round(used_s / _EVERY_S, 6), round(memory_mb, 3)


def read_square(path: Path) -> Floats:
    """Round-trip times in seconds; NaN where there is none."""
    try:
        matrix = np.load(path) / 1e3
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no matrix of round-trip times can be read there: {error}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ConfigError(f"{path}: expected a square matrix, found one of shape {matrix.shape}")
    np.fill_diagonal(matrix, np.nan)
    return np.where(matrix > 0.0, matrix, np.nan)


def converged(rtt_s: Floats, rng: np.random.Generator, *, rounds: int = _ROUNDS, peers: Ints | None = None) -> Engine:
    """Coordinates after every node has measured a random peer (of its own `peers`, or of all) in every round."""
    count = len(rtt_s)
    node = np.arange(count)
    engine = Engine(count, rng)
    for _ in range(rounds):
        if peers is None:
            peer = rng.integers(0, count - 1, count)
            peer += peer >= node
        else:
            peer = peers[node, rng.integers(0, peers.shape[1], count)]
        seen, part = rtt_s[node, peer], rng.integers(0, _PARTS, count)
        for number in range(_PARTS):
            engine.step(peer, np.where(part == number, seen, np.nan))
    return engine


def _on_real(
    matrix: _Matrix, data: Path, seeds: range, progress: Progress
) -> tuple[list[AccuracyRow], list[BucketRow]]:
    rtt_s = read_square(data / matrix.file)
    count = len(rtt_s)
    one, other = np.triu_indices(count, 1)
    real_s = rtt_s[one, other]
    rows, buckets = [], []
    for seed in seeds:
        progress(seed - seeds.start, len(seeds), f"{matrix.label}: {count} nodes")
        rng = np.random.default_rng(seed)
        own = _errors(converged(rtt_s, rng).distances_s(one, other), real_s)
        rows.append(AccuracyRow(matrix.label, count, "nodes", seed, *_quantiles(own), *matrix.serf))
        if seed == seeds.start:
            buckets = _buckets(matrix.label, real_s, own)
        peers = np.stack([rng.permutation(np.delete(np.arange(count), at))[:_FIT_PEERS] for at in range(count)])
        begun = converged(rtt_s, rng, rounds=300, peers=peers)
        near, far = np.repeat(np.arange(count), _FIT_PEERS), peers.ravel()
        known = np.isfinite(rtt_s[near, far])
        near, far = near[known], far[known]
        vec, height = fitted(begun.vec, begun.height, near, far, rtt_s[near, far])
        measured = np.zeros((count, count), dtype=np.bool_)
        measured[near, far] = measured[far, near] = True
        unseen = np.where(measured[one, other], np.nan, real_s)
        rest = _errors(distances_s(vec, height, one, other), unseen)
        rows.append(AccuracyRow(matrix.label, count, "fit", seed, *_quantiles(rest), *matrix.batch))
    return rows, buckets


def _errors(predicted_s: Floats, real_s: Floats) -> Floats:
    """Relative; NaN where nothing is known."""
    return np.abs(predicted_s - real_s) / real_s


def _quantiles(errors: Floats) -> tuple[float, float]:
    return round(float(np.nanmedian(errors)), 4), round(float(np.nanpercentile(errors, 90)), 4)


def _buckets(label: str, real_s: Floats, errors: Floats) -> list[BucketRow]:
    rows = []
    for low, high in pairwise(_BUCKETS_MS):
        within = (real_s * 1e3 >= low) & (real_s * 1e3 < high)
        if within.any():
            ms = round(float(np.median(errors[within] * real_s[within]) * 1e3), 2)
            rows.append(BucketRow(label, low, high, int(within.sum()), *_quantiles(errors[within]), ms))
    return rows


def _no_worse(matrix: _Matrix, rows: Iterable[AccuracyRow]) -> list[Claim]:
    claims = []
    for method, expected in (("nodes", matrix.expectations[:2]), ("fit", matrix.expectations[2:])):
        mine = [row for row in rows if row.method == method]
        claims += [
            expected[0].judge(round(float(np.mean([row.median / row.known_median for row in mine])), 3)),
            expected[1].judge(round(float(np.mean([row.p90 / row.known_p90 for row in mine])), 3)),
        ]
    return claims


def _accuracy(rows: list[AccuracyRow]) -> list[dict[str, str | float]]:
    """Means over seeds, beside what is known."""
    found: list[dict[str, str | float]] = []
    for label, method in dict.fromkeys((row.matrix, row.method) for row in rows):
        mine = [row for row in rows if (row.matrix, row.method) == (label, method)]
        found.append(
            {
                "matrix": label,
                "method": method,
                "seeds": len(mine),
                "median": round(float(np.mean([row.median for row in mine])), 4),
                "p90": round(float(np.mean([row.p90 for row in mine])), 4),
                "known_median": mine[0].known_median,
                "known_p90": mine[0].known_p90,
            }
        )
    return found


def _draw_star(rows: list[StarRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    for rtt_ms in dict.fromkeys(row.rtt_ms for row in rows):
        mine = [row for row in rows if row.rtt_ms == rtt_ms]
        axes.plot([row.nodes for row in mine], [row.p95_error_ms for row in mine], "o-", label=f"{rtt_ms:g} ms")
    axes.axhline(3.5, color="gray", linestyle="--", linewidth=1, label="3.5 ms")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("nodes on the star")
    axes.set_ylabel("p95 error of the predicted round-trip time (ms)")
    axes.legend(title="round-trip time", fontsize="small")
    axes.set_title("Network coordinates on a star (Figure 3)")


def _draw_buckets(rows: list[BucketRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    labels = [f"{low:g}-{high:g}" for low, high in pairwise(_BUCKETS_MS)]
    for number, label in enumerate(dict.fromkeys(row.matrix for row in rows)):
        mine = {f"{row.from_ms:g}-{row.to_ms:g}": row for row in rows if row.matrix == label}
        at = [x + 0.4 * number - 0.2 for x, name in enumerate(labels) if name in mine]
        axes.bar(at, [mine[name].median for name in labels if name in mine], 0.4, label=label)
    axes.set_xticks(range(len(labels)), labels)
    axes.set_yscale("log")
    axes.set_xlabel("round-trip time (ms)")
    axes.set_ylabel("median relative error")
    axes.legend()
    axes.set_title("Where coordinates are right: error by round-trip time")


EXPERIMENT = Experiment(
    name=NAME,
    paper="ePulsar, section 5.3",
    summary="network coordinates on a star and on real round-trip times: how wrong they are, and what they cost",
    expectations=(STAR_MS, STAR_PART, CPU, MEMORY, *(each for matrix in _MATRICES for each in matrix.expectations)),
    modes=("virtual",),
    measure=measure,
    options=("seeds", "data"),
)
