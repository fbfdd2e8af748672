"""Where load is once every move that was ordered is over."""

import pytest

from nearcast.domain.route import Strategy, route
from nearcast.policies.rest import at_rest
from tests.unit.policies.fleet import fleet, load

BOTH = ("a", "b")


def test_a_topic_at_its_broker_counts_as_measured() -> None:
    rest = at_rest(fleet({"a": [load("t", 30.0, 5.0, 4)], "b": []}, other={"a": 7.0}))
    assert (rest.publications.tolist(), rest.subscribers.tolist(), rest.bytes_out.tolist()) == ([5.0], [4.0], [30.0])
    assert rest.load.tolist() == [37.0, 0.0]


def test_a_topic_that_is_on_its_way_counts_where_it_goes() -> None:
    seen = fleet(
        {"a": [load("t", 30.0, 5.0, 4)], "b": [load("t", 10.0, 0.0, 1)]}, {"t": route(2, Strategy.SINGLE, ("b",))}
    )
    rest = at_rest(seen)
    assert (rest.publications.tolist(), rest.subscribers.tolist()) == ([5.0], [5.0])
    assert rest.load.tolist() == [0.0, 40.0]


def test_with_all_publishers_a_message_counts_once_and_each_subscriber_too() -> None:
    loads = {"a": [load("t", 30.0, 10.0, 400)], "b": [load("t", 20.0, 9.0, 300)]}
    rest = at_rest(fleet(loads, {"t": route(2, Strategy.ALL_PUBLISHERS, BOTH)}))
    assert (rest.publications.tolist(), rest.subscribers.tolist()) == ([10.0], [700.0])
    assert rest.load.tolist() == [30.0, 20.0]


def test_with_all_subscribers_a_subscriber_counts_once_and_each_message_too() -> None:
    loads = {"a": [load("t", 30.0, 1000.0, 3)], "b": [load("t", 20.0, 900.0, 4)]}
    rest = at_rest(fleet(loads, {"t": route(2, Strategy.ALL_SUBSCRIBERS, BOTH)}))
    assert (rest.publications.tolist(), rest.subscribers.tolist()) == ([1900.0], [4.0])
    assert rest.load.tolist() == [30.0, 20.0]


def test_a_replica_that_nothing_is_seen_of_yet_counts_with_its_share() -> None:
    seen = fleet({"a": [load("t", 30.0)], "b": []}, {"t": route(2, Strategy.ALL_SUBSCRIBERS, BOTH)})
    assert at_rest(seen).load.tolist() == [15.0, 15.0]


def test_a_server_that_sends_less_than_its_topics_say_counts_with_its_topics() -> None:
    assert at_rest(fleet({"a": [load("t", 30.0)]}, other={"a": -10.0})).load.tolist() == [pytest.approx(30.0)]


def test_a_server_at_its_capacity_counts_with_what_is_asked_of_it() -> None:
    """What a full server sends is what it can: a topic may ask for more."""
    crowded = load("t", 70.0, 10.0, 20, bytes_in=8.0)
    assert at_rest(fleet({"a": [crowded, load("u", 31.0)], "b": []})).load.tolist() == [191.0, 0.0]
    assert at_rest(fleet({"a": [crowded, load("u", 29.0)], "b": []})).load.tolist() == [99.0, 0.0]


def test_a_system_without_topics_has_no_load() -> None:
    assert at_rest(fleet({"a": [], "b": []})).load.tolist() == [0.0, 0.0]
