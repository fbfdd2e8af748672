"""How long many messages took, in constant space: counts in buckets whose bounds grow by a constant factor.

As in DDSketch (Masson and others, VLDB 2019): a percentile is wrong by at most `RELATIVE_ERROR`, and sketches are
merged by adding their counts. What is shorter than `LEAST_S` is as short as that, what is longer than the last bucket
is as long as that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

RELATIVE_ERROR = 0.03
LEAST_S = 100e-6
_FACTOR = (1.0 + RELATIVE_ERROR) / (1.0 - RELATIVE_ERROR)
_PER_LOG = 1.0 / math.log(_FACTOR)
_MOST_S = 20.0
BUCKETS = 1 + math.ceil(math.log(_MOST_S / LEAST_S) * _PER_LOG)

Sketch = Mapping[int, int]
"""Bucket to count."""


def bucket_of(value_s: float) -> int:
    if value_s <= LEAST_S:
        return 0
    return min(math.ceil(math.log(value_s / LEAST_S) * _PER_LOG), BUCKETS - 1)


def value_of(bucket: int) -> float:
    """In seconds: no value of the bucket is farther from it than the relative error."""
    upper_s = LEAST_S * _FACTOR**bucket
    return upper_s if bucket == 0 else upper_s * 2.0 / (1.0 + _FACTOR)


def merged(sketches: Iterable[Sketch]) -> dict[int, int]:
    found: dict[int, int] = {}
    for each in sketches:
        for bucket, count in each.items():
            found[bucket] = found.get(bucket, 0) + count
    return found


def percentiles(sketch: Sketch, wanted: tuple[int, ...]) -> tuple[float, ...]:
    """Seconds, for rising percentiles: of n values in order, the one at rank ceil(n * p / 100). None may be empty."""
    total = sum(sketch.values())
    if not total:
        raise ValueError("a sketch of nothing has no percentiles")
    ranks = iter([-(-total * each // 100) for each in wanted])
    out: list[float] = []
    seen, rank = 0, next(ranks, None)
    for bucket in sorted(sketch):
        seen += sketch[bucket]
        while rank is not None and seen >= rank:
            out.append(value_of(bucket))
            rank = next(ranks, None)
    return tuple(out)


def flat(sketch: Sketch) -> tuple[int, ...]:
    """As it travels: buckets and counts in turn."""
    return tuple(each for bucket in sorted(sketch) for each in (bucket, sketch[bucket]))


def unflat(counts: tuple[int, ...]) -> dict[int, int]:
    """Raises ValueError for what is no sketch."""
    if len(counts) % 2 or len(counts) > 2 * BUCKETS:
        raise ValueError(f"{len(counts)} numbers are no sketch")
    found = dict(zip(counts[::2], counts[1::2], strict=True))
    if any(not 0 <= bucket < BUCKETS or count < 1 for bucket, count in found.items()):
        raise ValueError(f"no sketch: {counts}")
    return found
