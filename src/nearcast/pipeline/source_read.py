"""Reading a persistent topic with Spark: rows, and what `spark.read` gives."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa  # type: ignore[import-untyped]  # has no types
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, LongType, StringType, StructType, TimestampType

from nearcast.client.client import Client
from nearcast.client.log_view import LogView
from nearcast.client.open import open_client, unique_name
from nearcast.control.log_plan import Frontier, Span, spans, split
from nearcast.domain.errors import ConfigError, LogTrimmed
from nearcast.domain.log import Position
from nearcast.domain.message import Message
from nearcast.pipeline.source_options import ReadOptions

_COLUMNS = {
    "topic": StringType(),
    "publisher": LongType(),
    "seq": LongType(),
    "segment": LongType(),
    "record": LongType(),
    "position": StringType(),
    "published_at": TimestampType(),
    "value": BinaryType(),
}
SCHEMA = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _COLUMNS.items())
_ARROW = pa.schema(
    [
        ("topic", pa.string()),
        ("publisher", pa.int64()),
        ("seq", pa.int64()),
        ("segment", pa.int64()),
        ("record", pa.int64()),
        ("position", pa.string()),
        ("published_at", pa.timestamp("us", tz="UTC")),
        ("value", pa.binary()),
    ]
)
_BATCH_ROWS = 8192
_BATCH_BYTES = 8_000_000


@dataclass
class SpanPartition(InputPartition):
    """What one task reads. `log` tells it from another log that the topic may have had."""

    log: str
    span: Span
    ahead: tuple[tuple[int, int, int], ...]


class TopicReader(DataSourceReader):
    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return list(asyncio.run(self._all()))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_span(self._options, partition)

    async def _all(self) -> list[SpanPartition]:
        options = self._options
        async with reading_client(options) as client:
            view = await client.view(options.topic, timeout_s=options.timeout_s)
            start = await begin(view, options)
            return planned(view.log.id, start, await view.frontier(start), options.parts)


def must_be_read_as(schema: StructType) -> None:
    """Raises ConfigError for another schema than the one there is."""
    if [(field.name, field.dataType) for field in schema.fields] != list(_COLUMNS.items()):
        raise ConfigError(f"a topic is read as {SCHEMA}; leave .schema() out, and make other columns of value")


def reading_client(options: ReadOptions) -> Client:
    """It is no user of the topic whose place would matter: nobody is told where it is."""
    return open_client(replace(options.config, analyzer=False), name=unique_name("spark"))


async def begin(view: LogView, options: ReadOptions) -> Position:
    """Where the options say. What is gone is passed over if they allow it."""
    try:
        return await view.begin(options.since)
    except LogTrimmed:
        if options.strict:
            raise
        return await view.begin("first")


def planned(log: str, start: Position, end: Frontier, parts: int) -> list[SpanPartition]:
    return [SpanPartition(log, part, start.ahead) for span in spans(start, end) for part in split(span, parts)]


def read_span(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """In a task. Spark gives an empty partition when there is none."""
    if not isinstance(partition, SpanPartition):
        return
    batches = _batches(options, partition)

    async def following() -> pa.RecordBatch | None:
        return await anext(batches, None)

    with asyncio.Runner() as runner:
        try:
            while (batch := runner.run(following())) is not None:
                yield batch
        finally:
            runner.run(batches.aclose())


async def _batches(options: ReadOptions, partition: SpanPartition) -> AsyncGenerator[pa.RecordBatch, None]:
    async with reading_client(options) as client:
        view = await client.view(options.topic, epoch=partition.span.epoch, timeout_s=options.timeout_s)
        must_be_log(view, partition.log)
        rows: list[tuple[Message, int]] = []
        size_bytes = 0
        async for message, record in view.messages(partition.span, partition.ahead, strict=options.strict):
            rows.append((message, record))
            size_bytes += len(message.payload)
            if len(rows) >= _BATCH_ROWS or size_bytes >= _BATCH_BYTES:
                yield _batch(rows, partition.span.epoch)
                rows, size_bytes = [], 0
        if rows:
            yield _batch(rows, partition.span.epoch)


def must_be_log(view: LogView, log: str) -> None:
    """Raises LogTrimmed when the topic has another log than the one that was read before."""
    if view.log.id != log:
        raise LogTrimmed(
            f"topic {view.topic!r} has another log than the one that the checkpoint is about: it was removed and made"
            " anew; begin with a new checkpoint"
        )


def _batch(rows: list[tuple[Message, int]], segment: int) -> pa.RecordBatch:
    messages = [message for message, _ in rows]
    columns: list[list[object]] = [
        [message.topic for message in messages],
        [message.publisher for message in messages],
        [message.seq for message in messages],
        [segment] * len(rows),
        [record for _, record in rows],
        [str(message.position) for message in messages],
        [message.sent_ns // 1000 for message in messages],
        [message.payload for message in messages],
    ]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
