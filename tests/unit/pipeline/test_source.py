"""What the Spark data source refuses before anything is connected to."""

from pathlib import Path

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, DataType, IntegerType, StringType, StructType

from nearcast.domain.errors import ConfigError
from nearcast.domain.log import Position
from nearcast.pipeline.source_options import ReadOptions, WriteOptions
from nearcast.pipeline.source_write import must_be_written

CONFIG = """
name = "test"
[control]
url = "nats://127.0.0.1:4222"
[[broker]]
name = "b1"
url = "nats://127.0.0.1:4223"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("NEARCAST_KEY", "0" * 64)
    path = tmp_path / "nearcast.toml"
    path.write_text(CONFIG)
    return str(path)


def given(**options: str) -> CaseInsensitiveDict:
    """As Spark gives them: names in lower case."""
    return CaseInsensitiveDict(options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option topic is missing"),
        ({"topic": "a b"}, "option topic: "),
        ({"topic": "t", "config": "nowhere.toml"}, "nowhere.toml"),
        (
            {"topic": "t", "startingOffsets": "earliest"},
            "option startingoffsets is not known; to read there are config",
        ),
        ({"topic": "t", "startingPosition": "soon"}, "option startingPosition is 'soon'; expected first, new"),
        ({"topic": "t", "startingPosition": "1~x"}, "option startingPosition is '1~x'; expected first, new"),
        ({"topic": "t", "startingPosition": "new"}, "spark.read reads what is there; use readStream"),
        ({"topic": "t", "minPartitions": "none"}, "option minPartitions is 'none'; expected a whole number"),
        ({"topic": "t", "maxMessagesPerBatch": "0"}, "option maxMessagesPerBatch is '0'; expected a whole number"),
        ({"topic": "t", "failOnDataLoss": "no"}, "option failOnDataLoss is 'no'; expected true or false"),
        ({"topic": "t", "timeoutSeconds": "0"}, "option timeoutSeconds is '0'; expected seconds"),
        ({"topic": "t", "path": "t"}, "nearcast has topics, not paths"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_with_what_was_expected(
    config: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ReadOptions.of(given(**{"config": config, **options}), stream=False)


def test_a_stream_begins_with_what_is_new_and_a_batch_with_the_first(config: str) -> None:
    assert ReadOptions.of(given(config=config, topic="t"), stream=True).since == "new"
    assert ReadOptions.of(given(config=config, topic="t"), stream=False).since == "first"
    options = ReadOptions.of(
        given(config=config, topic="t", STARTINGPOSITION="3~3-8-2", checkpointLocation="there"), stream=True
    )
    assert options.since == Position(3, ((3, 8, 2),))


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"value": IntegerType()}, "t", "column value is int; expected binary or string"),
        ({"text": StringType()}, "t", "column value is missing: it is the message; there are text"),
        ({"value": BinaryType()}, None, "no topic to write to"),
        ({"value": BinaryType(), "key": StringType()}, "t", "column key cannot be written"),
        ({"value": BinaryType(), "topic": IntegerType()}, None, "column topic is int; expected string"),
    ],
)
def test_rows_that_are_no_messages_are_refused(
    config: str, columns: dict[str, DataType], topic: str | None, message: str
) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    options = WriteOptions.of(given(config=config) if topic is None else given(config=config, topic=topic))
    with pytest.raises(ConfigError, match=message):
        must_be_written(schema, options, overwrite=False)
