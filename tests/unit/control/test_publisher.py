"""A publisher: events in, instructions out."""

import msgspec
import pytest

from nearcast.control.instructions import Say, Send
from nearcast.control.publisher import Publisher
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Bye, Hello, Welcome
from nearcast.wire.envelope import END

TIMING = Timing()
RING = Ring(("H0", "H1"), vnodes=1)
NOT_ASKED = float("-inf")


def welcome(epoch: int, broker: str, asked_s: float) -> Welcome:
    route = Route(epoch, Strategy.SINGLE, (broker,))
    return Welcome("t", route, ("H0", "H1"), 1, (), TIMING.lease_s, asked_s, 0, (), publisher=7, registered=broker)


@pytest.fixture
def publisher() -> Publisher:
    """On H0 since 0 s, epoch 1, with one message sent."""
    publisher = Publisher("t", 7, "P", RING, timing=TIMING)
    publisher.tick(0.0)
    publisher.welcome(welcome(1, "H0", 0.0), 0.0)
    publisher.publish(b"", 0.0, 0)
    return publisher


def test_a_publisher_that_changes_broker_ends_its_leg_and_says_hello_at_the_new_one(publisher: Publisher) -> None:
    end, hello = publisher.welcome(welcome(2, "H1", NOT_ASKED), 1.0)
    assert isinstance(end, Send)
    assert (end.broker, end.envelope.flags, end.envelope.seq) == ("H0", END, 1)
    assert isinstance(hello, Say)
    assert isinstance(hello.message, Hello)
    assert (hello.broker, hello.message.attached) == ("H1", True)


def test_a_publisher_says_goodbye_only_when_the_new_agent_would_miss_it(publisher: Publisher) -> None:
    publisher.welcome(welcome(2, "H1", NOT_ASKED), 1.0)
    assert publisher.welcome(welcome(2, "H1", 0.5), 1.0) == [], "asked before the change: not of the new agent"
    assert publisher.welcome(welcome(2, "H1", 1.0), 1.1) == [Say("H0", Bye("t", "P", 7))]
    assert publisher.welcome(welcome(2, "H1", 2.0), 2.1) == []


def test_a_publisher_that_comes_back_does_not_say_goodbye(publisher: Publisher) -> None:
    publisher.welcome(welcome(2, "H1", NOT_ASKED), 1.0)
    publisher.welcome(welcome(3, "H0", NOT_ASKED), 2.0)
    assert publisher.welcome(welcome(3, "H0", 2.0), 2.1) == [Say("H1", Bye("t", "P", 7))]


def test_a_publisher_that_closes_says_goodbye_wherever_it_is_known(publisher: Publisher) -> None:
    publisher.welcome(welcome(2, "H1", NOT_ASKED), 1.0)
    said = [each.broker for each in publisher.close() if isinstance(each, Say)]
    assert said == ["H0", "H1"]


def test_nothing_is_published_before_an_agent_of_the_route_would_miss_the_publisher() -> None:
    """Or a crash with the first message and the hello under way would be noticed by nobody."""
    publisher = Publisher("t", 7, "P", RING, timing=TIMING)
    publisher.tick(0.0)
    publisher.welcome(msgspec.structs.replace(welcome(1, "H1", 0.0), registered=""), 0.0)
    assert not publisher.can_publish(0.0)
    publisher.welcome(welcome(1, "H1", 0.0), 0.1)
    assert publisher.can_publish(0.1)


def test_a_goodbye_waits_for_the_registration_at_the_new_broker_whoever_else_answers(publisher: Publisher) -> None:
    publisher.welcome(welcome(2, "H1", NOT_ASKED), 1.0)
    elsewhere = msgspec.structs.replace(welcome(2, "H1", 1.0), registered="H0")
    assert publisher.welcome(elsewhere, 1.1) == []
    assert publisher.welcome(welcome(2, "H1", 1.0), 1.2) == [Say("H0", Bye("t", "P", 7))]


def test_whoever_was_asked_for_the_way_and_may_have_registered_the_publisher_is_told_goodbye() -> None:
    """Or its agent would miss a publisher that never came."""
    publisher = Publisher("t", 7, "P", RING, timing=TIMING)
    (asked,) = publisher.tick(0.0)
    assert isinstance(asked, Say)
    other = "H1" if asked.broker == "H0" else "H0"
    publisher.welcome(msgspec.structs.replace(welcome(1, other, 0.0), registered=""), 0.1)
    assert publisher.welcome(welcome(1, other, 0.1), 0.2) == [Say(asked.broker, Bye("t", "P", 7))]
