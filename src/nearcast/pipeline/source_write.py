"""Writing rows to topics with Spark: staged in the tasks, published when all of them are done.

The publisher of what a batch of a stream brings to a topic is named after the query and the batch. A commit that was
killed runs again, and `publish_once` leaves out what it had published. A task that fails publishes nothing.
"""

import asyncio
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa  # type: ignore[import-untyped]  # has no types
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from nearcast.client.open import open_client, unique_name
from nearcast.domain.errors import ConfigError, MessageTooLarge
from nearcast.domain.topic import validate_topic
from nearcast.pipeline.source_options import WriteOptions
from nearcast.wire.envelope import MOST_PAYLOAD_BYTES

_QUERY = "sql.streaming.queryId"  # a property of Spark's tasks, the same whenever a query goes on from its checkpoint


@dataclass
class Staged(WriterCommitMessage):
    """The rows of one task, in their order."""

    query: str
    topics: list[str]
    payloads: list[bytes]


class TopicWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = f"spark write {uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _staged(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _publish(self._options, messages, self._name)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing has been published."""


class TopicStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        query = None if task is None else task.getLocalProperty(_QUERY)
        if not query:  # another query's messages would be taken for repeats
            raise ConfigError(f"Spark did not tell its task of which query it is ({_QUERY}): nothing is published")
        return _staged(self._options, iterator, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        if messages:
            first = messages[0]
            assert isinstance(first, Staged), "a commit follows only when all tasks are done"
            _publish(self._options, messages, f"spark query {first.query} batch {batchId}")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Nothing has been published."""


def must_be_written(schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
    """Raises ConfigError for rows that are no messages."""
    if overwrite:
        raise ConfigError(
            'what was published stays: write with .mode("append"), and a stream with .outputMode("append") or "update"'
        )
    types = {field.name: field.dataType for field in schema}
    known = ("value",) if options.topic is not None else ("value", "topic")
    missing = [name for name in known if name not in types]
    others = [name for name in types if name not in {"value", "topic"}]
    if missing == ["topic"]:
        raise ConfigError("no topic to write to: give the option topic, or the rows a column topic")
    if missing:
        raise ConfigError(f"column value is missing: it is the message; there are {', '.join(types) or 'none'}")
    if others:
        raise ConfigError(f"column {others[0]} cannot be written: select value, and topic if rows name their own")
    if not isinstance(types["value"], BinaryType | StringType):
        raise ConfigError(f"column value is {types['value'].simpleString()}; expected binary or string")
    if not isinstance(types.get("topic", StringType()), StringType):
        raise ConfigError(f"column topic is {types['topic'].simpleString()}; expected string")


def _staged(options: WriteOptions, batches: Iterator[pa.RecordBatch], query: str = "") -> Staged:
    """Raises for a row that cannot be published, so that the whole batch is not."""
    staged = Staged(query, [], [])
    for batch in batches:
        for payload in batch.column("value").to_pylist():
            staged.payloads.append(_payload(payload))
        topics = [options.topic] * batch.num_rows if options.topic is not None else batch.column("topic").to_pylist()
        for topic in dict.fromkeys(topics):
            if topic is None:
                raise ConfigError("a row has no topic: it cannot be published")
            validate_topic(topic)
        staged.topics += topics
    return staged


def _payload(value: bytes | str | None) -> bytes:
    if value is None:
        raise ConfigError("a row has no value: it cannot be published")
    payload = value.encode() if isinstance(value, str) else value
    if len(payload) > MOST_PAYLOAD_BYTES:
        raise MessageTooLarge(f"a value has {len(payload)} bytes; at most {MOST_PAYLOAD_BYTES} are taken")
    return payload


def _publish(options: WriteOptions, messages: Sequence[WriterCommitMessage | None], name: str) -> None:
    by_topic: dict[str, list[bytes]] = {}
    for message in messages:
        assert isinstance(message, Staged)
        for topic, payload in zip(message.topics, message.payloads, strict=True):
            by_topic.setdefault(topic, []).append(payload)

    async def publish() -> None:
        async with open_client(options.config, name=unique_name("spark")) as client:
            for topic, payloads in by_topic.items():
                await client.publish_once(topic, payloads, name=name, timeout_s=options.timeout_s)

    if by_topic:
        asyncio.run(publish())
