"""One function over many seeds on Spark: the numbers are those of a plain loop, whoever computes them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SLICES_PER_CORE = 4  # seeds take unequal time: whoever is done takes the next slice


def map_on_spark(spark: "SparkSession", run_seed: Callable[[int], T], seeds: Sequence[int]) -> list[T]:
    """`run_seed` of every seed, in the order of `seeds`.

    The first exception, by the order of seeds, is raised here as it is, with a note that names its seed. (Raised where
    it happens, Spark would try again what cannot end otherwise, and bury it in its own.)
    """
    context = spark.sparkContext
    slices = max(1, min(len(seeds), _SLICES_PER_CORE * context.defaultParallelism))
    found = context.parallelize(seeds, slices).map(lambda seed: _tried(run_seed, seed)).collect()
    for seed, (_, error) in zip(seeds, found, strict=True):
        if error is not None:
            error.add_note(f"while running seed {seed}")
            raise error
    return [result for results, _ in found for result in results]


def _tried(run_seed: Callable[[int], T], seed: int) -> tuple[tuple[T, ...], Exception | None]:
    try:
        return (run_seed(seed),), None
    except Exception as error:  # noqa: BLE001  # raised again where the others' results are
        return (), error
