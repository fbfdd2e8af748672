"""A subscriber: events in, instructions out."""

import pytest

from nearcast.control.instructions import Attach, Ready, Report, Say
from nearcast.control.subscriber import Subscriber
from nearcast.control.timing import Timing
from nearcast.domain.report import Discontinuity
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ask, Generation, Hello, Marker, Welcome
from nearcast.wire.envelope import notice

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


def test_a_subscriber_that_slept_through_a_move_may_miss_messages_until_it_is_where_it_should_be(
    settled: Subscriber,
) -> None:
    woken_s = 3 * TIMING.lease_s
    (opened,) = [each.what for each in settled.tick(woken_s) if isinstance(each, Report)]
    assert opened == Discontinuity("t", "*", -TIMING.transit_s, None)
    heard = settled.welcome(welcome(2, "H1", woken_s, floor=2), "H0", woken_s)
    assert heard == [Attach("H1")], "it knows the route, and is not there yet"
    at_s = woken_s + 1.0
    settled.attached("H1", at_s)
    settled.welcome(welcome(2, "H1", at_s, floor=2), "H1", at_s)
    settled.generation(Generation("t", 2, "H1", 1, 1, ("H1",)), at_s)
    marker = notice(Marker("t", "H1", 1, 1, "H1", ()), 2)
    settled.frame(marker, "H1", at_s)
    left_s = at_s + TIMING.linger_s
    (closed,) = [each.what for each in settled.tick(left_s) if isinstance(each, Report)]
    assert closed == Discontinuity("t", "*", -TIMING.transit_s, left_s)


def test_a_subscriber_that_slept_and_missed_no_move_is_told_so_with_the_first_answer(settled: Subscriber) -> None:
    woken_s = 3 * TIMING.lease_s
    settled.tick(woken_s)
    (closed,) = settled.welcome(welcome(1, "H0", woken_s), "H0", woken_s + 0.1)
    assert closed == Report(Discontinuity("t", "*", -TIMING.transit_s, woken_s + 0.1))


def test_a_subscriber_that_slept_beyond_its_lease_notices_even_if_an_answer_comes_before_its_timer(
    settled: Subscriber,
) -> None:
    woken_s = 3 * TIMING.lease_s
    opened, *_ = settled.welcome(welcome(2, "H1", woken_s, floor=2), "H0", woken_s)
    assert opened == Report(Discontinuity("t", "*", -TIMING.transit_s, None))


def test_a_subscriber_between_two_brokers_counts_as_one_of_the_old_epoch(settled: Subscriber) -> None:
    """Or its old broker might be released before the subscriber has reached the new one."""
    settled.welcome(welcome(2, "H1", -1.0), "H0", 1.0)
    (renewal,) = settled.tick(TIMING.renew_s)
    assert isinstance(renewal, Say)
    assert isinstance(renewal.message, Hello)
    assert renewal.message.epoch == 1
