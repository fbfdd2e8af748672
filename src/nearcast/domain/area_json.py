"""The part of a snapshot's file that says which clients publish and hear what, where, and from which home.

Where servers are is in `places.brokers`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from nearcast.domain.area import NOWHERE, Area
from nearcast.domain.errors import SnapshotError
from nearcast.domain.places import Floats, Spots
from nearcast.domain.places_json import FileSpot

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Limit = Annotated[float, msgspec.Meta(gt=0)]


class FileLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many messages a server may spool, and look at when each of its publishers publishes once; null: any."""

    server: _Name
    storage: _Limit | None = None
    compute: _Limit | None = None


class FileSpool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many messages the processor of a topic keeps."""

    topic: _Name
    messages: Annotated[float, msgspec.Meta(ge=0)]


class FileClient(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`home` is null for one that has none yet."""

    name: _Name
    at: FileSpot
    home: _Name | None = None
    publishes: tuple[_Name, ...] = ()
    subscribes: tuple[_Name, ...] = ()


class FileArea(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`cloud_s` is the way from any server to the cloud. A server that is missing in `limits` has none; a topic that is
    missing in `spools` keeps nothing.
    """

    cloud_s: Annotated[float, msgspec.Meta(ge=0)]
    clients: tuple[FileClient, ...] = ()
    spools: tuple[FileSpool, ...] = ()
    limits: tuple[FileLimits, ...] = ()


def topics_in(file: FileArea) -> set[str]:
    """All that it names."""
    of_clients = (topic for each in file.clients for side in (each.publishes, each.subscribes) for topic in side)
    return {*(each.topic for each in file.spools), *of_clients}


def written(area: Area, brokers: Sequence[str], topics: Sequence[str]) -> FileArea:
    named = np.array(topics, dtype=object)
    clients = []
    for number, name in enumerate(area.clients):
        mine = slice(area.first[number], area.first[number + 1])
        topic = area.topic[mine]
        sides = (tuple(named[topic[side[mine]]].tolist()) for side in (area.publishes, area.subscribes))
        spot = FileSpot(tuple(area.at.vec[number].tolist()), float(area.at.height[number]))
        home = int(area.home[number])
        clients.append(FileClient(name, spot, None if home == NOWHERE else brokers[home], *sides))
    limits = zip(brokers, area.storage.tolist(), area.compute.tolist(), strict=True)
    return FileArea(
        area.cloud_s,
        tuple(clients),
        tuple(FileSpool(topic, spool) for topic, spool in zip(topics, area.spool.tolist(), strict=True) if spool > 0.0),
        tuple(
            FileLimits(name, *(None if limit == math.inf else limit for limit in both))
            for name, *both in limits
            if min(both) < math.inf
        ),
    )


def read(file: FileArea, servers: Spots | None, brokers: Sequence[str], topics: Sequence[str]) -> Area:
    """In the order of the snapshot's brokers and topics. `servers`: where they are. Raises SnapshotError."""
    if servers is None:
        raise SnapshotError("snapshot: there is an area without places: say in places.brokers where servers are")
    at = {name: number for number, name in enumerate(brokers)}
    index = {name: number for number, name in enumerate(topics)}
    clients = sorted(file.clients, key=lambda each: each.name)
    home, first, entries = [], [0], []
    for each in clients:
        home.append(NOWHERE if each.home is None else _found(at, each.home, f"the home of client {each.name!r}"))
        publishes, subscribes = (
            _once(each.name, [index[topic] for topic in side]) for side in (each.publishes, each.subscribes)
        )
        entries += [(topic, topic in publishes, topic in subscribes) for topic in sorted(publishes | subscribes)]
        first.append(len(entries))
    limits = {name: np.full(len(brokers), np.inf) for name in ("storage", "compute")}
    for limit in file.limits:
        number = _found(at, limit.server, "area.limits")
        limits["storage"][number] = math.inf if limit.storage is None else limit.storage
        limits["compute"][number] = math.inf if limit.compute is None else limit.compute
    spool = np.zeros(len(topics))
    for kept in file.spools:
        spool[index[kept.topic]] = kept.messages
    topic, publishing, subscribing = zip(*entries, strict=True) if entries else ((), (), ())
    return Area(
        servers=servers,
        storage=limits["storage"],
        compute=limits["compute"],
        cloud_s=file.cloud_s,
        clients=tuple(each.name for each in clients),
        at=_spots(clients, servers.vec.shape[1]),
        home=np.array(home, dtype=np.int64),
        first=np.array(first, dtype=np.int64),
        topic=np.array(topic, dtype=np.int64),
        publishes=np.array(publishing, dtype=np.bool_),
        subscribes=np.array(subscribing, dtype=np.bool_),
        spool=spool,
    )


def _found(index: dict[str, int], name: str, where: str) -> int:
    if name not in index:
        raise SnapshotError(f"snapshot: {where} is {name!r}, which is not a broker")
    return index[name]


def _once(client: str, topics: list[int]) -> set[int]:
    found = set(topics)
    if len(found) < len(topics):
        raise SnapshotError(f"snapshot: client {client!r} publishes or subscribes to a topic twice")
    return found


def _spots(clients: Sequence[FileClient], dimensions: int) -> Spots:
    for each in clients:
        if len(each.at.vec) != dimensions:
            raise SnapshotError(
                f"snapshot: client {each.name!r} is in a space of {len(each.at.vec)} dimensions,"
                f" servers in one of {dimensions}"
            )
    vec: Floats = np.array([each.at.vec for each in clients], dtype=np.float64).reshape(len(clients), dimensions)
    return Spots(vec, np.array([each.at.height for each in clients], dtype=np.float64))
