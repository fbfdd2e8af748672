"""What is taken of JSON texts without Spark is what Spark would take, with the same values."""

import json
import random
from typing import Any

from pyspark.sql import SparkSession

from nearcast.domain.dataset import Dataset
from nearcast.domain.schema import parse_schema
from nearcast.pipeline.plain import plain_rows
from nearcast.pipeline.records import RECORD, judged_texts

DATASET = Dataset("all", "a1", parse_schema("id BIGINT NOT NULL, class INT, ok BOOLEAN, x DOUBLE, name STRING"))
NAMES = DATASET.schema.names
VALUES = (
    *("0", "-7", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "1.0", "1e3", "-0.0"),
    *("0.1", "1e-320", "1e400", "123456789012345678", "true", "false", "null", '"a"', '"1"', '"true"', '"NaN"', "NaN"),
    *(
        '"\\u00e9\\n"',
        '"\\ud83d\\ude00"',
        '"\\ud800"',
        '"ä"',
        '""',
        "{}",
        "[]",
        "[1]",
        '{"a": 1}',
        "",
        "1 2",
        "'b'",
        "01",
    ),
)


def texts(chance: random.Random) -> list[str]:
    """Some as they should be, most with something odd in them."""
    found = ["", "{}", "[]", "null", "1", "{", '{"id": 1} ', ' {"id":2}', '{"id": 3} {"id": 4}', '{"id": 5, "id": 6}']
    found += ['{"ID": 1}', '{"id": 1, "Class": 2}', '{"id": 1, "more": {"id": 2}}', '{"id": 1,}', '{"id": 1} x']
    right = {"id": "1", "class": "2", "ok": "true", "x": "2.5", "name": '"n"'}
    for name in NAMES:
        for value in VALUES:
            fields = {**right, name: value}
            found.append("{" + ", ".join(f"{json.dumps(key)}: {each}" for key, each in fields.items()) + "}")
    for _ in range(100):
        fields = {name: chance.choice(VALUES) for name in NAMES if chance.random() < 0.7}
        found.append("{" + ", ".join(f"{json.dumps(key)}: {each}" for key, each in fields.items()) + "}")
    return found


def test_what_is_taken_without_spark_is_what_spark_takes_with_the_same_values(spark: SparkSession) -> None:
    given = texts(random.Random(930006))
    judged = judged_texts(given, [None] * len(given), "test", spark, DATASET).orderBy("_position").collect()
    taken = 0
    for text, row in zip(given, judged, strict=True):
        mine = plain_rows([text], DATASET)
        if mine is None or not in_range(mine[0]):
            continue
        taken += 1
        assert row["_reason"] is None, (text, row["_reason"])
        assert repr(mine[0]) == repr(tuple(row[RECORD])), text
    assert taken > 40


def in_range(row: tuple[Any, ...]) -> bool:
    """What Arrow puts into a column of this type."""
    number, kind, *_ = row
    return -(2**63) <= number < 2**63 and (kind is None or -(2**31) <= kind < 2**31)
