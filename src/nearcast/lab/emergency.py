"""The emergency application of BAD, section 6.1: three datasets, seven channels, and what people ask of them.

The city is that of `nearcast.lab.workloads.emergencies`, laid over Helsinki: kilometres become degrees here. Time may
be compressed: then everything happens as many times as fast, the periods of channels too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nearcast.domain.channel import ChannelSpec, Parameter, Value
from nearcast.domain.dataset import Dataset
from nearcast.domain.schema import parse_schema
from nearcast.lab.workloads.emergencies import CHANNELS, PLACE_KM, SHELTER_KM, Asked, ChannelShape, Emergencies

Record = dict[str, Value]

KINDS = ("accident", "crime", "earthquake", "fire", "flood", "outage", "shooting", "storm")
REPORTS, USERS, SHELTERS = "reports", "users", "shelters"
DATASETS = (
    Dataset(REPORTS, "reports", parse_schema("id BIGINT NOT NULL, kind STRING, lat DOUBLE, lon DOUBLE, text STRING")),
    Dataset(USERS, "users", parse_schema("id STRING, lat DOUBLE, lon DOUBLE"), key="id"),
    Dataset(SHELTERS, "shelters", parse_schema("id BIGINT NOT NULL, lat DOUBLE, lon DOUBLE")),
)

_SOUTH, _WEST = 60.15, 24.90
_KM_PER_DEGREE = 6371.0088 * math.pi / 180
_KM_PER_DEGREE_EAST = _KM_PER_DEGREE * math.cos(math.radians(_SOUTH))
_COLUMNS = "r.id, r.kind, r.lat, r.lon, r.text"
_RECORD_BYTES = 100  # of a report without its text
_WORDS = "help is on its way keep calm and away from windows "


def channel_name(number: int) -> str:
    shape = CHANNELS[number]
    what = [word for word, has in (("kind", shape.typed), ("place", shape.placed), ("near_me", shape.near)) if has]
    return "_".join([*what, *(["shelters"] if shape.enriched else [])])


def channel_specs(compress: float) -> tuple[ChannelSpec, ...]:
    return tuple(
        ChannelSpec(channel_name(number), _query(shape), _parameters(shape), shape.period_s / compress)
        for number, shape in enumerate(CHANNELS)
    )


def user_name(number: int) -> str:
    return f"u{number}"


class City:
    """The workload as records. Asked for `users` in the order of time: people walk meanwhile."""

    def __init__(self, emergencies: Emergencies) -> None:
        self.emergencies = emergencies

    def report(self, number: int) -> Record:
        city = self.emergencies
        lat, lon = _degrees(city.report_km[number])
        size = max(1, int(city.report_bytes[number]) - _RECORD_BYTES)
        text = f"{number}: {_WORDS * (size // len(_WORDS) + 1)}"[:size]
        return {"id": number, "kind": KINDS[city.report_kind[number]], "lat": lat, "lon": lon, "text": text}

    def users(self, at_s: float) -> Iterator[Record]:
        self.emergencies.walk(at_s)
        for number, at_km in enumerate(self.emergencies.at_km):
            lat, lon = _degrees(at_km)
            yield {"id": user_name(number), "lat": lat, "lon": lon}

    def shelters(self) -> Iterator[Record]:
        for number, at_km in enumerate(self.emergencies.shelters_km):
            lat, lon = _degrees(at_km)
            yield {"id": number, "lat": lat, "lon": lon}

    def values(self, asked: Asked) -> Record:
        """The parameters of a subscription."""
        shape = CHANNELS[asked.channel]
        lat, lon = _degrees(self.emergencies.places_km[asked.place])
        found: Record = {"kind": KINDS[asked.kind]} if shape.typed else {}
        if shape.placed:
            found |= {"lat": lat, "lon": lon, "km": PLACE_KM}
        if shape.near:
            found |= {"user": user_name(asked.user), "km": asked.km}
        return found


def _degrees(at_km: NDArray[np.float64]) -> tuple[float, float]:
    east, north = map(float, at_km.tolist())
    return round(_SOUTH + north / _KM_PER_DEGREE, 7), round(_WEST + east / _KM_PER_DEGREE_EAST, 7)


def _query(shape: ChannelShape) -> str:
    """As a person would write it."""
    columns, sources, ending = _COLUMNS, f"{REPORTS} r", ""
    where = ["is_new(r)"]
    if shape.typed:
        where.append("r.kind = :kind")
    if shape.placed:
        where.append("within_km(r.lat, r.lon, :lat, :lon, :km)")
    if shape.near:
        sources = f"{USERS} u, {sources}"
        where += ["u.id = :user", "within_km(u.lat, u.lon, r.lat, r.lon, :km)"]
    if shape.enriched:
        columns += ", sort_array(collect_list(s.id)) AS shelters"
        sources += f" LEFT JOIN {SHELTERS} s ON within_km(s.lat, s.lon, r.lat, r.lon, {SHELTER_KM})"
        ending = f" GROUP BY {_COLUMNS}"
    return f"SELECT {columns} FROM {sources} WHERE {' AND '.join(where)}{ending}"  # noqa: S608  # no input of anybody


def _parameters(shape: ChannelShape) -> tuple[Parameter, ...]:
    names = [("kind STRING", shape.typed), ("user STRING", shape.near)]
    names += [("lat DOUBLE", shape.placed), ("lon DOUBLE", shape.placed), ("km DOUBLE", shape.placed or shape.near)]
    return tuple(Parameter.parse(text) for text, has in names if has)
