"""`nearcast bench ring`."""

import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

import numpy as np
import typer

from nearcast.cli.output import print_json, print_table
from nearcast.domain.ring import Ring, topic_positions

_T = TypeVar("_T")
_TOPICS = 100_000
_FLEETS = 8  # of different names, because chance decides how even one is


def bench_ring(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Measure what the hash ring costs and how evenly it spreads topics."""
    topics = [f"city/{i % 977}/sensor.{i}" for i in range(_TOPICS)]
    hash_ms, positions = _timed_ms(partial(topic_positions, topics))
    rows = []
    for count in (2, 4, 8, 16, 32, 100, 1000):
        fleets = [tuple(f"fleet{fleet}-{i}" for i in range(count)) for fleet in range(_FLEETS)]
        build_ms, first = _timed_ms(partial(Ring, fleets[0]))
        locate_ms, _ = _timed_ms(partial(first.owner_indices, positions))
        shares = [np.bincount(Ring(fleet).owner_indices(positions), minlength=count) / _TOPICS for fleet in fleets]
        most = [float(share.max()) * count for share in shares]
        rows.append(
            {
                "brokers": count,
                "build_ms": round(build_ms, 2),
                "locate_ms": round(locate_ms, 2),
                "most_to_mean": round(sum(most) / len(most), 4),
                "largest_move_times_n": round(max(most), 4),
            }
        )
    if as_json:
        print_json({"topics": _TOPICS, "fleets": _FLEETS, "hash_ms": round(hash_ms, 2), "sizes": rows})
        return
    print(f"hashing {_TOPICS:,} topics takes {hash_ms:.0f} ms; {_FLEETS} fleets of each size")
    print_table(tuple(rows[0]), [tuple(str(value) for value in row.values()) for row in rows])


def _timed_ms(work: Callable[[], _T]) -> tuple[float, _T]:
    started_s = time.perf_counter()
    result = work()
    return (time.perf_counter() - started_s) * 1e3, result
