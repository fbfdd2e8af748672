"""A client's route, and for how long it may be used."""

import math

from nearcast.control.lease import Lease
from nearcast.control.rules import ALL_ON
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Unsure, Welcome

TIMING = Timing()
RING = Ring(("H0", "H1", "H2"), version=3, vnodes=1)
OWNER = RING.owner("t")
UNSURE = Unsure("t", 0.0, 0, leased=False, ring_version=0, ring=())


def lease() -> Lease:
    return Lease("t", RING, TIMING, ALL_ON)


def welcome(epoch: int, broker: str, asked_s: float, *, ring_version: int = 0, ring: tuple[str, ...] = ()) -> Welcome:
    route = Route(epoch, Strategy.SINGLE, (broker,))
    return Welcome("t", route, (broker,), epoch, (), TIMING.lease_s, asked_s, ring_version, ring)


def test_without_an_answer_there_is_no_route_to_use() -> None:
    assert not lease().usable(0.0)


def test_a_lease_counts_from_when_the_question_was_sent() -> None:
    one = lease()
    one.ask((), 1.0)
    assert one.welcome(welcome(1, "H0", 1.0))
    assert one.usable(0.9 + TIMING.lease_s)
    assert not one.usable(1.0 + TIMING.lease_s)


def test_an_older_epoch_changes_nothing() -> None:
    one = lease()
    one.welcome(welcome(2, "H1", 0.0))
    assert not one.welcome(welcome(1, "H0", 5.0))
    assert one.route == Route(2, Strategy.SINGLE, ("H1",))
    assert not one.usable(TIMING.lease_s), "and renews nothing"


def test_a_notice_to_all_brings_the_route_but_renews_nobody() -> None:
    one = lease()
    one.welcome(welcome(1, "H0", 0.0))
    assert one.welcome(welcome(2, "H1", -math.inf))
    assert one.epoch == 2
    assert not one.usable(TIMING.lease_s)


def test_the_same_route_again_is_no_change() -> None:
    one = lease()
    assert one.welcome(welcome(1, "H0", 0.0))
    assert not one.welcome(welcome(1, "H0", 1.0))
    assert one.usable(0.9 + TIMING.lease_s)


def test_the_brokers_in_use_are_asked_first_then_the_rings_owner_then_anybody() -> None:
    one = lease()
    other = next(broker for broker in RING.brokers if broker != OWNER)
    asked = [one.ask((other,), float(number)) for number in range(3)]
    assert asked[:2] == [other, OWNER]
    assert sorted(asked) == list(RING.brokers)


def test_an_unanswered_question_is_asked_again_soon_and_elsewhere() -> None:
    one = lease()
    first = one.ask((), 0.0)
    assert one.due_s() == TIMING.retry_s
    assert one.ask((), TIMING.retry_s) != first


def test_an_answered_question_is_asked_again_after_a_third_of_the_lease() -> None:
    one = lease()
    one.ask((), 1.0)
    one.welcome(welcome(1, "H0", 1.0))
    assert one.due_s() == 1.0 + TIMING.lease_s / 3


def test_after_unsure_the_next_agent_is_asked_at_once() -> None:
    one = lease()
    one.ask((), 0.0)
    one.refused(UNSURE)
    assert one.due_s() <= 0.0


def test_when_every_agent_is_unsure_the_route_is_kept() -> None:
    one = lease()
    one.welcome(welcome(1, "H0", 0.0))
    for _ in RING.brokers:
        one.ask((), 20.0)
        one.refused(UNSURE)
    assert one.usable(1_000.0)
    assert one.due_s() > 20.0, "and nobody is asked all the time"


def test_silence_alone_does_not_keep_a_route() -> None:
    one = lease()
    one.welcome(welcome(1, "H0", 0.0))
    for _ in RING.brokers:
        one.ask((), 20.0)
    assert not one.usable(20.0)


def test_one_answer_that_is_sure_ends_the_doubt() -> None:
    one = lease()
    one.welcome(welcome(1, "H0", 0.0))
    for _ in RING.brokers:
        one.ask((), 20.0)
        one.refused(UNSURE)
    one.welcome(welcome(1, "H0", 21.0))
    assert one.usable(21.0)
    assert not one.usable(21.0 + TIMING.lease_s)


def test_a_newer_ring_is_taken_and_an_older_one_is_not() -> None:
    one = lease()
    one.welcome(welcome(1, "H0", 0.0, ring_version=4, ring=("H0", "H9")))
    assert one.ring.brokers == ("H0", "H9")
    one.welcome(welcome(1, "H0", 0.0, ring_version=3, ring=("H0", "H1", "H2")))
    assert one.ring.brokers == ("H0", "H9")


def test_with_leases_off_a_route_is_good_for_ever() -> None:
    one = Lease("t", RING, TIMING, ALL_ON.without("leases"))
    one.welcome(welcome(1, "H0", 0.0))
    assert one.usable(1e9)


def test_an_agent_that_has_a_lease_and_knows_nothing_does_not_keep_a_route() -> None:
    """The control plane is there: the topic may have moved."""
    one = lease()
    one.welcome(welcome(1, "H0", 0.0))
    for leased in (False, True, False):
        one.ask((), 20.0)
        one.refused(Unsure("t", 0.0, 0, leased, 0, ()))
    assert not one.usable(20.0)


def test_a_newer_ring_is_taken_from_an_agent_that_cannot_say() -> None:
    one = lease()
    one.refused(Unsure("t", 0.0, 0, leased=True, ring_version=4, ring=("H0", "H9")))
    assert one.ring.brokers == ("H0", "H9")
