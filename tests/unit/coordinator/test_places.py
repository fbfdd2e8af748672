"""What a leader keeps of where brokers and clients are."""

from nearcast.coordinator.places import FRESH_S, BrokerPlaces
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace
from nearcast.wire.places import Placed


def placed(number: int, *topics: str, parts: int = 1, worst_s: float = 0.01) -> Placed:
    found = tuple(TopicPlace(topic, worst_s=worst_s) for topic in topics)
    return Placed(BrokerPlace("b1", Spot((0.0,), 0.0), found), number, parts)


def topics(places: BrokerPlaces, now: float = 1.0) -> dict[str, float]:
    return {each.topic: each.worst_s for place in places.fresh_places(now) for each in place.topics}


def test_a_round_replaces_the_one_before_when_all_of_it_has_come() -> None:
    places = BrokerPlaces()
    places.heard(placed(1, "a", "b"), 0.0)
    places.heard(placed(2, "b", parts=2), 1.0)
    assert set(topics(places)) == {"a", "b"}
    places.heard(placed(2, "c", parts=2), 1.0)
    assert set(topics(places)) == {"b", "c"}


def test_what_changed_since_is_taken_at_once() -> None:
    places = BrokerPlaces()
    places.heard(placed(1, "a", "b"), 0.0)
    places.heard(placed(1, "a", parts=0, worst_s=0.05), 0.5)
    assert topics(places) == {"a": 0.05, "b": 0.01}
    assert [(broker, at_s) for broker, _, at_s in places.of("a", 1.0)] == [("b1", 0.5)]


def test_what_is_old_or_of_a_lost_agent_is_not_told() -> None:
    places = BrokerPlaces()
    places.heard(placed(1, "a"), 0.0)
    assert places.fresh_places(FRESH_S) == ()
    assert len(places.brokers(FRESH_S - 1)) == 1
    places.forget("b1")
    assert places.fresh_places(1.0) == ()


def test_topics_are_apart_whose_clients_are_at_several_brokers() -> None:
    places, here = BrokerPlaces(), Spot((0.0,), 0.0)
    moved, staying = TopicPlace("moved", here, None), TopicPlace("staying", here, here)
    places.heard(Placed(BrokerPlace("b1", here, (moved, staying)), 1, 1), 0.0)
    places.heard(Placed(BrokerPlace("b2", here, (TopicPlace("moved", None, here), TopicPlace("staying"))), 1, 1), 0.0)
    assert places.apart(["moved", "staying", "unknown"], 1.0) == {"moved"}
    assert places.apart([], 1.0) == set()
    places.forget("b1")
    assert places.apart(["moved"], 1.0) == set()
