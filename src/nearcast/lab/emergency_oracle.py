"""What every subscriber of the emergency application must have been told, in plain Python: no SQL, no Spark, no grid.

It is given the records as they were made, with which version of its dataset each was committed, and what every
execution of every channel read: versions of datasets. What follows for a subscription is computed here from its
definition alone: who is near whom by the haversine formula, one pair at a time.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from nearcast.domain.execution import Execution
from nearcast.lab.emergency import REPORTS, USERS, Record, user_name
from nearcast.lab.workloads.emergencies import ANY, CHANNELS, PLACE_KM, SHELTER_KM, Asked

_EARTH_KM = 6371.0088
_EXAMPLES = 20
_CLOSE = 1e-9  # so near to the border, as a share of the distance, either answer is right

Told = frozenset[tuple[int, int]]
"""What one notification says: of each row the report's id and a checksum of all of it."""

Place = tuple[float, float]


class Followed(NamedTuple):
    """One subscriber's subscription: which of the distinct ones, and after which execution it began."""

    user: int
    asked: int
    begun: int


class Heard(NamedTuple):
    """One notification."""

    user: int
    asked: int
    execution: int
    told: Told


@dataclass(slots=True)
class Verdict:
    """`due`: notifications that subscribers must have had. `wrong`: they had other rows, or were not for them.

    `examples`: the first few of what is not as it should be.
    """

    subscriptions: int = 0
    due: int = 0
    heard: int = 0
    missed: int = 0
    repeated: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    def note(self, kind: str, where: str) -> None:
        setattr(self, kind, getattr(self, kind) + 1)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{kind}: {where}")


def checksum(row: Mapping[str, object]) -> int:
    """Of a row, whatever the order of its columns."""
    return zlib.crc32(msgspec.json.encode(sorted(row.items())))


class Oracle:
    """`reports`, `shelters`: the records, by id. `places`: of each place, where it is. `committed`: with which version
    each report came; `users`: of each user, (version, place) in the order of versions.
    """

    def __init__(
        self,
        reports: Mapping[int, Record],
        shelters: Iterable[Record],
        asked: Sequence[tuple[Asked, Record]],
        *,
        committed: Mapping[int, int],
        users: Mapping[str, Sequence[tuple[int, Place]]],
    ) -> None:
        self._reports = reports
        self._asked = asked
        self._users = users
        self._by_version = sorted((version, number) for number, version in committed.items())
        self._versions = [version for version, _ in self._by_version]
        self._shelters = [(int(str(each["id"])), _place(each)) for each in shelters]
        self._near: dict[int, list[int]] = {}

    def due(self, number: int, execution: Execution) -> tuple[Told, Told]:
        """What an execution has for a distinct subscription: what it must have, and what it may have."""
        asked, values = self._asked[number]
        shape, window = CHANNELS[asked.channel], execution.windows[REPORTS]
        first, last = bisect_right(self._versions, window.after), bisect_right(self._versions, window.until)
        middle, km = self._middle(asked, values, execution)
        must, may = [], []
        for _, report in self._by_version[first:last]:
            record = self._reports[report]
            if shape.typed and record["kind"] != values["kind"]:
                continue
            if km is not None:
                if middle is None:
                    continue
                apart_km = haversine_km(_place(record), middle)
                if apart_km > km * (1 + _CLOSE):
                    continue
                if apart_km > km * (1 - _CLOSE):
                    may.append(self._row(report, enriched=shape.enriched))
                    continue
            must.append(self._row(report, enriched=shape.enriched))
        return frozenset(must), frozenset([*must, *may])

    def judge(
        self, followed: Collection[Followed], heard: Iterable[Heard], executions: Mapping[int, Sequence[Execution]]
    ) -> Verdict:
        """`executions`: all of each channel, by its number."""
        verdict = Verdict(subscriptions=len(followed))
        got: dict[tuple[int, int], dict[int, list[Told]]] = defaultdict(lambda: defaultdict(list))
        for each in heard:
            got[each.user, each.asked][each.execution].append(each.told)
            verdict.heard += 1
        followers: dict[int, list[Followed]] = defaultdict(list)
        for one in followed:
            followers[one.asked].append(one)
        for number, mine in followers.items():
            asked = self._asked[number][0]
            for execution in executions[asked.channel]:
                must, may = self.due(number, execution)
                for user, _, begun in mine:
                    if execution.number <= begun:
                        continue
                    verdict.due += bool(must)
                    found = got[user, number].pop(execution.number, [])
                    where = f"{user_name(user)}, {asked}, execution {execution.number}"
                    if must and not found:
                        verdict.note("missed", where)
                    elif len(found) > 1:
                        verdict.note("repeated", where)
                    elif found and not must <= found[0] <= may:
                        verdict.note("wrong", f"{where}: {_apart(must, may, found[0])}")
        for (user, number), left in got.items():
            for stray in left:
                where = f"{user_name(user)}, {self._asked[number][0]}, execution {stray}"
                verdict.note("wrong", f"{where}: nothing was due")
        return verdict

    def _middle(self, asked: Asked, values: Record, execution: Execution) -> tuple[Place | None, float | None]:
        """Around where, and how far; None without a bound, and without a place where the user was not known yet."""
        shape = CHANNELS[asked.channel]
        if shape.placed:
            return _place(values), PLACE_KM
        if asked.user == ANY:
            return None, None
        history = self._users.get(user_name(asked.user), ())
        known = bisect_left(history, execution.windows[USERS].until + 1, key=lambda each: each[0])
        return (history[known - 1][1] if known else None), asked.km

    def _row(self, report: int, *, enriched: bool) -> tuple[int, int]:
        record: dict[str, object] = dict(self._reports[report])
        if enriched:
            record["shelters"] = self._shelters_near(report)
        return report, checksum(record)

    def _shelters_near(self, report: int) -> list[int]:
        if report not in self._near:
            at = _place(self._reports[report])
            self._near[report] = sorted(
                number for number, place in self._shelters if haversine_km(at, place) <= SHELTER_KM
            )
        return self._near[report]


def haversine_km(one: Place, other: Place) -> float:
    lat1, lon1, lat2, lon2 = map(math.radians, (*one, *other))
    half = math.sin((lat2 - lat1) / 2) ** 2 + math.cos(lat1) * math.cos(lat2) * math.sin((lon2 - lon1) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(math.sqrt(half))


def _place(record: Record) -> Place:
    return float(record["lat"]), float(record["lon"])


def _apart(must: Told, may: Told, found: Told) -> str:
    lacking, extra = (sorted({report for report, _ in each}) for each in (must - found, found - may))
    return f"without {lacking[:5]}, with {extra[:5]} too much"
