"""City taxis (Khare, section III-A): regions of 500 m, each with the topics `gps` and `update`.

Every taxi sends where it is once a second to the `gps` topic of its region, which is cleaned and stored (ETL) for one
subscriber; once a second a prediction for the region goes to all its taxis on `update`. Both are processed at a broker:
by RIoTBench, which the paper cites, ETL and prediction of taxi data take 10 to 40 ms.

Where taxis are is generated, or read: trips of New York's taxis (CSV), or fixes of San Francisco's (Parquet).
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from nearcast.domain.errors import ConfigError
from nearcast.pipeline.latency_fit import Floats

REGION_M = 500.0
ETL_MS, PREDICTION_MS = (10.0, 20.0), (30.0, 40.0)
_SPOTS, _SPREAD_M, _CITY_M = 12, 700.0, 12_000.0
_DEGREE_M = 111_320.0
_TRIP_COLUMNS = (
    "tpep_pickup_datetime",
    "tpep_dropoff_datetime",
    "pickup_longitude",
    "pickup_latitude",
    "dropoff_longitude",
    "dropoff_latitude",
)
_FIX_COLUMNS = ("lat", "lon", "ts", "cab")
_FRESH_S = 120  # a fix that is older says nothing of where a cab is
_BUSY_S = 60  # taxis are looked at every minute


@dataclass(frozen=True, slots=True)
class TaxiTopic:
    name: str
    interval_ms: float
    rate_hz: float
    publishers: int
    subscribers: int


def generated(taxis: int, rng: np.random.Generator) -> Floats:
    """Where they are, in metres: around a dozen places, some of which draw far more than others."""
    spots = rng.uniform(0.0, _CITY_M, (_SPOTS, 2))
    weights = rng.lognormal(0.0, 1.0, _SPOTS)
    return spots[rng.choice(_SPOTS, taxis, p=weights / weights.sum())] + rng.normal(0.0, _SPREAD_M, (taxis, 2))


def topics_of(positions_m: Floats, rng: np.random.Generator) -> list[TaxiTopic]:
    """Two for each region with a taxi, in the order of their names."""
    cells, counts = np.unique(np.floor(positions_m / REGION_M).astype(np.int64), axis=0, return_counts=True)
    found = []
    for (east, north), taxis in zip(cells.tolist(), counts.tolist(), strict=True):
        etl_ms, prediction_ms = float(rng.choice(ETL_MS)), float(rng.choice(PREDICTION_MS))
        region = f"region.{east}.{north}"
        found.append(TaxiTopic(f"{region}.gps", etl_ms, float(taxis), taxis, 1))
        found.append(TaxiTopic(f"{region}.update", prediction_ms, 1.0, 1, taxis))
    return sorted(found, key=lambda each: each.name)


def read_taxis(file: Path) -> Floats:
    """Where taxis were in the busiest minute of a file of trips or fixes, in metres. Raises ConfigError."""
    try:
        if file.suffix == ".parquet":
            return _from_fixes(file)
        return _from_trips(file)
    except OSError as error:
        raise ConfigError(f"--trips {file}: cannot be read: {error}") from error


def _from_trips(file: Path) -> Floats:
    """Under way, a taxi is on the straight line from pickup to dropoff."""
    with gzip.open(file, "rt", newline="") if file.suffix == ".gz" else file.open(newline="") as lines:
        reader = csv.DictReader(lines)
        missing = [each for each in _TRIP_COLUMNS if each not in (reader.fieldnames or ())]
        if missing:
            raise ConfigError(f"--trips {file}: no column {missing[0]!r}; trips have {', '.join(_TRIP_COLUMNS)}")
        try:
            rows = np.array([[_number(row[each]) for each in _TRIP_COLUMNS] for row in reader])
        except (ValueError, TypeError) as error:
            raise ConfigError(f"--trips {file}: a row is not that of a trip: {error}") from error
    rows = rows.reshape(-1, len(_TRIP_COLUMNS))
    rows = rows[(rows[:, 1] > rows[:, 0]) & np.all(rows[:, 2:] != 0.0, axis=1)]  # 0: where the meter did not know
    if not len(rows):
        raise ConfigError(f"--trips {file}: no trip with a begin, an end and both places")
    minute = _busiest(rows[:, 0], rows[:, 1])
    riding = rows[(rows[:, 0] <= minute) & (minute < rows[:, 1])]
    part = ((minute - riding[:, 0]) / (riding[:, 1] - riding[:, 0]))[:, None]
    return _metres(riding[:, 2:4] * (1.0 - part) + riding[:, 4:6] * part)


def _number(text: str) -> float:
    if ":" in text:
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    return float(text)


def _busiest(begin_s: Floats, end_s: Floats) -> float:
    """The whole minute in which most are under way."""
    minutes = np.arange(np.floor(begin_s.min() / _BUSY_S), np.ceil(end_s.max() / _BUSY_S) + 1) * _BUSY_S
    begun = np.searchsorted(np.sort(begin_s), minutes, side="right")
    ended = np.searchsorted(np.sort(end_s), minutes, side="right")
    return float(minutes[np.argmax(begun - ended)])


def _from_fixes(file: Path) -> Floats:
    """Each cab where it last said, if that was lately."""
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  # an extra; untyped
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # noqa: PLC0415

    try:
        table = pq.read_table(file)
    except pa.ArrowException as error:
        raise ConfigError(f"--trips {file}: not Parquet: {error}") from error
    missing = [each for each in _FIX_COLUMNS if each not in table.column_names]
    if missing:
        raise ConfigError(f"--trips {file}: no column {missing[0]!r}; fixes have {', '.join(_FIX_COLUMNS)}")
    at_s = table["ts"].to_numpy().astype(np.float64)
    _, cab = np.unique(np.array(table["cab"].cast(pa.string()).to_pylist()), return_inverse=True)
    pairs = np.unique(np.stack([np.floor(at_s / _BUSY_S), cab], axis=1), axis=0)  # who was heard in which minute
    minutes, counts = np.unique(pairs[:, 0], return_counts=True)
    minute = float(minutes[np.argmax(counts)] + 1) * _BUSY_S
    lately = np.flatnonzero((at_s <= minute) & (at_s > minute - _FRESH_S))
    lately = lately[np.lexsort((at_s[lately], cab[lately]))]
    last = lately[np.append(cab[lately][1:] != cab[lately][:-1], True)]
    places = np.stack([table["lon"].to_numpy()[last], table["lat"].to_numpy()[last]], axis=1).astype(np.float64)
    return _metres(places)


def _metres(degrees: Floats) -> Floats:
    """Of longitude and latitude, within one city."""
    middle = np.median(degrees, axis=0)
    near = degrees[np.all(np.abs(degrees - middle) < 0.5, axis=1)]  # the rest is a fault of the meter
    found: Floats = (near - near.min(axis=0)) * _DEGREE_M * np.array([np.cos(np.radians(middle[1])), 1.0])
    return found
