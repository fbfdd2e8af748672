"""The part of a snapshot's file that says where brokers and clients are. Times are seconds, one way.

`clients`, every single one, are not in it: no fleet reports them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import msgspec
import numpy as np

from nearcast.domain.errors import SnapshotError
from nearcast.domain.places import Floats, Measured, Places, Spots

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0)]


class FileSpot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    vec: Annotated[tuple[float, ...], msgspec.Meta(min_length=1)]
    height: _Seconds


class FileBroker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    at: FileSpot


class FileMeasured(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The worst case at one broker, as all clients of a topic measured it."""

    broker: _Name
    worst_s: _Seconds


class FileTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The middles of both sides, null where nobody is; `bound_s` is null where nothing is promised. `measured` goes
    before what is predicted from the middles.
    """

    topic: _Name
    publishers: FileSpot | None = None
    subscribers: FileSpot | None = None
    deviation_s: _Seconds = 0.0
    worst_s: _Seconds = 0.0
    bound_s: _Seconds | None = None
    measured: tuple[FileMeasured, ...] = ()


class FilePlaces(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Brokers that are missing here have not said where they are."""

    brokers: tuple[FileBroker, ...] = ()
    topics: tuple[FileTopic, ...] = ()


def written(places: Places, brokers: Sequence[str], topics: Sequence[str]) -> FilePlaces:
    at = _written_spots(places.brokers)
    sides = zip(_written_spots(places.publishers), _written_spots(places.subscribers), strict=True)
    numbers = zip(places.deviation_s.tolist(), places.worst_s.tolist(), places.bound_s.tolist(), strict=True)
    measured = _written_measured(places.measured, brokers, len(topics))
    return FilePlaces(
        tuple(FileBroker(name, spot) for name, spot in zip(brokers, at, strict=True) if spot is not None),
        tuple(
            FileTopic(topic, *side, deviation_s, worst_s, bound_s if bound_s < math.inf else None, known)
            for topic, side, (deviation_s, worst_s, bound_s), known in zip(
                topics, sides, numbers, measured, strict=True
            )
        ),
    )


def read(file: FilePlaces, brokers: Sequence[str], topics: Sequence[str]) -> Places:
    """In the order of the snapshot's brokers and topics. Raises SnapshotError."""
    at = {each.name: each.at for each in file.brokers}
    of = {each.topic: each for each in file.topics}
    for name in at:
        if name not in brokers:
            raise SnapshotError(f"snapshot: places has a broker {name!r} that is not in brokers")
    rows = [of.get(topic) or FileTopic(topic) for topic in topics]
    index = {name: number for number, name in enumerate(brokers) if name in at}
    for row in rows:
        for each in row.measured:
            if each.broker not in index:
                raise SnapshotError(
                    f"snapshot: topic {row.topic!r} was measured at {each.broker!r}, which has not said where it is"
                )
    spots = [*at.values(), *(spot for each in rows for spot in (each.publishers, each.subscribers) if spot)]
    sizes = sorted({len(spot.vec) for spot in spots})
    if len(sizes) > 1:
        raise SnapshotError(f"snapshot: places of {sizes[0]} and of {sizes[1]} dimensions; all are in one space")
    size = sizes[0] if sizes else 1
    return Places(
        _spots([at.get(name) for name in brokers], size),
        _spots([each.publishers for each in rows], size),
        _spots([each.subscribers for each in rows], size),
        _floats([each.deviation_s for each in rows]),
        _floats([each.worst_s for each in rows]),
        _floats([math.inf if each.bound_s is None else each.bound_s for each in rows]),
        measured=Measured.among([[(index[each.broker], each.worst_s) for each in row.measured] for row in rows]),
    )


def _written_spots(spots: Spots) -> list[FileSpot | None]:
    rows = zip(spots.vec.tolist(), spots.height.tolist(), strict=True)
    return [None if math.isnan(height) else FileSpot(tuple(vec), height) for vec, height in rows]


def _written_measured(
    measured: Measured | None, brokers: Sequence[str], topics: int
) -> Sequence[tuple[FileMeasured, ...]]:
    if measured is None:
        return [()] * topics
    entries = zip(measured.broker.tolist(), measured.worst_s.tolist(), strict=True)
    written = tuple(FileMeasured(brokers[broker], worst_s) for broker, worst_s in entries)
    return [written[start:stop] for start, stop in pairwise(measured.first.tolist())]


def _spots(spots: Sequence[FileSpot | None], size: int) -> Spots:
    nowhere = (math.nan,) * size
    vec = np.array([nowhere if each is None else each.vec for each in spots], dtype=np.float64)
    return Spots(vec.reshape(len(spots), size), _floats([math.nan if each is None else each.height for each in spots]))


def _floats(values: list[float]) -> Floats:
    return np.array(values, dtype=np.float64)
