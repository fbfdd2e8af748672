"""A subscriber: events in, instructions out."""

import pytest

from nearcast.control.instructions import Attach, Ready, Say
from nearcast.control.subscriber import Subscriber
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ask, Hello, Welcome

TIMING = Timing()
RING = Ring(("H0", "H1"), vnodes=1)


def route(epoch: int, broker: str) -> Route:
    return Route(epoch, Strategy.SINGLE, (broker,))


def welcome(epoch: int, broker: str, asked_s: float, *, floor: int = 1, lost: tuple[str, ...] = ()) -> Welcome:
    return Welcome("t", route(epoch, broker), ("H0", "H1"), floor, lost, TIMING.lease_s, asked_s, 0, ())


@pytest.fixture
def settled() -> Subscriber:
    """On H0 since 0 s, epoch 1."""
    subscriber = Subscriber("t", 0, "S", RING, timing=TIMING)
    subscriber.tick(0.0)
    assert subscriber.welcome(welcome(1, "H0", 0.0), "H0", 0.0) == [Attach("H0")]
    hello, *_ = subscriber.attached("H0", 0.0)
    assert isinstance(hello, Say)
    assert isinstance(hello.message, Hello)
    assert Ready() in subscriber.welcome(welcome(1, "H0", 0.0), "H0", 0.0) or subscriber.ready
    return subscriber


def test_a_subscriber_whose_new_agent_does_not_know_the_route_yet_asks_again_soon(settled: Subscriber) -> None:
    settled.welcome(welcome(2, "H1", -1.0), "H0", 1.0)
    settled.attached("H1", 1.0)
    settled.welcome(welcome(1, "H0", 1.0), "H1", 1.0)
    assert settled.wake_s() <= 1.0 + TIMING.retry_s
    (again,) = settled.tick(1.0 + TIMING.retry_s)
    assert isinstance(again, Say)
    (ask,) = settled.welcome(welcome(2, "H1", 1.0 + TIMING.retry_s), again.broker, 1.0 + TIMING.retry_s)
    assert ask == Say("H1", Ask("t", "S"))
