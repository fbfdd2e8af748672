"""What moves cost one agent, as it counts it."""

from nearcast.control.dispatcher import Dispatcher
from nearcast.control.handover import Counted, Handovers, summed
from nearcast.control.timing import Timing
from nearcast.domain.load import Handover
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Hello, Prepare, Release, Renew, Tell
from nearcast.wire.envelope import END, HEADER_BYTES, HEARTBEAT, Envelope

TIMING = Timing()
RING = Ring(("H0", "H1"), version=1)
THEIRS = next(name for name in map(str, range(99)) if RING.owner(name) == "H1")
AT_H0, AT_H1 = Route(1, Strategy.SINGLE, ("H0",)), Route(2, Strategy.SINGLE, ("H1",))
SIZE = HEADER_BYTES + 3


def agent() -> Dispatcher:
    one = Dispatcher("H0", 5, RING, TIMING)
    one.message(Renew(3, 0.0, TIMING.lease_s, 1, RING.brokers), 0.0)
    return one


def message(seq: int, *, epoch: int = 1, flags: int = 0) -> Envelope:
    return Envelope(flags, 7, seq, epoch, 0, 1, 0, b"abc")


def moved(one: Dispatcher, *, eager: bool = True) -> None:
    """From H0 to H1; publisher 7 is known at H0 and is told at 2 s."""
    one.message(Prepare(THEIRS, 3, 2, (AT_H0, AT_H1), 1, ()), 1.0)
    one.subscribed(THEIRS, 1.0)
    one.message(Hello(THEIRS, "P", 7, 1, attached=True, asked_s=1.0, ring_version=1), 1.0)
    one.message(Tell(THEIRS, 3, 2, (), eager), 2.0)


def told(one: Dispatcher) -> Handover:
    together, (of_topic,) = one.handovers()
    assert summed((of_topic,)) == together
    return of_topic


def test_a_topic_that_rests_has_nothing_to_tell() -> None:
    one = agent()
    one.message(Prepare(THEIRS, 3, 1, (AT_H0,), 1, ()), 1.0)
    one.frame(THEIRS, message(1), 1.1)
    assert one.handovers() == (Handover(""), ())


def test_messages_that_are_carried_elsewhere_are_counted_with_their_bytes_and_others_are_not() -> None:
    one = agent()
    moved(one, eager=False)
    for number, flags in ((1, 0), (2, 0), (2, HEARTBEAT), (2, END)):
        one.frame(THEIRS, message(number, flags=flags), 2.5)
    assert (told(one).forwarded, told(one).forwarded_bytes) == (2, 2 * SIZE)


def test_every_notice_counts_on_the_topic_and_to_one_publisher() -> None:
    one = agent()
    moved(one)
    assert told(one).notices == 2, "on the topic, and to the publisher"
    another = agent()
    moved(another, eager=False)
    assert another.handovers() == (Handover(""), ()), "nobody has published since"
    another.frame(THEIRS, message(1), 2.5)
    assert told(another).notices == 2


def test_the_time_until_the_old_server_was_empty_is_from_telling_to_being_sure() -> None:
    one = agent()
    moved(one)
    one.frame(THEIRS, message(1), 7.0)  # a straggler: quiet for 2L counts from here
    now = 7.0
    while told(one).emptied_s is None:
        now = max(now, one.wake_s())
        one.tick(now)
    assert told(one).emptied_s == now - 2.0
    assert now >= 7.0 + TIMING.quiet_s
    one.tick(now + 2 * TIMING.renew_s)  # it is said again, and is no news
    assert told(one).emptied_s == now - 2.0


def test_a_broker_that_the_topic_comes_back_to_was_not_emptied() -> None:
    counted = Counted()
    counted.told(1.0, leaves=True)
    counted.told(2.0, leaves=False)
    counted.emptied(30.0)
    assert counted.emptied_s is None
    counted.told(40.0, leaves=True)
    counted.told(50.0, leaves=True)  # it moves on before it is empty here
    counted.emptied(70.0)
    assert counted.emptied_s == 30.0


def test_what_was_counted_outlives_the_topic_and_goes_on_when_it_comes_back() -> None:
    one = agent()
    moved(one)
    one.frame(THEIRS, message(1), 2.5)
    one.message(Release(THEIRS, 3, 2), 3.0)
    assert THEIRS not in one.forwarders
    assert told(one).forwarded == 1
    back = Route(3, Strategy.SINGLE, ("H0",))
    one.message(Prepare(THEIRS, 3, 3, (AT_H1, back), 2, ()), 4.0)
    one.subscribed(THEIRS, 4.0)
    one.frame(THEIRS, message(2, epoch=3), 4.5)
    assert told(one).forwarded == 2


def test_of_many_topics_that_have_left_the_sum_is_kept_and_the_latest_are_named() -> None:
    handovers = Handovers()
    for number in range(250):
        counted = Counted()
        counted.forwarded, counted.forwarded_bytes, counted.notices = number, 10 * number, 1
        counted.emptied_s = float(number)
        handovers.keep(f"t{number:03}", counted)
    handovers.keep("never moved", Counted())
    together, each = handovers.told(())
    assert together == Handover("", sum(range(250)), 10 * sum(range(250)), 250, 249.0)
    assert [handover.topic for handover in each] == [f"t{number:03}" for number in range(249, 149, -1)]
