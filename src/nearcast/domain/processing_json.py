"""The part of a snapshot's file that says what processing takes. Topics that are missing here have no processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from nearcast.domain.errors import SnapshotError
from nearcast.domain.processing import Processing

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Time = Annotated[float, msgspec.Meta(gt=0)]


class FileProcessed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`bound_ms` is null where nothing is promised, `p90_ms` where nobody measured it."""

    topic: _Name
    interval_ms: _Time
    bound_ms: _Time | None = None
    p90_ms: _Time | None = None


def written(processing: Processing, topics: Sequence[str]) -> tuple[FileProcessed, ...]:
    columns = (processing.interval_ms, processing.bound_ms, processing.p90_ms)
    rows = zip(topics, *(column.tolist() for column in columns), strict=True)
    return tuple(
        FileProcessed(topic, interval_ms, bound_ms if bound_ms < np.inf else None, p90_ms if p90_ms > 0.0 else None)
        for topic, interval_ms, bound_ms, p90_ms in rows
        if interval_ms > 0.0  # NaN is not
    )


def read(file: Sequence[FileProcessed], topics: Sequence[str]) -> Processing:
    """In the order of the snapshot's topics. Raises SnapshotError."""
    index = {name: at for at, name in enumerate(topics)}
    interval_ms, p90_ms = np.full(len(topics), np.nan), np.full(len(topics), np.nan)
    bound_ms = np.full(len(topics), np.inf)
    for each in file:
        at = index.get(each.topic)
        if at is None:
            raise SnapshotError(f"processing of topic {each.topic!r}, which no route, report or place names")
        interval_ms[at] = each.interval_ms
        bound_ms[at] = np.inf if each.bound_ms is None else each.bound_ms
        p90_ms[at] = np.nan if each.p90_ms is None else each.p90_ms
    return Processing(interval_ms, bound_ms, p90_ms)
