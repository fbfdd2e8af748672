"""The part of a snapshot's file that says who has which home, and what comes of their subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import msgspec

from nearcast.domain.homes import Homes

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class FileSubscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One key for all identical subscriptions, and the bytes a second of its results."""

    key: _Name
    bytes_per_s: Annotated[float, msgspec.Meta(ge=0)]


class FileSubscriber(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is online, at which broker, with the keys of its subscriptions."""

    name: _Name
    home: _Name
    keys: tuple[_Name, ...] = ()


class FileHomes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    subscriptions: tuple[FileSubscription, ...] = ()
    subscribers: tuple[FileSubscriber, ...] = ()


def written(homes: Homes, brokers: Sequence[str]) -> FileHomes:
    keys = [homes.keys[at] for at in homes.key.tolist()]
    rows = zip(homes.subscribers, homes.home.tolist(), pairwise(homes.first.tolist()), strict=True)
    return FileHomes(
        tuple(FileSubscription(key, rate) for key, rate in zip(homes.keys, homes.rate.tolist(), strict=True)),
        tuple(FileSubscriber(name, brokers[home], tuple(keys[start:stop])) for name, home, (start, stop) in rows),
    )


def read(file: FileHomes, brokers: Sequence[str]) -> Homes:
    """In the order of the snapshot's brokers. Raises SnapshotError."""
    return Homes.of(
        brokers,
        {each.name: (each.home, each.keys) for each in file.subscribers},
        {each.key: each.bytes_per_s for each in file.subscriptions},
    )
