"""Sketches of latencies: percentiles within the stated error, and merging in any order."""

import math

from hypothesis import given
from hypothesis import strategies as st

from nearcast.domain.sketch import (
    BUCKETS,
    LEAST_S,
    RELATIVE_ERROR,
    bucket_of,
    flat,
    merged,
    percentiles,
    unflat,
    value_of,
)
from nearcast.domain.slo import PERCENTILES

values = st.lists(st.floats(LEAST_S, 19.0), min_size=1, max_size=200)


def sketch_of(values_s: list[float]) -> dict[int, int]:
    return merged({bucket_of(value_s): 1} for value_s in values_s)


@given(values)
def test_a_percentile_is_within_the_stated_error_of_the_exact_one(values_s: list[float]) -> None:
    found = percentiles(sketch_of(values_s), PERCENTILES)
    in_order = sorted(values_s)
    for percentile, value_s in zip(PERCENTILES, found, strict=True):
        exact_s = in_order[math.ceil(len(in_order) * percentile / 100) - 1]
        assert abs(value_s - exact_s) <= RELATIVE_ERROR * exact_s * (1 + 1e-9)


@given(values, values, values)
def test_merging_is_associative_and_loses_nothing(one: list[float], two: list[float], three: list[float]) -> None:
    a, b, c = sketch_of(one), sketch_of(two), sketch_of(three)
    assert merged((merged((a, b)), c)) == merged((a, merged((b, c)))) == sketch_of([*one, *two, *three])


@given(values)
def test_a_sketch_travels_and_comes_back_and_is_of_bounded_size(values_s: list[float]) -> None:
    sketch = sketch_of(values_s)
    assert unflat(flat(sketch)) == sketch
    assert len(flat(sketch)) <= 2 * BUCKETS


def test_what_is_too_short_or_too_long_is_counted_at_the_ends() -> None:
    assert bucket_of(-3.0) == bucket_of(0.0) == bucket_of(LEAST_S) == 0
    assert bucket_of(1e6) == BUCKETS - 1
    assert value_of(0) == LEAST_S
    assert value_of(BUCKETS - 1) > 19.0
