"""The oracle of the emergency application: what is due, and that whatever is not as it should be is found."""

import math

import pytest

from nearcast.domain.execution import Execution, Window
from nearcast.lab.emergency import Record
from nearcast.lab.emergency_oracle import Followed, Heard, Oracle, Told, checksum, haversine_km
from nearcast.lab.workloads.emergencies import ANY, CHANNELS, Asked

HERE, KM = (60.16, 24.95), math.degrees(1 / 6371.0088)
KIND, NEAR = 0, next(number for number, shape in enumerate(CHANNELS) if shape.near)


def report(number: int, kind: str, north_km: float) -> Record:
    return {"id": number, "kind": kind, "lat": HERE[0] + north_km * KM, "lon": HERE[1], "text": f"{number}"}


REPORTS = {1: report(1, "fire", 0.0), 2: report(2, "flood", 0.2), 3: report(3, "fire", 5.0)}
SHELTERS: list[Record] = [{"id": 7, "lat": HERE[0] + 0.4 * KM, "lon": HERE[1]}, {"id": 8, "lat": 10.0, "lon": 10.0}]
ASKED: list[tuple[Asked, Record]] = [
    (Asked(KIND, 3, ANY, ANY, math.inf), {"kind": "fire"}),
    (Asked(NEAR, ANY, ANY, 0, 1.0), {"user": "u0", "km": 1.0}),
]


def execution(number: int, after: int, until: int, users: int = 1) -> Execution:
    return Execution(number, 0.0, {"reports": Window(after, until), "users": Window(0, users)})


def oracle() -> Oracle:
    far = (HERE[0] + 5 * KM, HERE[1])
    return Oracle(REPORTS, SHELTERS, ASKED, committed={1: 1, 2: 2, 3: 3}, users={"u0": [(1, HERE), (4, far)]})


def told(*numbers: int, shelters: dict[int, list[int]] | None = None) -> Told:
    rows = [REPORTS[number] | ({} if shelters is None else {"shelters": shelters[number]}) for number in numbers]
    return frozenset((int(str(row["id"])), checksum(row)) for row in rows)


def test_of_what_is_new_those_of_the_kind_are_due() -> None:
    must, may = oracle().due(0, execution(1, 0, 3))
    assert must == may == told(1, 3)
    assert oracle().due(0, execution(2, 1, 2))[0] == frozenset()


def test_who_is_near_is_told_with_shelters_where_it_was_at_that_version() -> None:
    near = {1: [7], 2: [7], 3: []}
    assert oracle().due(1, execution(1, 0, 3, users=3))[0] == told(1, 2, shelters=near)
    assert oracle().due(1, execution(1, 0, 3, users=4))[0] == told(3, shelters=near)
    assert oracle().due(1, execution(1, 0, 3, users=0))[0] == frozenset()


def test_what_is_missing_repeated_or_wrong_is_found() -> None:
    executions = {KIND: [execution(1, 0, 1), execution(2, 1, 3)], NEAR: []}
    right = [Heard(0, 0, 1, told(1)), Heard(0, 0, 2, told(3))]
    followed = [Followed(0, 0, 0)]

    def counts(heard: list[Heard]) -> tuple[int, int, int, int]:
        found = oracle().judge(followed, heard, executions)
        return found.due, found.missed, found.repeated, found.wrong

    assert counts(right) == (2, 0, 0, 0)
    assert counts(right[:1]) == (2, 1, 0, 0)
    assert counts([*right, right[0]]) == (2, 0, 1, 0)
    assert counts([right[0], Heard(0, 0, 2, told(1, 3))]) == (2, 0, 0, 1)
    assert counts([*right, Heard(0, 0, 9, told(1))]) == (2, 0, 0, 1)
    assert counts([*right, Heard(1, 0, 1, told(1))]) == (2, 0, 0, 1)


def test_nothing_is_due_from_before_it_was_subscribed() -> None:
    executions = {KIND: [execution(1, 0, 1), execution(2, 1, 3)], NEAR: []}
    verdict = oracle().judge([Followed(0, 0, 1)], [Heard(0, 0, 2, told(3))], executions)
    assert (verdict.due, verdict.missed, verdict.wrong) == (1, 0, 0)


def test_haversine() -> None:
    assert haversine_km((0.0, 0.0), (0.0, 90.0)) == pytest.approx(6371.0088 * math.pi / 2)
    assert haversine_km(HERE, (HERE[0] + KM, HERE[1])) == pytest.approx(1.0)
