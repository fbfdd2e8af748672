"""A plan and its steps."""

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.domain.plan import HomeStep, Plan, Step
from nearcast.domain.route import Route, Strategy


def test_a_step_gives_the_route_to_go_to_at_the_epoch_of_its_executor() -> None:
    step = Step("t", Strategy.ALL_SUBSCRIBERS, ("a", "b"), Strategy.SINGLE, ("a",), "many publications")
    assert step.route(7) == Route(7, Strategy.ALL_SUBSCRIBERS, ("a", "b"))


def test_a_step_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="step of 't' changes nothing"):
        Step("t", Strategy.SINGLE, ("a",), Strategy.SINGLE, ("a",), "because")


def test_a_step_without_a_reason_is_refused() -> None:
    with pytest.raises(ConfigError, match="step of 't' has no reason"):
        Step("t", Strategy.SINGLE, ("a",), Strategy.SINGLE, ("b",), "")


def test_a_step_to_brokers_that_no_route_could_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="a single route has one broker"):
        Step("t", Strategy.SINGLE, ("a", "b"), Strategy.SINGLE, ("b",), "because")


def test_a_plan_that_only_says_why_nothing_is_done_changes_nothing() -> None:
    assert not Plan("p", 1.0, reasons=("waiting",)).changes
    assert Plan("p", 1.0, rent=1).changes
    assert Plan("p", 1.0, ring=("a",)).changes
    assert Plan("p", 1.0, homes=(HomeStep("s", "a", "b", "because"),)).changes


def test_another_home_is_another_one_and_has_a_reason() -> None:
    with pytest.raises(ConfigError, match="step of subscriber 's' changes nothing: its home is 'a'"):
        HomeStep("s", "a", "a", "because")
    with pytest.raises(ConfigError, match="step of subscriber 's' has no reason"):
        HomeStep("s", "a", "b", "")
