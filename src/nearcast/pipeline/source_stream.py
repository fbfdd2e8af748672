"""Streaming a persistent topic with Spark: offsets, and which records are between two of them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa  # type: ignore[import-untyped]  # has no types
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from nearcast.client.blocking import LoopThread
from nearcast.client.client import Client
from nearcast.client.log_view import LogView
from nearcast.control.log_plan import Frontier
from nearcast.domain.log import Position
from nearcast.pipeline.source_options import ReadOptions
from nearcast.pipeline.source_read import begin, must_be_log, planned, read_span, reading_client

_T = TypeVar("_T")
Offset = dict[str, Any]  # what Spark keeps in its checkpoint, as JSON


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is a position in the log, with the last records of the segments that its batch comes to the end of.

    So a batch is the same messages whenever it is made again, wherever the topic is by then.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._asking: _Asking | None = None
        self._target: dict[int, int] | None = None  # for a query that ends: the last record of each segment

    def initialOffset(self) -> Offset:  # noqa: N802  # Spark's name, as below
        async def ask(view: LogView) -> Offset:
            return _offset(view.log.id, Frontier(await begin(view, self._options)))

        return self._ask(ask)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._options.most is None else ReadMaxRows(self._options.most)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        log, before = _parsed(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None

        async def ask(view: LogView) -> Offset:
            must_be_log(view, log)
            position = before.position
            if position.floor < view.log.floor and self._options.strict:
                await view.begin(position)  # says what is gone
            end = await view.frontier(position, most=most, until=self._target, strict=self._options.strict)
            return start if end.position == position else _offset(log, end)

        return self._ask(ask)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ask(LogView.lasts)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        log, before = _parsed(start)
        _, after = _parsed(end)
        return planned(log, before.position, after, self._options.parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_span(self._options, partition)

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.close()

    def _ask(self, ask: Callable[[LogView], Awaitable[_T]]) -> _T:
        if self._asking is None:
            self._asking = _Asking(self._options)
        return self._asking.ask(ask)


class _Asking:
    """One connection for as long as a query runs; the log is asked for anew each time."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._thread = LoopThread()
        self._client: Client | None = None

    def ask(self, ask: Callable[[LogView], Awaitable[_T]]) -> _T:
        async def asked() -> _T:
            if self._client is None:
                self._client = reading_client(self._options)
            return await ask(await self._client.view(self._options.topic, timeout_s=self._options.timeout_s))

        return self._thread.call(asked)

    def close(self) -> None:
        if self._client is not None:
            self._thread.call(self._client.close)
        self._thread.close()


def _offset(log: str, end: Frontier) -> Offset:
    return {"log": log, "position": str(end.position), "ended": {str(epoch): last for epoch, last in end.ended}}


def _parsed(offset: Offset) -> tuple[str, Frontier]:
    ended = tuple((int(epoch), last) for epoch, last in offset["ended"].items())
    return offset["log"], Frontier(Position.parse(offset["position"]), ended)
