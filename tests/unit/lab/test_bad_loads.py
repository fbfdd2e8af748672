"""BAD-2: what of the events of a run counts as carried by which broker."""

from types import SimpleNamespace
from typing import Any

from nearcast.lab.experiments.bad_emergency import _caught_up, _loads
from nearcast.lab.live.emergency import Carried
from nearcast.lab.live.residents import Away, Got


def got(user: int, at_s: float, executed_s: float, *, home: str = "b1", execution: int = 1) -> Got:
    return Got(at_s, user, 7, execution, home, 100, executed_s, ())


def test_a_result_comes_in_once_for_all_who_are_there_and_once_more_for_who_was_offline() -> None:
    lived: Any = SimpleNamespace(
        events=[
            got(1, 12.0, 11.0),
            got(2, 12.0, 11.0),
            Away(10.5, 20.0, 3),
            got(3, 21.0, 11.0),
            got(4, 12.0, 11.0, home="b2"),
            got(1, 99.0, 98.0, execution=2),  # after the time that is looked at
        ],
        carried=Carried(10.0, 30.0, {"b1": 1500, "b2": 700}),
        idle=Carried(30.0, 40.0, {"b1": 500, "b2": 250}),
        present=[],
    )
    assert _caught_up(lived) == 1
    assert _loads(lived) == {"b1": (2 * 100 + 100 + 2 * 100, 500.0), "b2": (200, 200.0)}


def test_what_leases_cost_goes_by_how_many_subscribers_were_there() -> None:
    lived: Any = SimpleNamespace(
        events=[],
        carried=Carried(10.0, 30.0, {"b1": 1500, "b2": 700}),
        idle=Carried(30.0, 40.0, {"b1": 500, "b2": 250}),
        present=[
            (5.0, {"b1": 99, "b2": 99}),  # before the time that is looked at
            (15.0, {"b1": 8, "b2": 2}),
            (25.0, {"b1": 4, "b2": 6}),
            (35.0, {"b1": 5, "b2": 5}),
        ],
    )
    assert _loads(lived) == {"b1": (0.0, 1500 - 500 / 10 * 6 / 5 * 20), "b2": (0.0, 700 - 250 / 10 * 4 / 5 * 20)}
