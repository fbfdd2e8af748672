"""`within_km` as an equality of grid cells, exact in the end.

Points are taken as they are in space: on the unit sphere, with x, y and z, in a grid of cubes. There is no pole and no
date line. What is within a distance is within a chord c, so each of its x, y and z differs by c at most: the cubes of
that box have all of it, a point is in exactly one cube, and the chord itself is compared in the end. Everything is an
expression of Spark SQL: no Python runs per row.
"""

from __future__ import annotations

import math

EARTH_KM = 6371.0088  # the mean radius

_FINEST = 19  # so that three indices fit into a BIGINT
_SLACK = 1e-12  # more than rounding moves a point of the unit sphere
_SPREAD = 3  # cubes halved so many times below the largest distance: some hundred cover it


def scale(largest_km: float, common_km: float) -> float:
    """How many cubes there are along one unit, when distances go up to `largest_km` and most are up to `common_km`.

    Any gives the right answer. With this one, most boxes have 8 cubes at most, and the largest some hundred.
    """
    return 2.0 ** max(0, min(_level(common_km), _level(largest_km) + _SPREAD, _FINEST))


def _level(km: float) -> int:
    chord = 2 * math.sin(min(max(km, 0.0) / EARTH_KM, math.pi) / 2)
    return _FINEST if chord <= 0.0 else math.floor(-1 - math.log2(chord))


def cell(lat: str, lon: str, per_unit: str) -> str:
    """The cube that a point is in. Null for no point."""
    x, y, z = (f"floor(({axis} + 1) * {per_unit})" for axis in _axes(lat, lon))
    return f"({x} * 4398046511104 + {y} * 2097152 + {z})"


def cells(lat: str, lon: str, km: str, per_unit: str) -> str:
    """A derived table with the cubes around a point, each once, as `__c`; none around what is no point (null, NaN)."""
    return _exploded(lat, lon, km, per_unit)


def spread(source: str, alias: str, lat: str, lon: str, km: str, per_unit: str) -> str:  # noqa: PLR0917  # of what, and how
    """A derived table with the records of `source` once for every cube around each of them, which is in `__c`."""
    return _exploded(lat, lon, km, per_unit, f"{alias}.*, ", f" FROM {source} {alias}")


def _exploded(  # noqa: PLR0917  # of what, and how
    lat: str, lon: str, km: str, per_unit: str, kept: str = "", source: str = ""
) -> str:
    x, y, z = _axes(lat, lon)
    sides = (
        f"sequence(floor((greatest(__t.{axis} - __t.__r, -1) + 1) * {per_unit}),"
        f" floor((least(__t.{axis} + __t.__r, 1) + 1) * {per_unit}))"
        for axis in ("__x", "__y", "__z")
    )
    cubes = (
        "flatten(transform({}, __i -> flatten(transform({}, __j -> transform({}, __k ->"
        " __i * 4398046511104 + __j * 2097152 + __k)))))"
    ).format(*sides)
    point = f"SELECT {kept}{x} AS __x, {y} AS __y, {z} AS __z, {_chord(km)} + {_SLACK} AS __r{source}"
    # Spark's greatest and least leave nulls out, and NaN is above all: without this, no point would be everywhere.
    there = "__t.__r >= 0 AND __t.__x <= 2 AND __t.__y <= 2 AND __t.__z <= 2"
    others = "__t.* EXCEPT (__x, __y, __z, __r), " if kept else ""
    return f"(SELECT {others}explode({cubes}) AS __c FROM ({point}) __t WHERE {there})"  # noqa: S608  # no input


def within(lat: str, lon: str, lat2: str, lon2: str, km: str) -> str:
    """Whether two points are so near each other, by the chord between them."""
    apart = " + ".join(
        f"pow({one} - {other}, 2)" for one, other in zip(_axes(lat, lon), _axes(lat2, lon2), strict=True)
    )
    return f"({km} >= 0 AND {apart} <= pow({_chord(km)}, 2))"


def _axes(lat: str, lon: str) -> tuple[str, str, str]:
    north, east = f"radians({lat})", f"radians({lon})"
    return f"cos({north}) * cos({east})", f"cos({north}) * sin({east})", f"sin({north})"


def _chord(km: str) -> str:
    """Negative for a negative distance: nothing is so near.

    A number with a point is a DECIMAL in SQL, and the quotient of two of those has ten digits behind the point.
    """
    return f"(2 * sin(least(CAST({km} AS DOUBLE) / {EARTH_KM}D, {math.pi}D) / 2))"
