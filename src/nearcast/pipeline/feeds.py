"""A feed: from its source into its dataset's table, each record once.

How far the source was read is part of the commit that has the records: a pipeline that is killed anywhere, or loses to
another, reads again what was not committed, and nothing else.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from nearcast.domain.dataset import Feed
from nearcast.domain.errors import Conflict
from nearcast.pipeline import frames, records
from nearcast.pipeline.manifest import REJECTED, DataFile, Manifest
from nearcast.pipeline.plain import plain_rows
from nearcast.pipeline.sources import Batch, Judged, Source
from nearcast.pipeline.tables import Table, in_thread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SHORTEST_REST_S, _LONGEST_REST_S = 0.1, 1.0  # every commit is a file, and an entry of the manifest


async def run_feed(spark: "SparkSession", feed: Feed, table: Table, source: Source) -> None:
    """For ever. Raises TableGone, StoreDown, and whatever the source or Spark raise; then it may be run again."""
    while True:
        offset, batch = await _next(feed, table, source)
        begun_s = time.monotonic()
        await _commit(spark, feed, table, offset, batch)
        # What comes meanwhile costs next to nothing more in the next batch: half the time is for others.
        await asyncio.sleep(min(_LONGEST_REST_S, max(_SHORTEST_REST_S, time.monotonic() - begun_s)))


async def take_batch(spark: "SparkSession", feed: Feed, table: Table, source: Source) -> Manifest | None:
    """The next batch of the source, committed; None when another was faster."""
    offset, batch = await _next(feed, table, source)
    return await _commit(spark, feed, table, offset, batch)


async def _next(feed: Feed, table: Table, source: Source) -> tuple[str | None, Batch]:
    offset = (await table.head()).offsets.get(feed.id)
    return offset, await source.next(offset)


async def _commit(spark: "SparkSession", feed: Feed, table: Table, offset: str | None, batch: Batch) -> Manifest | None:
    async with table.writing:
        head = await table.head()
        if head.offsets.get(feed.id) != offset:
            return None
        version, at_s = head.version + 1, time.time()
        files = await in_thread(_written_plainly, table, version, at_s, batch)
        if files is None:
            files = await in_thread(_written, spark, table, version, at_s, batch.judged)
        try:
            return await table.commit(head, files, {} if batch.offset is None else {feed.id: batch.offset})
        except Conflict:
            return None


async def load(spark: "SparkSession", table: Table, judged: Judged) -> Manifest:
    """Once, from no source that could be read on."""
    async with table.writing:
        while True:
            head = await table.head()
            files = await in_thread(_written, spark, table, head.version + 1, time.time(), judged)
            with suppress(Conflict):
                return await table.commit(head, files, {})


def _written_plainly(table: Table, version: int, at_s: float, batch: Batch) -> Sequence[DataFile] | None:
    """Without Spark, if there is no doubt about any record; else None."""
    from pyarrow import ArrowException  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped

    dataset = table.dataset
    if batch.texts is None or dataset.format != frames.PARQUET:
        return None
    rows = plain_rows(batch.texts, dataset)
    if rows is None:
        return None
    try:
        return frames.write_rows(dataset, table.folder, rows, version, at_s)
    except (ArrowException, OverflowError):  # a number that its column cannot have
        return None


def _written(spark: "SparkSession", table: Table, version: int, at_s: float, judged: Judged) -> list[DataFile]:
    """What fits and, in a second job only if there is some, what does not."""
    from pyspark.sql import Observation  # noqa: PLC0415  # an extra
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    found = judged(spark, table.dataset)
    seen = Observation()
    counted = found.observe(seen, F.count(records.REASON).alias("unfit"))
    files = [*frames.write(table.dataset, table.folder, records.fitting(counted), version, at_s)]
    if seen.get["unfit"]:
        files += frames.write(table.dataset, table.folder, records.unfit(found), version, at_s, part=REJECTED)
    return files
