"""A route's three answers: where to publish, where to attach, what is still missing."""

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.domain.route import Delegation, Route, Strategy, brokers_of, route

THREE = ("H0", "H1", "H2")


@pytest.mark.parametrize("brokers", [(), ("H1", "H0"), ("H0", "H0")])
def test_brokers_that_are_not_sorted_and_distinct_are_refused(brokers: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="sorted, distinct and not empty"):
        Route(1, Strategy.HOMED, brokers)


def test_a_single_route_with_two_brokers_is_refused() -> None:
    with pytest.raises(ConfigError, match="a single route has one broker, got 2"):
        Route(1, Strategy.SINGLE, ("H0", "H1"))


def test_a_route_takes_brokers_in_any_order() -> None:
    assert route(1, Strategy.HOMED, ("H2", "H0", "H2")) == Route(1, Strategy.HOMED, ("H0", "H2"))


def test_on_a_single_route_everybody_meets_at_the_one_broker() -> None:
    single = route(1, Strategy.SINGLE, ("H0",))
    assert single.publish_to(5) == single.attach_to(9) == ("H0",)


def test_with_all_subscribers_a_publisher_picks_one_and_subscribers_are_everywhere() -> None:
    replicated = route(1, Strategy.ALL_SUBSCRIBERS, THREE)
    assert [replicated.publish_to(key) for key in range(4)] == [("H0",), ("H1",), ("H2",), ("H0",)]
    assert replicated.attach_to(1) == THREE


def test_with_all_publishers_a_subscriber_picks_one_and_publishers_are_everywhere() -> None:
    replicated = route(1, Strategy.ALL_PUBLISHERS, THREE)
    assert replicated.publish_to(1) == THREE
    assert replicated.attach_to(1) == ("H1",)


def test_a_homed_client_is_at_its_home_if_the_route_has_it() -> None:
    homed = route(1, Strategy.HOMED, ("H0", "H1"))
    assert homed.publish_to(0, "H1") == homed.attach_to(0, "H1") == ("H1",)
    assert homed.attach_to(0, "H7") == ("H0",)
    assert homed.attach_to(1) == ("H1",)


def test_a_home_means_nothing_to_the_other_strategies() -> None:
    assert route(1, Strategy.ALL_SUBSCRIBERS, ("H0", "H1")).publish_to(0, "H1") == ("H0",)


def test_with_all_subscribers_one_broker_of_the_route_is_enough() -> None:
    replicated = route(1, Strategy.ALL_SUBSCRIBERS, ("H0", "H1"))
    assert replicated.missing(("H1",), 0) == ()
    assert replicated.missing(("H7",), 1) == ("H1",)


@pytest.mark.parametrize("strategy", [Strategy.ALL_PUBLISHERS, Strategy.HOMED])
def test_with_scattered_subscribers_every_broker_must_be_reached(strategy: Strategy) -> None:
    assert route(1, strategy, THREE).missing(("H1",), 0) == ("H0", "H2")


def test_only_a_homed_route_of_several_brokers_forwards_when_nothing_moves() -> None:
    forwards = {strategy: route(1, strategy, ("H0",)).forwards for strategy in Strategy}
    assert not any(forwards.values())
    several = [each for each in Strategy if each is not Strategy.SINGLE and route(1, each, THREE).forwards]
    assert several == [Strategy.HOMED]


def test_the_brokers_of_several_routes_are_sorted_and_distinct() -> None:
    routes = (route(1, Strategy.HOMED, ("H2", "H1")), route(2, Strategy.SINGLE, ("H1",)))
    assert brokers_of(routes) == ("H1", "H2")


def test_whoever_is_at_a_home_that_delegates_publishes_at_the_cloud_and_hears_at_home() -> None:
    delegated = Route(1, Strategy.HOMED, ("H0", "H1", "H2"), delegation=Delegation("H2", ("H0",)))
    assert delegated.publish_to(0, "H0") == ("H2",)
    assert delegated.publish_to(0, None) == ("H2",)  # its key gives H0
    assert delegated.publish_to(0, "H1") == ("H1",)
    assert delegated.attach_to(0, "H0") == ("H0",)
    assert delegated.takes == ("H1", "H2")


@pytest.mark.parametrize(
    ("strategy", "cloud", "homes", "why"),
    [
        (Strategy.ALL_SUBSCRIBERS, "H0", ("H1",), "has no homes that could delegate"),
        (Strategy.HOMED, "H9", ("H1",), "'H9' is part of a delegation, but not of the route"),
        (Strategy.HOMED, "H0", ("H1", "H9"), "'H9' is part of a delegation"),
        (Strategy.HOMED, "H0", ("H0",), "cannot delegate to itself"),
        (Strategy.HOMED, "H0", (), "sorted, distinct and not empty"),
        (Strategy.HOMED, "H0", ("H2", "H1"), "sorted, distinct and not empty"),
    ],
)
def test_a_delegation_that_does_not_fit_its_route_is_refused(
    strategy: Strategy, cloud: str, homes: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        Route(1, strategy, ("H0", "H1", "H2"), delegation=Delegation(cloud, homes))
