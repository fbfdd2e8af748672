"""The newest report of every broker."""

from nearcast.coordinator.reports import FRESH_S, Reports
from nearcast.domain.load import BrokerReport
from nearcast.wire.control import Loaded, LoadOrder
from nearcast.wire.loads import Load


def load(broker: str, out: float) -> Load:
    return Load(BrokerReport(broker, 0.0, out, 100.0))


def test_the_newest_report_counts_and_a_lost_agents_is_forgotten() -> None:
    reports = Reports()
    for each in (load("b2", 1.0), load("b1", 2.0), load("b2", 3.0)):
        reports.heard(each, 10.0)
    assert [(each.broker, each.out_bytes_per_s) for each in reports.fresh(10.0)] == [("b1", 2.0), ("b2", 3.0)]
    assert reports.answer(LoadOrder("me", 7, "b2"), 10.5) == Loaded(7, load("b2", 3.0), 0.5)
    reports.forget("b2")
    assert [each.broker for each in reports.fresh(10.0)] == ["b1"]
    assert reports.answer(LoadOrder("me", 8, "b2"), 11.0) == Loaded(8, None)


def test_what_is_old_is_not_planned_by() -> None:
    reports = Reports()
    reports.heard(load("b1", 1.0), 10.0)
    assert [each.at_s for each in reports.fresh(11.0)] == [10.0], "on our clock, not on the agent's"
    assert reports.fresh(10.0 + FRESH_S) == ()
