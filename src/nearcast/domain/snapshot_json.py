"""A snapshot as a file: versioned JSON (`nearcast.snapshot/1`), described by docs/snapshot.schema.json.

A reader refuses other versions. Fields that it does not know are refused too: a misspelt `draining` would be a broker
that is filled while its operator waits for it to empty.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from nearcast.domain import area_json, homes_json, places_json, processing_json
from nearcast.domain.area_json import FileArea
from nearcast.domain.errors import ConfigError, RingError, SnapshotError
from nearcast.domain.homes_json import FileHomes
from nearcast.domain.load import BrokerReport, Resources, TopicLoad
from nearcast.domain.places_json import FilePlaces
from nearcast.domain.processing_json import FileProcessed
from nearcast.domain.ring import DEFAULT_VNODES, Ring
from nearcast.domain.route import Strategy, route
from nearcast.domain.snapshot import Snapshot

SNAPSHOT_VERSION: Final = "nearcast.snapshot/1"

_Name = Annotated[str, msgspec.Meta(min_length=1)]
_Rate = Annotated[float, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One topic at one broker, per second."""

    topic: _Name
    publications: _Rate
    deliveries: _Rate
    bytes_in: _Rate
    bytes_out: _Rate
    publishers: _Count
    subscribers: _Count


class _Resources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Processors, memory, and messages sent per second; null where nobody knows."""

    cores: _Rate | None = None
    memory_bytes: _Rate | None = None
    out_messages_per_s: _Rate | None = None


class _Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`capacity_bytes_per_s` is null for a broker that has not said what it can send."""

    at_s: float
    out_bytes_per_s: _Rate
    capacity_bytes_per_s: Annotated[float, msgspec.Meta(gt=0)] | None
    topics: tuple[_Load, ...] = ()
    used: _Resources = _Resources()
    most: _Resources = _Resources()


class _Broker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`report` is null for a broker that has not reported. `relieved`: of topics, too lately for that to show in its
    processors and memory.
    """

    name: _Name
    report: _Report | None
    site: str = ""
    draining: bool = False
    relieved: bool = False


class _Route(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topic: _Name
    epoch: _Count
    strategy: Strategy
    brokers: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)]


class _Ring(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The brokers of topics that no route names."""

    brokers: Annotated[tuple[_Name, ...], msgspec.Meta(min_length=1)]
    version: _Count = 0
    vnodes: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_VNODES


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a policy may see. Times are seconds of one clock, rates are per second. `held`: topics that a policy for
    promises leaves where they are.
    """

    schema: Literal["nearcast.snapshot/1"]
    at_s: float
    ring: _Ring
    brokers: tuple[_Broker, ...]
    routes: tuple[_Route, ...] = ()
    planned_s: float | None = None
    renting: _Count = 0
    held: tuple[_Name, ...] = ()
    places: FilePlaces | None = None
    homes: FileHomes | None = None
    processing: tuple[FileProcessed, ...] = ()
    area: FileArea | None = None


_decoder = msgspec.json.Decoder(_File)


def write_snapshot(snapshot: Snapshot) -> bytes:
    """Equal snapshots give equal bytes."""
    reports = {report.broker: report for report in snapshot.reports()}
    brokers = tuple(
        _Broker(name, _written(reports.get(name)), site, bool(draining), bool(relieved))
        for name, site, draining, relieved in zip(
            snapshot.brokers, snapshot.sites, snapshot.draining, snapshot.relieved, strict=True
        )
    )
    routes = tuple(_Route(topic, each.epoch, each.strategy, each.brokers) for topic, each in snapshot.routes().items())
    ring = _Ring(snapshot.ring.brokers, snapshot.ring.version, snapshot.ring.vnodes)
    file = _File(
        SNAPSHOT_VERSION,
        snapshot.at_s,
        ring,
        brokers,
        routes,
        snapshot.planned_s,
        snapshot.renting,
        tuple(snapshot.topics[at] for at in np.flatnonzero(snapshot.held).tolist()),
        None if snapshot.places is None else places_json.written(snapshot.places, snapshot.brokers, snapshot.topics),
        None if snapshot.homes is None else homes_json.written(snapshot.homes, snapshot.brokers),
        () if snapshot.processing is None else processing_json.written(snapshot.processing, snapshot.topics),
        None if snapshot.area is None else area_json.written(snapshot.area, snapshot.brokers, snapshot.topics),
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def read_snapshot(content: bytes, source: str = "snapshot") -> Snapshot:
    """`source` is what messages call it: the file's name. Raises SnapshotError."""
    try:
        file = _decoder.decode(content)
    except msgspec.ValidationError as error:
        raise SnapshotError(f"{source}: {_version_or(content, str(error))}") from error
    except msgspec.DecodeError as error:
        raise SnapshotError(f"{source}: is not JSON: {error}") from error
    try:
        return _snapshot_of(file)
    except (ConfigError, RingError, SnapshotError) as error:
        raise SnapshotError(f"{source}: {str(error).removeprefix('snapshot: ')}") from error


def snapshot_schema() -> bytes:
    """The JSON Schema of the file, as docs/snapshot.schema.json has it."""
    described = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SNAPSHOT_VERSION,
        **msgspec.json.schema(_File),
    }
    # The classes' names are the code's affair; what a reader sees is the name of the thing.
    text = re.sub(rb'"(#/\$defs/)?_', rb'"\1', msgspec.json.encode(described))
    return msgspec.json.format(text, indent=2) + b"\n"


def _written(report: BrokerReport | None) -> _Report | None:
    if report is None:
        return None
    loads = tuple(
        _Load(
            load.topic,
            load.publications,
            load.deliveries,
            load.bytes_in,
            load.bytes_out,
            load.publishers,
            load.subscribers,
        )
        for load in report.topics
    )
    used, most = _Resources(**asdict(report.used)), _Resources(**asdict(report.most))
    capacity = report.capacity_bytes_per_s if report.capacity_bytes_per_s < math.inf else None
    return _Report(report.at_s, report.out_bytes_per_s, capacity, loads, used, most)


def _snapshot_of(file: _File) -> Snapshot:
    _must_be_once("brokers", [broker.name for broker in file.brokers])
    _must_be_once("routes", [each.topic for each in file.routes])
    places = file.places
    if places is not None:
        _must_be_once("places.brokers", [each.name for each in places.brokers])
        _must_be_once("places.topics", [each.topic for each in places.topics])
    _must_be_once("processing", [each.topic for each in file.processing])
    if file.homes is not None:
        _must_be_once("homes.subscriptions", [each.key for each in file.homes.subscriptions])
        _must_be_once("homes.subscribers", [each.name for each in file.homes.subscribers])
    if file.area is not None:
        _must_be_once("area.clients", [each.name for each in file.area.clients])
        _must_be_once("area.spools", [each.topic for each in file.area.spools])
        _must_be_once("area.limits", [each.server for each in file.area.limits])
    named = [] if places is None else [each.topic for each in places.topics]
    found = Snapshot.of(
        [
            BrokerReport(
                broker.name,
                broker.report.at_s,
                broker.report.out_bytes_per_s,
                math.inf if broker.report.capacity_bytes_per_s is None else broker.report.capacity_bytes_per_s,
                tuple(TopicLoad(**msgspec.structs.asdict(load)) for load in broker.report.topics),
                Resources(**msgspec.structs.asdict(broker.report.used)),
                Resources(**msgspec.structs.asdict(broker.report.most)),
            )
            for broker in file.brokers
            if broker.report is not None
        ],
        {each.topic: route(each.epoch, each.strategy, each.brokers) for each in file.routes},
        Ring(file.ring.brokers, file.ring.version, file.ring.vnodes),
        at_s=file.at_s,
        sites={broker.name: broker.site for broker in file.brokers},
        draining=[broker.name for broker in file.brokers if broker.draining],
        planned_s=file.planned_s,
        renting=file.renting,
        named=named if file.area is None else [*named, *area_json.topics_in(file.area)],
        held=file.held,
        relieved=[broker.name for broker in file.brokers if broker.relieved],
    )
    where = None if places is None else places_json.read(places, found.brokers, found.topics)
    servers = None if where is None else where.brokers
    return replace(
        found,
        places=where,
        homes=None if file.homes is None else homes_json.read(file.homes, found.brokers),
        processing=processing_json.read(file.processing, found.topics) if file.processing else None,
        area=None if file.area is None else area_json.read(file.area, servers, found.brokers, found.topics),
    )


def _must_be_once(where: str, names: list[str]) -> None:
    for name, after in pairwise(sorted(names)):
        if name == after:
            raise SnapshotError(f"{where} has {name!r} twice")


def _version_or(content: bytes, otherwise: str) -> str:
    """Why a file that is JSON cannot be read: its version, if that is not ours."""
    found = msgspec.json.decode(content)
    version = found.get("schema") if isinstance(found, dict) else None
    if version == SNAPSHOT_VERSION:
        return otherwise
    if isinstance(version, str) and version.startswith("nearcast.snapshot/"):
        return f"is of version {version!r}; this nearcast reads {SNAPSHOT_VERSION!r}"
    return f"is not a nearcast snapshot: its 'schema' is {version!r}, not {SNAPSHOT_VERSION!r}"
