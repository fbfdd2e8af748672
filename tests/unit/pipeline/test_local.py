"""Tables of few records, without Spark: the latest of each key, and what came between two versions."""

import random

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from nearcast.pipeline import local
from nearcast.pipeline.manifest import DataFile


@pytest.mark.parametrize("seed", range(20))
def test_the_latest_of_each_key_is_the_one_of_the_highest_version_whatever_the_order(seed: int) -> None:
    chance = random.Random(seed)
    rows = [(chance.choice("abcde"), chance.randrange(6), number) for number in range(chance.randrange(40))]
    columns = dict(zip(("key", "version", "value"), zip(*rows, strict=True) if rows else ((), (), ()), strict=True))
    schema = pa.schema([("key", pa.string()), ("version", pa.int64()), ("value", pa.int64())])
    found = local.last_per_key(pa.table(columns, schema=schema), "key", "version")
    wanted: dict[str, tuple[str, int, int]] = {}
    for row in rows:
        if row[0] not in wanted or row[1] >= wanted[row[0]][1]:
            wanted[row[0]] = row
    assert found.schema == schema
    assert sorted(tuple(each.values()) for each in found.to_pylist()) == sorted(wanted.values())


def test_what_came_after_a_version_up_to_another_is_told_apart() -> None:
    table = pa.table({"version": [1, 2, 3, 4], "value": ["a", "b", "c", "d"]})
    assert local.between(table, "version", 1, 3).column("value").to_pylist() == ["b", "c"]


@pytest.mark.parametrize(
    ("kind", "rows", "size_bytes", "few"),
    [
        ("parquet", 100, 1000, True),
        ("orc", 100, 1000, False),
        ("parquet", 10**6, 1000, False),
        ("parquet", 1, 10**9, False),
    ],
)
def test_few_records_are_of_one_format_and_small(kind: str, rows: int, size_bytes: int, *, few: bool) -> None:
    assert local.fits(kind, [DataFile("f", 1, 1, rows, size_bytes, 0.0)]) is few
