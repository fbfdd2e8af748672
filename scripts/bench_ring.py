"""Print what the hash ring costs and how evenly it spreads topics."""

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from nearcast.domain.ring import Ring, topic_positions

TOPICS = [f"city/{i % 977}/sensor.{i}" for i in range(100_000)]


def timed_ms(work: Callable[[], object]) -> float:
    """Return how long one call of `work` takes."""
    started_s = time.perf_counter()
    work()
    return (time.perf_counter() - started_s) * 1e3


def main() -> None:
    """Print a row per fleet size."""
    positions = topic_positions(TOPICS)
    print(f"hash {len(TOPICS):,} topics: {timed_ms(partial(topic_positions, TOPICS)):.0f} ms")
    print("brokers  build ms  locate 100k ms  most/mean  largest move x n")
    for count in (2, 4, 8, 16, 32, 100, 1000):
        fleets = [tuple(f"fleet{fleet}-{i}" for i in range(count)) for fleet in range(8)]
        build_ms = timed_ms(partial(Ring, fleets[0]))
        rings = [Ring(fleet) for fleet in fleets]
        locate_ms = timed_ms(partial(rings[0].owner_indices, positions))
        shares = [np.bincount(ring.owner_indices(positions), minlength=count) / len(TOPICS) for ring in rings]
        most = [float(share.max()) * count for share in shares]
        print(f"{count:7}  {build_ms:8.1f}  {locate_ms:14.1f}  {np.mean(most):9.3f}  {max(most):16.3f}")


if __name__ == "__main__":
    main()
