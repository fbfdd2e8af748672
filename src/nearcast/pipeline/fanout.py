"""One function over many seeds on Spark: the numbers are those of a plain loop, whoever computes them."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]

from nearcast.pipeline.session import cores_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SLICES_PER_CORE = 4  # seeds take unequal time: whoever is done takes the next slice


def map_on_spark(spark: "SparkSession", run_seed: Callable[[int], T], seeds: Sequence[int]) -> list[T]:
    """`run_seed` of every seed, in the order of `seeds`.

    The first exception, by the order of seeds, is raised here as it is, with a note that names its seed. (Raised where
    it happens, Spark would try again what cannot end otherwise, and bury it in its own.)
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"at": [at], "found": [pickle.dumps(_tried(run_seed, seeds[at]))]})

    slices = max(1, min(len(seeds), _SLICES_PER_CORE * cores_of(spark)))
    frame = spark.range(0, len(seeds), 1, slices).mapInArrow(run, "at BIGINT, found BINARY")
    rows = sorted(frame.collect(), key=lambda row: row.at)
    found = [pickle.loads(row.found) for row in rows]  # noqa: S301  # what this function's own tasks have made
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
