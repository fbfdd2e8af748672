"""What keeps tables small: many files into few, deltas into the base, old records out, dropped files off the disk."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from nearcast.pipeline import frames
from nearcast.pipeline.manifest import RECORDS, REJECTED
from nearcast.pipeline.tables import Snapshot, Table, in_thread
from nearcast.transport.clock import Clock, SystemClock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Care:
    """How a table is looked after. `grace_s`: how long readers of other processes may take."""

    target_bytes: int = 128 << 20
    least_files: int = 16
    least_deltas: int = 8
    delta_ratio: float = 0.25  # of the base's rows: a fold rewrites the base, a reader sorts out the deltas
    grace_s: float = 600.0


async def tend(spark: "SparkSession", table: Table, care: Care, clock: Clock | None = None) -> int:
    """Once. Returns how many files were replaced or left. Writers and readers go on meanwhile."""
    now_s = (clock or SystemClock()).wall()
    count = await _expire(table, now_s)
    async with table.pinned() as snapshot:
        if table.dataset.key is not None:
            count += await fold(spark, table, snapshot, care, now_s)
    for part in (RECORDS, REJECTED):
        async with table.pinned() as snapshot:
            count += await compact(spark, table, snapshot, care, part)
    await table.clean(care.grace_s)
    return count


async def compact(spark: "SparkSession", table: Table, snapshot: Snapshot, care: Care, part: str = RECORDS) -> int:
    """Small files into few; every record stays as it is, and so do all versions."""
    old = snapshot.manifest.small(part, care.target_bytes, care.least_files)
    if not old:
        return 0
    dataset, folder = table.dataset, table.folder
    new = await in_thread(partial(frames.rewrite_few, dataset, folder, old, base=False))
    if new is None:
        frame = await in_thread(frames.read, spark, dataset, folder, old, part)
        new = await in_thread(partial(frames.rewrite, dataset, folder, frame, old, care.target_bytes, base=False))
    return len(old) * await table.replace([each.path for each in old], new)


async def fold(spark: "SparkSession", table: Table, snapshot: Snapshot, care: Care, now_s: float) -> int:
    """A keyed table's deltas into its base: the latest record of each key, unless it is too old.

    Versions before can no longer be told apart by who pins the table later.
    """
    old = snapshot.manifest.foldable(care.least_deltas, care.delta_ratio)
    if not old:
        return 0
    dataset, folder, last = table.dataset, table.folder, max(each.last for each in old)
    new = None
    if dataset.retain_s is None:
        new = await in_thread(partial(frames.rewrite_few, dataset, folder, old, base=True))
    if new is None:
        frame = await in_thread(frames.latest, spark, dataset, folder, old, last)
        if dataset.retain_s is not None:
            frame = frame.where(f"{frames.AT} >= timestamp_micros({int(1e6 * (now_s - dataset.retain_s))})")
        new = await in_thread(partial(frames.rewrite, dataset, folder, frame, old, care.target_bytes, base=True))
    return len(old) * await table.replace([each.path for each in old], new, folded=last)


async def _expire(table: Table, now_s: float) -> int:
    """Whole files, of versions that nobody holds.

    Of a keyed table records leave when they are folded: an old one may be a key's latest.
    """
    retain_s = table.dataset.retain_s
    if retain_s is None:
        return 0
    held, manifest = await table.held(), await table.head()
    held = manifest.version if held is None else held
    records = () if table.dataset.key is not None else manifest.expired(now_s - retain_s, held)
    old = (*records, *manifest.expired(now_s - retain_s, manifest.version, REJECTED))
    return len(old) * await table.expire(old) if old else 0
