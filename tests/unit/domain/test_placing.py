"""From what agents report to what a policy for promises sees. Positions on a line are milliseconds, one way."""

import math
from dataclasses import replace

import pytest

from nearcast.domain.load import BrokerReport
from nearcast.domain.placing import candidates_for, places_of
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace
from nearcast.policies.epulsar import epulsar
from nearcast.policies.settings import Settings

SLOS = {"t": Slo(95, 40.0)}


def spot(at_ms: float) -> Spot:
    return Spot((2e-3 * at_ms,), 0.0)


def seen(at: str = "a") -> Snapshot:
    reports = [BrokerReport(name, 0.0, 0.0, math.inf) for name in ("a", "b", "c")]
    return Snapshot.of(reports, {"t": Route(1, Strategy.SINGLE, (at,))}, Ring(("a", "b", "c")), at_s=0.0)


def test_half_of_every_round_trip_counts() -> None:
    topic = TopicPlace("t", spot(10.0), spot(30.0), deviation_s=0.004, worst_s=0.090)
    places = places_of(seen(), [BrokerPlace("a", spot(0.0), (topic,))], SLOS)
    assert places is not None
    assert places.brokers.to(places.publishers)[0].tolist() == pytest.approx([0.010])
    assert places.deviation_s.tolist() == pytest.approx([0.002])
    assert places.worst_s.tolist() == pytest.approx([0.045])
    assert places.bound_s.tolist() == [0.040]


def test_a_broker_that_has_not_said_where_it_is_is_no_candidate_and_breaks_nothing() -> None:
    far = TopicPlace("t", spot(100.0), spot(100.0), worst_s=0.4)
    told = [BrokerPlace("a", spot(0.0), (far,)), BrokerPlace("c", spot(90.0))]
    snapshot = seen()
    places = places_of(snapshot, told, SLOS)
    assert places is not None
    assert math.isnan(places.brokers.height[1])
    (step,) = epulsar(with_places(snapshot, told), Settings(), 0.0).steps
    assert step.brokers == ("c",)
    assert step.forecast is not None
    assert [each.broker for each in step.forecast.candidates] == ["c", "a"]


def with_places(snapshot: Snapshot, told: list[BrokerPlace]) -> Snapshot:
    return replace(snapshot, places=places_of(snapshot, told, SLOS))


def test_nobody_has_said_anything() -> None:
    assert places_of(seen(), [], SLOS) is None


def test_a_coordinate_of_another_space_is_nowhere() -> None:
    told = [BrokerPlace("a", spot(0.0)), BrokerPlace("b", Spot((0.0, 0.0), 0.0))]
    places = places_of(seen(), told, SLOS)
    assert places is not None
    assert [math.isnan(each) for each in places.brokers.height.tolist()] == [False, True, True]


def test_while_a_topic_moves_each_side_is_taken_from_who_knows_it_and_the_worst_case_is_predicted() -> None:
    told = [
        BrokerPlace("a", spot(0.0), (TopicPlace("t", spot(10.0), None, 0.002),)),
        BrokerPlace("b", spot(50.0), (TopicPlace("t", None, spot(30.0), 0.004),)),
    ]
    places = places_of(seen("b"), told, SLOS)
    assert places is not None
    assert places.worst_s.tolist() == pytest.approx([0.040 + 0.020 + 0.002])


def test_what_its_own_broker_says_of_a_topic_comes_before_what_another_says() -> None:
    told = [
        BrokerPlace("a", spot(0.0), (TopicPlace("t", spot(10.0), spot(10.0), worst_s=0.1),)),
        BrokerPlace("b", spot(50.0), (TopicPlace("t", spot(20.0), spot(20.0), worst_s=0.2),)),
    ]
    places = places_of(seen("b"), told, SLOS)
    assert places is not None
    assert places.worst_s.tolist() == pytest.approx([0.1])
    assert places.publishers.vec[0].tolist() == pytest.approx([0.020])


def test_the_candidates_of_one_topic_are_those_of_the_policy() -> None:
    topic = TopicPlace("t", spot(80.0), spot(100.0), deviation_s=0.01, worst_s=0.4)
    told = [BrokerPlace("a", spot(0.0), (topic,)), BrokerPlace("b", spot(50.0)), BrokerPlace("c", spot(90.0))]
    (step,) = epulsar(with_places(seen(), told), Settings(), 0.0).steps
    assert step.forecast is not None
    assert candidates_for([topic], told, 5) == step.forecast.candidates
    assert candidates_for([TopicPlace("t", spot(1.0))], told, 5) == ()
