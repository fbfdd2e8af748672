"""EP-1 and EP-2: how well network coordinates predict round-trip times, and what they cost.

The star of Figure 3: every node has the same way to a switch in the middle, 10 to 200 ms between any two. A measurement
is that and a little more, exponential with a mean of 0.2 ms (ours: what a quiet emulated network adds). Ten minutes of
one measurement a second, of a random peer, with the code that agents run. What nodes have found out by then is shown,
and what is claimed is of the map that the leader makes of their measurements and hands back to them, which is what a
policy sees, after four minutes (24 times drawn). By themselves nodes need ten hours for a star: they have 8 dimensions,
in which no more than 9 are equally far apart.

Real round-trip times, when `--data` names the folder: each node measures random others a thousand times. Beside it what
HashiCorp's Serf reached on the same matrices, and what a coordinator can make of the measurements of 32 peers a node,
judged by the pairs that nobody measured; and clients that probe five of 64 brokers, judged by the others, with the
leader's map and without. All are means over seeds, at the precision of what they are compared with. A
prediction below 5 ms is not worth much: the table of buckets shows it, beside what one measurement is worth.
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

import msgspec
import numpy as np
from numpy.typing import NDArray

from nearcast.coords.chart import charted
from nearcast.coords.coordinate import Coordinate
from nearcast.coords.engine import Engine
from nearcast.coords.fit import distances_s, fitted
from nearcast.coords.vivaldi import Vivaldi, updated
from nearcast.domain.errors import ConfigError
from nearcast.domain.whereabouts import Spot
from nearcast.lab.anchored import clients_predict
from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings, Table
from nearcast.wire.places import Position

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
_REDRAWN = 24
_COST_PEERS = (1, 7, 31, 127)
_ASKED_EVERY_S = (1.0, 5.0)
_COST_UPDATES = 2_000
_EVERY_S = 1.0  # how often an agent measures
_ROUNDS = 1_000
_PARTS = 16  # a round in so many steps: nodes do not all measure at the same instant
_SEEDS = 20  # of five, the mean of a 90th percentile varies by 1 %, which is all that ours is better by
_FIT_PEERS = 32
_BUCKETS_MS = (0.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 400.0, np.inf)

STAR_MS = Expectation("EP-1", "largest p95 error on a star, of the leader's map (ms)", "< 3.5")
STAR_PART = Expectation("EP-1", "largest p95 error on a star, of the leader's map, over the RTT", "< 0.06")
CPU = Expectation("EP-2", "share of a core: a measurement a second, asked every second", "< 0.01")
MEMORY = Expectation("EP-2", "memory of a node on a star of 128 (MB)", "< 15")


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
    def expectations(self) -> dict[str, tuple[Expectation, Expectation]]:
        """By method."""
        return {
            "nodes": self.no_worse("of nodes", "Serf's"),
            "fit": self.no_worse("of a fit", "a batch fit's"),
            "clients": self.no_worse("of clients", "that without the leader's map"),
        }


_MATRICES = (
    _Matrix("PlanetLab", "latency/planetlab490_median_ms.npy", (0.068, 0.284), (0.061, 0.227)),
    _Matrix("WonderNetwork", "latency/wondernetwork2020_avg_ms.npy", (0.073, 0.293), (0.059, 0.243)),
)


class StarRow(NamedTuple):
    """`alone`: by the nodes' own coordinates. The others are of the leader's map."""

    nodes: int
    rtt_ms: float
    mean_error_ms: float
    p95_error_ms: float
    p95_part: float
    alone_mean_ms: float
    alone_p95_ms: float
    alone_p95_part: float


class CostRow(NamedTuple):
    nodes: int
    asked_every_s: float
    cpu_share: float
    memory_mb: float


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
    """Relative errors of predictions; `ends_differ`: by how much the two ends' own measurements do, where both are
    known. That is what a measurement is worth."""

    matrix: str
    from_ms: float
    to_ms: float
    pairs: int
    median: float
    p90: float
    median_ms: float
    ends_differ: float | None


def measure(settings: RunSettings, progress: Progress) -> Outcome:
    sizes, rtts_ms = (_QUICK_NODES, _QUICK_RTTS_MS) if settings.quick else (_NODES, _RTTS_MS)
    stars = []
    for done, (nodes, rtt_ms) in enumerate([(nodes, rtt_ms) for nodes in sizes for rtt_ms in rtts_ms]):
        progress(done, len(sizes) * len(rtts_ms), f"star of {nodes} nodes, {rtt_ms:g} ms")
        stars.append(star(nodes, rtt_ms, settings.seed))
    costs = [row for peers in _COST_PEERS for row in cost(peers, settings.seed)]
    claims = [
        STAR_MS.judge(max(row.p95_error_ms for row in stars)),
        STAR_PART.judge(max(row.p95_part for row in stars)),
        CPU.judge(max(row.cpu_share for row in costs)),
        MEMORY.judge(max(row.memory_mb for row in costs)),
    ]
    tables = {
        "star": Table(StarRow._fields, tuple(tuple(row) for row in stars)),
        "cost": Table(CostRow._fields, tuple(tuple(row) for row in costs)),
    }
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
        metrics={
            "alone_p95_ms": max(row.alone_p95_ms for row in stars),
            "alone_p95_part": max(row.alone_p95_part for row in stars),
            "accuracy": _accuracy(found),
            "buckets": [dict(zip(BucketRow._fields, row, strict=True)) for row in buckets],
        },
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
    near, far = np.triu_indices(nodes, 1)
    alone_s = np.array([at[a].distance_s(at[b]) for a, b in zip(near.tolist(), far.tolist(), strict=True)])
    vec, height = refined(states, names)
    return StarRow(
        nodes, rtt_ms, *_star_errors(distances_s(vec, height, near, far), rtt_ms), *_star_errors(alone_s, rtt_ms)
    )


def refined(states: list[Vivaldi], names: list[str]) -> tuple[Floats, Floats]:
    """The leader's map of what nodes measured of each other lately: of each peer the least of three, as agents tell."""
    spots = {name: Spot(each.coordinate.vec, each.coordinate.height) for name, each in zip(names, states, strict=True)}
    rtts_s = {
        (name, peer): min(each_s)
        for name, state in zip(names, states, strict=True)
        for peer, each_s in state.recent.items()
    }
    for _ in range(_REDRAWN):
        spots |= {name: Spot(each.vec, each.height) for name, each in charted(spots, rtts_s).items()}
    return np.array([spots[name].vec for name in names]), np.array([spots[name].height for name in names])


def _star_errors(predicted_s: Floats, rtt_ms: float) -> tuple[float, float, float]:
    errors_ms = np.abs(predicted_s * 1e3 - rtt_ms)
    p95 = float(np.percentile(errors_ms, 95))
    return round(float(errors_ms.mean()), 3), round(p95, 3), round(p95 / rtt_ms, 4)


def cost(count: int, seed: int) -> list[CostRow]:
    """What a node with `count` peers takes of a core, by how often it is asked where it is, and of memory."""
    rng = random.Random(seed)
    peers = [Coordinate(tuple(rng.uniform(-0.1, 0.1) for _ in range(8))) for _ in range(count)]
    samples = [(f"n{number}", rng.uniform(0.001, 0.2)) for number in range(count)]
    tracemalloc.start()
    state = Vivaldi()
    for (name, rtt_s), peer in zip(samples, peers, strict=True):
        state = updated(state, name, peer, rtt_s, rng.random)
    memory_mb = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    begun_s = time.process_time()
    for number in range(_COST_UPDATES):
        name, rtt_s = samples[number % count]
        state = updated(state, name, peers[number % count], rtt_s, rng.random)
    measured_s = time.process_time() - begun_s
    begun_s = time.process_time()
    for _ in range(_COST_UPDATES):
        at = state.coordinate
        msgspec.msgpack.encode(Position(at.vec, at.height, at.adjustment, at.error))
    asked_s = time.process_time() - begun_s
    return [
        CostRow(
            count + 1,
            every_s,
            round((measured_s / _EVERY_S + asked_s / every_s) / _COST_UPDATES, 6),
            round(memory_mb, 3),
        )
        for every_s in _ASKED_EVERY_S
    ]


def read_square(path: Path) -> Floats:
    """Round-trip times in seconds, as the node of the row measured that of the column; NaN where there is none."""
    try:
        matrix = np.load(path) / 1e3
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: no matrix of round-trip times can be read there: {error}") from error
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ConfigError(f"{path}: expected a square matrix, found one of shape {matrix.shape}")
    np.fill_diagonal(matrix, np.nan)
    return np.where(matrix > 0.0, matrix, np.nan).astype(np.float64)


def of_pairs(seen_s: Floats) -> Floats:
    """The mean of what both ends measured, or what one did: a round trip is the same for both.

    (WonderNetwork's differ by a thousandth in the median, and by 325 ms at most.)
    """
    both_s = (seen_s + seen_s.T) / 2.0
    return np.where(np.isfinite(both_s), both_s, np.fmax(seen_s, seen_s.T))


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
    seen_s = read_square(data / matrix.file)
    rtt_s = of_pairs(seen_s)
    count = len(rtt_s)
    one, other = np.triu_indices(count, 1)
    real_s = rtt_s[one, other]
    apart = _errors(seen_s[one, other], seen_s[other, one])
    rows, buckets = [], []
    for seed in seeds:
        progress(seed - seeds.start, len(seeds), f"{matrix.label}: {count} nodes")
        rng = np.random.default_rng(seed)
        own = _errors(converged(rtt_s, rng).distances_s(one, other), real_s)
        rows.append(AccuracyRow(matrix.label, count, "nodes", seed, *_quantiles(own), *matrix.serf))
        if seed == seeds.start:
            buckets = _buckets(matrix.label, real_s, own, apart)
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
        with_map, without = (
            _quantiles(_errors(*clients_predict(rtt_s, np.random.default_rng(seed), on_map=on_map)))
            for on_map in (True, False)
        )
        rows.append(AccuracyRow(matrix.label, count, "clients", seed, *with_map, *without))
    return rows, buckets


def _errors(predicted_s: Floats, real_s: Floats) -> Floats:
    """Relative; NaN where nothing is known."""
    return np.abs(predicted_s - real_s) / real_s


def _quantiles(errors: Floats) -> tuple[float, float]:
    return round(float(np.nanmedian(errors)), 4), round(float(np.nanpercentile(errors, 90)), 4)


def _buckets(label: str, real_s: Floats, errors: Floats, apart: Floats) -> list[BucketRow]:
    rows = []
    once = not np.nanmax(apart)  # the table has one measurement of a pair
    for low, high in pairwise(_BUCKETS_MS):
        within = (real_s * 1e3 >= low) & (real_s * 1e3 < high)
        if within.any():
            ms = round(float(np.median(errors[within] * real_s[within]) * 1e3), 2)
            worth = None if once else round(float(np.nanmedian(apart[within])), 4)
            rows.append(BucketRow(label, low, high, int(within.sum()), *_quantiles(errors[within]), ms, worth))
    return rows


def _no_worse(matrix: _Matrix, rows: Iterable[AccuracyRow]) -> list[Claim]:
    claims = []
    for method, (of_median, of_p90) in matrix.expectations.items():
        mine = [row for row in rows if row.method == method]
        claims += [
            of_median.judge(round(_mean(row.median for row in mine) / _mean(row.known_median for row in mine), 3)),
            of_p90.judge(round(_mean(row.p90 for row in mine) / _mean(row.known_p90 for row in mine), 3)),
        ]
    return claims


def _mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 3)


def _accuracy(rows: list[AccuracyRow]) -> list[dict[str, str | float]]:
    """Means over seeds and the standard deviation of one, beside what is known."""
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
                "median_sd": round(float(np.std([row.median for row in mine])), 4),
                "p90_sd": round(float(np.std([row.p90 for row in mine])), 4),
                "known_median": _mean(row.known_median for row in mine),
                "known_p90": _mean(row.known_p90 for row in mine),
            }
        )
    return found


def _draw_star(rows: list[StarRow], figure: "Figure") -> None:
    axes = figure.add_subplot()
    for rtt_ms in dict.fromkeys(row.rtt_ms for row in rows):
        mine = [row for row in rows if row.rtt_ms == rtt_ms]
        (line,) = axes.plot(
            [row.nodes for row in mine], [row.p95_error_ms for row in mine], "o-", label=f"{rtt_ms:g} ms"
        )
        axes.plot([row.nodes for row in mine], [row.alone_p95_ms for row in mine], ":", color=line.get_color())
    axes.axhline(3.5, color="gray", linestyle="--", linewidth=1, label="3.5 ms")
    axes.set_xscale("log", base=2)
    axes.set_xlabel("nodes on the star")
    axes.set_ylabel("p95 error of the predicted round-trip time (ms)")
    axes.legend(title="round-trip time", fontsize="small")
    axes.set_yscale("log")
    axes.set_title("Network coordinates on a star (Figure 3); dotted: nodes alone")


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
    expectations=(
        STAR_MS,
        STAR_PART,
        CPU,
        MEMORY,
        *(each for matrix in _MATRICES for pair in matrix.expectations.values() for each in pair),
    ),
    modes=("virtual",),
    measure=measure,
    options=("seeds", "data"),
)
