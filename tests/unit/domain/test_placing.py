"""From what agents report to what a policy for promises sees. Positions on a line are milliseconds, one way."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.control.verify import objections
from nearcast.domain.load import BrokerReport
from nearcast.domain.places import Measured, Places, Spots
from nearcast.domain.placing import candidates_for, places_of
from nearcast.domain.plan import Candidate
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.whereabouts import BrokerPlace, Latencies, Spot, TopicPlace
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
    assert candidates_for([("a", topic)], told, 5) == step.forecast.candidates
    assert candidates_for([("a", TopicPlace("t", spot(1.0)))], told, 5) == ()


def near_c(*elsewhere: tuple[str, float], worst_s: float = 0.4) -> list[BrokerPlace]:
    """By their coordinates the topic's clients are at `b`."""
    topic = TopicPlace("t", spot(50.0), spot(50.0), deviation_s=0.01, worst_s=worst_s, elsewhere=elsewhere)
    return [BrokerPlace("a", spot(0.0), (topic,)), BrokerPlace("b", spot(50.0)), BrokerPlace("c", spot(150.0))]


def test_a_broker_that_is_predicted_far_and_measured_near_is_chosen() -> None:
    (step,) = epulsar(with_places(seen(), near_c()), Settings(), 0.0).steps
    assert step.brokers == ("b",)
    told = near_c(("b", 0.200), ("c", 0.010))
    snapshot = with_places(seen(), told)
    plan = epulsar(snapshot, Settings(), 0.0)
    (step,) = plan.steps
    assert step.brokers == ("c",)
    assert step.forecast is not None
    assert step.forecast.candidates == (Candidate("c", 5.0), Candidate("b", 100.0), Candidate("a", 200.0))
    assert candidates_for([("a", told[0].topics[0])], told, 5) == step.forecast.candidates
    assert objections(plan, snapshot) == []
    (objection,) = objections(replace(plan, steps=(replace(step, brokers=("b",)),)), with_places(seen(), near_b_only()))
    assert "would be at 100.0 ms on 'b'" in objection
    assert "now it is at 30.0 ms" in objection


def near_b_only() -> list[BrokerPlace]:
    return near_c(("b", 0.200), worst_s=0.060)


def test_a_broker_that_is_only_predicted_must_be_better_by_prediction_too() -> None:
    """Measured 80 ms where 50 are predicted: `b`, predicted 50 and measured to be more as well, would send it back."""
    topic = TopicPlace("t", spot(25.0), spot(25.0), worst_s=0.16, elsewhere=(("c", 0.15),))
    told = [BrokerPlace("a", spot(0.0), (topic,)), BrokerPlace("b", spot(50.0)), BrokerPlace("c", spot(150.0))]
    (step,) = epulsar(with_places(seen(), told), Settings(), 0.0).steps
    assert step.brokers == ("c",), "which is known to be better"
    told[1] = BrokerPlace("b", spot(45.0))
    (step,) = epulsar(with_places(seen(), told), Settings(), 0.0).steps
    assert step.brokers == ("b",)


def test_measured_worst_cases_that_are_nearly_equal_move_nothing_however_far_the_farthest_client_is() -> None:
    at = spot(50.0)
    for better_s, moved in ((0.0975, 0), (0.094, 1)):
        topic = TopicPlace("t", at, at, deviation_s=0.08, worst_s=0.1, elsewhere=(("b", better_s),))
        told = [BrokerPlace("a", spot(0.0), (topic,)), BrokerPlace("b", spot(50.0))]
        assert len(epulsar(with_places(seen(), told), Settings(), 0.0).steps) == moved


def test_what_was_measured_to_a_broker_that_has_not_said_where_it_is_counts_for_nothing() -> None:
    told = near_c(("b", 0.001), ("c", 0.030), ("gone", 0.001))
    del told[1]
    snapshot = with_places(seen(), told)
    assert snapshot.places is not None
    assert math.isnan(snapshot.places.expected_s(np.array([0]), np.array([1]))[0])
    (step,) = epulsar(snapshot, Settings(), 0.0).steps
    assert step.brokers == ("c",)


def test_while_a_topic_moves_no_broker_has_measurements_of_all_its_clients() -> None:
    told = near_c(("c", 0.001))
    told[1] = BrokerPlace("b", spot(50.0), told[0].topics)
    places = places_of(seen(), told, SLOS)
    assert places is not None
    assert places.measured is None
    assert candidates_for([(each.broker, told[0].topics[0]) for each in told[:2]], told, 1)[0].broker == "b"


def test_a_broker_that_all_clients_have_left_hides_no_measurements() -> None:
    """It still tells how long messages took there; by coordinates alone the topic would go to `b`."""
    told = near_c(("b", 0.200), ("c", 0.010))
    took = Latencies(5, 0.01, 0.01, 0.01, 0.01, 0.0)
    told[1] = BrokerPlace("b", spot(50.0), (TopicPlace("t", latencies=took),))
    (step,) = epulsar(with_places(seen(), told), Settings(), 0.0).steps
    assert step.brokers == ("c",)


@given(st.lists(st.dictionaries(st.integers(0, 4), st.floats(0, 1)), max_size=6), st.data())
def test_measured_worst_cases_are_the_same_for_pairs_and_for_all_brokers(
    told: list[dict[int, float]], data: st.DataObject
) -> None:
    count = len(told)
    brokers, topics = (Spots(np.zeros((number, 2)), np.full(number, 0.01)) for number in (5, count))
    measured = Measured.among([list(each.items()) for each in told])
    places = Places(brokers, topics, topics, *(np.zeros(count),) * 3, measured=measured)
    asked = data.draw(st.lists(st.integers(0, count - 1), max_size=8)) if count else []
    rows = np.array(asked, dtype=np.int64)
    found = places.expected_anywhere_s(rows)
    for broker in range(5):
        assert places.expected_s(rows, np.full(len(rows), broker)).tolist() == found[:, broker].tolist()
        assert found[:, broker].tolist() == [told[topic].get(broker, 0.04) for topic in asked]
