"""A subscriber that moves: it attaches, waits for its barrier, lingers, leaves; and says what it may have missed."""

from itertools import pairwise

import msgspec
import pytest

from nearcast.control.instructions import Attach, Deliver, Detach, Instruction, Ready, Report, Say
from nearcast.control.subscriber import Subscriber
from nearcast.control.timing import Timing
from nearcast.domain.report import Discontinuity, Gap
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ask, Beat, Broken, Bye, Generation, Gone, Hello, Marker, Switch, Welcome
from nearcast.wire.envelope import PLAIN, Envelope, Trail, notice

TIMING = Timing()
RING = Ring(("H0", "H1"), vnodes=1)
BOTH = ("H0", "H1")


def welcome(
    epoch: int,
    *brokers: str,
    asked_s: float,
    floor: int = 1,
    lost: tuple[str, ...] = (),
    sources: tuple[str, ...] = BOTH,
) -> Welcome:
    strategy = Strategy.SINGLE if len(brokers) == 1 else Strategy.ALL_SUBSCRIBERS
    return Welcome("t", Route(epoch, strategy, brokers), sources, floor, lost, TIMING.lease_s, asked_s, 0, ())


def settled() -> Subscriber:
    """On H0 since 0 s, epoch 1; nothing moves."""
    one = Subscriber("t", 0, "S", RING, timing=TIMING)
    one.tick(0.0)
    one.welcome(welcome(1, "H0", asked_s=0.0, sources=("H0",)), "H0", 0.0)
    one.attached("H0", 0.0)
    one.welcome(welcome(1, "H0", asked_s=0.0, sources=("H0",)), "H0", 0.0)
    assert one.ready
    return one


def moving() -> Subscriber:
    """Told at 10 s to go to H1, attached there too, and asking for a marker."""
    one = settled()
    one.welcome(welcome(1, "H0", asked_s=9.0, sources=("H0",)), "H0", 9.0)
    one.frame(notice(Switch("t", Route(2, Strategy.SINGLE, ("H1",)), BOTH, 1), 2), "H0", 10.0)
    one.attached("H1", 10.1)
    assert Say("H1", Ask("t", "S")) in one.welcome(welcome(2, "H1", asked_s=10.1), "H1", 10.2)
    return one


def lingering() -> Subscriber:
    """The barrier is complete since 10.3 s."""
    one = moving()
    one.generation(Generation("t", 2, "H1", 8, 1, BOTH), 10.3)
    for source in BOTH:
        for via in BOTH:
            assert one.frame(marker(source, via), via, 10.3) == []
    return one


Ended = tuple[tuple[int, int, tuple[str, ...]], ...]


def marker(source: str, via: str, generation: int = 1, *, incarnation: int = 8, ended: Ended = ()) -> Envelope:
    """As it comes through `via`: its own agent's on its own broker, carried there by it on others."""
    said = notice(Marker("t", "H1", incarnation, generation, source, ended), 2)
    if source == via:
        return said
    return msgspec.structs.replace(said, trail=Trail(source, 5, generation, 2, (source, via)))


def message(seq: int, *, trail: Trail | None = None) -> Envelope:
    return Envelope(0, 7, seq, 1, 0, 1, 0, b"m", trail)


def forwarded(count: int, *, session: int = 5, source: str = "H1") -> Trail:
    return Trail(source, session, count, 2, (source, "H0"))


def gaps(instructions: list[Instruction]) -> list[Gap]:
    return [each.what for each in instructions if isinstance(each, Report) and isinstance(each.what, Gap)]


def dark(instructions: list[Instruction]) -> list[tuple[str, bool]]:
    """(broker, still open) of every discontinuity reported."""
    what = [each.what for each in instructions if isinstance(each, Report)]
    return [(each.broker, each.to_s is None) for each in what if isinstance(each, Discontinuity)]


# Finding the place


def test_it_asks_attaches_is_confirmed_and_asks_again_before_it_is_ready() -> None:
    one = Subscriber("t", 0, "S", RING, timing=TIMING)
    (asked,) = one.tick(0.0)
    assert isinstance(asked, Say)
    assert one.welcome(welcome(1, "H0", asked_s=0.0), "H0", 0.1) == [Attach("H0")]
    (hello,) = one.attached("H0", 0.2)
    assert isinstance(hello, Say)
    assert isinstance(hello.message, Hello)
    assert hello.message.attached
    assert Ready() not in one.welcome(welcome(1, "H0", asked_s=0.1), "H0", 0.3), "asked before it was attached"
    assert Ready() in one.welcome(welcome(1, "H0", asked_s=0.2), "H0", 0.3)


def test_ready_is_said_once() -> None:
    one = lingering()
    assert Ready() not in one.tick(10.3 + TIMING.linger_s)


# Moving


def test_told_to_move_it_attaches_to_the_new_broker_and_stays_at_the_old_one() -> None:
    one = settled()
    switch = notice(Switch("t", Route(2, Strategy.SINGLE, ("H1",)), BOTH, 1), 2)
    assert one.frame(switch, "H0", 1.0) == [Attach("H1")]
    assert one.frame(message(1), "H0", 1.1) == [Deliver(message(1))]


def test_it_does_not_leave_before_its_barrier_is_complete() -> None:
    one = moving()
    one.generation(Generation("t", 2, "H1", 8, 1, BOTH), 10.3)
    for source, via in (("H0", "H0"), ("H0", "H1"), ("H1", "H0")):
        one.frame(marker(source, via), via, 10.3)
    out = one.tick(15.0)
    assert Detach("H0") not in out
    assert any(isinstance(each, Say) and isinstance(each.message, Ask) for each in out), "but it asks again"


def test_after_the_barrier_it_lingers_and_then_leaves_with_a_goodbye() -> None:
    one = lingering()
    assert Detach("H0") not in one.tick(10.2 + TIMING.linger_s)
    assert one.wake_s() <= 10.3 + TIMING.linger_s
    out = one.tick(10.3 + TIMING.linger_s)
    assert [each for each in out if each in (Say("H0", Bye("t", "S", 0)), Detach("H0"))] == [
        Say("H0", Bye("t", "S", 0)),
        Detach("H0"),
    ]


def test_a_generation_that_is_launched_later_is_waited_for_and_not_asked_for_again() -> None:
    one = moving()
    one.generation(Generation("t", 2, "H1", 8, 1, BOTH, in_s=5.0), 10.3)
    asks = [each for each in one.tick(12.0) if isinstance(each, Say) and isinstance(each.message, Ask)]
    assert asks == []
    assert [each for each in one.tick(15.3 + TIMING.retry_s) if isinstance(each, Say) and isinstance(each.message, Ask)]


def test_markers_are_asked_for_ever_more_seldom_for_all_who_listen_hear_them() -> None:
    one = moving()
    asked_s: list[float] = []
    now = 10.3
    while len(asked_s) < 6:
        now = max(now, one.wake_s())
        asked_s += [now for each in one.tick(now) if isinstance(each, Say) and isinstance(each.message, Ask)]
    waits = [round((later - before) / TIMING.retry_s) for before, later in pairwise(asked_s)]
    assert waits == [2, 4, 8, 8, 8]


def test_an_answer_of_an_agent_that_was_not_told_yet_starts_no_barrier() -> None:
    one = moving()
    one.generation(Generation("t", 1, "H1", 8, 1, ("H0",)), 10.3)
    for via in BOTH:
        one.frame(marker("H0", via), via, 10.3)
    assert Detach("H0") not in one.tick(10.4 + TIMING.linger_s)


def test_what_still_comes_from_the_broker_that_was_left_is_no_proof_of_a_hole() -> None:
    """The messages between may be under way through the one that it is at, and are not thrown away when they come."""
    one = lingering()
    assert one.frame(message(1), "H0", 10.4) == [Deliver(message(1))]
    assert Detach("H0") in one.tick(10.3 + TIMING.linger_s)
    assert one.frame(message(4), "H0", 11.4) == []
    between = [one.frame(message(seq, trail=forwarded(seq, source="H0")), "H1", 11.5) for seq in (2, 3)]
    assert [each.envelope.seq for out in between for each in out if isinstance(each, Deliver)] == [2, 3, 4]
    assert gaps(one.frame(message(7), "H1", 11.6)) == [Gap("t", 7, 5, 6)], "which from the broker that it is at, is one"


def test_a_message_that_comes_over_both_brokers_is_delivered_once() -> None:
    one = moving()
    assert one.frame(message(1), "H0", 10.3) == [Deliver(message(1))]
    assert one.frame(message(1, trail=Trail("H0", 3, 1, 2, ("H0", "H1"))), "H1", 10.3) == []


def test_a_plain_message_that_comes_over_both_brokers_is_delivered_once() -> None:
    one = moving()
    plain = Envelope(PLAIN, 0, 0, 0, 0, 0, 0, b"m")
    copy = Envelope(PLAIN, 0, 0, 0, 0, 0, 0, b"m", Trail("H0", 3, 1, 2, ("H0", "H1")))
    assert one.frame(plain, "H0", 10.3) == [Deliver(plain)]
    assert one.frame(copy, "H1", 10.3) == []


def test_told_to_move_on_while_it_moves_it_attaches_there_too() -> None:
    one = moving()
    switch = notice(Switch("t", Route(3, Strategy.SINGLE, ("H2",)), ("H0", "H1", "H2"), 1), 3)
    assert Attach("H2") in one.frame(switch, "H0", 10.4)
    assert list(one.attachments) == ["H0", "H1", "H2"]


def test_an_older_switch_changes_nothing() -> None:
    one = moving()
    switch = notice(Switch("t", Route(1, Strategy.SINGLE, ("H0",)), ("H0",), 1), 1)
    assert not [each for each in one.frame(switch, "H0", 10.4) if isinstance(each, Attach | Detach)]


def test_closing_it_says_goodbye_where_it_is_known_and_leaves_everywhere() -> None:
    out = moving().close(1.0)
    assert [each.broker for each in out if isinstance(each, Detach)] == ["H0", "H1"]
    assert [each.broker for each in out if isinstance(each, Say)] == ["H0", "H1"]


# What may be missing


def test_a_broken_connection_is_a_discontinuity_from_what_was_heard_last_until_it_is_back() -> None:
    one = settled()
    one.frame(message(1), "H0", 5.0)
    (report,) = one.lost("H0", 6.0)
    assert report == Report(Discontinuity("t", "H0", 5.0 - TIMING.transit_s, None))
    assert Report(Discontinuity("t", "H0", 5.0 - TIMING.transit_s, 7.0)) in one.restored("H0", 7.0)


def test_every_reconnect_says_hello_again() -> None:
    one = settled()
    one.lost("H0", 6.0)
    hellos = [each for each in one.restored("H0", 7.0) if isinstance(each, Say) and isinstance(each.message, Hello)]
    assert [each.broker for each in hellos] == ["H0"]


def test_a_broken_connection_before_ready_is_nobodys_loss() -> None:
    one = Subscriber("t", 0, "S", RING, timing=TIMING)
    one.tick(0.0)
    one.welcome(welcome(1, "H0", asked_s=0.0), "H0", 0.1)
    one.attached("H0", 0.2)
    assert dark(one.lost("H0", 0.3)) == []


def test_an_old_broker_whose_connection_breaks_is_left_at_once() -> None:
    out = moving().lost("H0", 11.0)
    assert Detach("H0") in out
    assert dark(out) == [("H0", True)]


def test_a_hole_in_a_paths_count_is_a_discontinuity_of_its_source() -> None:
    one = settled()
    one.welcome(welcome(2, "H0", asked_s=1.0), "H0", 1.0)
    one.frame(message(1, trail=forwarded(1)), "H0", 2.0)
    assert dark(one.frame(message(2, trail=forwarded(2)), "H0", 2.1)) == []
    assert dark(one.frame(message(3, trail=forwarded(4)), "H0", 2.2)) == [("H1", True), ("H1", False)]


def test_a_path_that_says_it_is_broken_is_a_discontinuity() -> None:
    one = settled()
    one.welcome(welcome(2, "H0", asked_s=1.0), "H0", 1.0)
    one.frame(message(1, trail=forwarded(1)), "H0", 2.0)
    broken = Envelope(1, 0, 0, 2, 0, 0, 0, b"", forwarded(1, session=6), Broken("t", "H1"))
    assert ("H1", True) in dark(one.frame(broken, "H0", 3.0))


def test_a_path_that_breaks_right_behind_a_late_frame_lacks_what_was_sent_before_we_came_to_its_source() -> None:
    one = moving()  # attached to H1 since 10.1 s: later than the frame may have been sent
    one.frame(Envelope(1, 0, 0, 2, 0, 0, 0, b"", forwarded(1), Beat("t")), "H0", 10.4)
    broken = Envelope(1, 0, 0, 2, 0, 0, 0, b"", forwarded(1, session=6), Broken("t", "H1"))
    assert Report(Discontinuity("t", "H1", 10.4 - TIMING.transit_s, None)) in one.frame(broken, "H0", 10.5)


def test_a_path_that_falls_silent_is_a_discontinuity_until_it_is_heard_again() -> None:
    one = settled()
    one.welcome(welcome(2, "H0", asked_s=1.0), "H0", 1.0)
    one.frame(message(1, trail=forwarded(1)), "H0", 2.0)
    silent_s = 2.0 + 3 * TIMING.beat_s
    assert one.wake_s() <= silent_s
    assert ("H1", True) in dark(one.tick(silent_s))
    beat = Envelope(1, 0, 0, 2, 0, 0, 0, b"", forwarded(2), Beat("t"))
    assert ("H1", False) in dark(one.frame(beat, "H0", silent_s + 1.0))


def test_a_broker_whose_agent_was_given_up_is_a_discontinuity_until_it_is_back() -> None:
    one = settled()
    lost = one.welcome(welcome(2, "H0", asked_s=1.0, lost=("H1",)), "H0", 1.0)
    assert dark(lost) == [("H1", True)]
    assert dark(one.welcome(welcome(2, "H0", asked_s=2.0), "H0", 2.0)) == [("H1", False)]


def test_a_lease_that_runs_out_is_a_discontinuity_until_somebody_vouches_again() -> None:
    one = settled()
    assert ("*", True) in dark(one.tick(TIMING.lease_s))
    assert ("*", False) in dark(one.welcome(welcome(1, "H0", asked_s=11.0, sources=("H0",)), "H0", 11.0))


def test_a_publisher_that_vanished_is_a_gap() -> None:
    one = settled()
    one.frame(message(1), "H0", 1.0)
    assert gaps(one.frame(notice(Gone("t", 7), 1), "H0", 2.0)) == [Gap("t", 7, 2, None)]


def test_after_a_tick_no_time_is_left_that_has_come_already() -> None:
    for one in (settled(), moving(), lingering()):
        one.frame(message(1, trail=forwarded(1)), "H0", 10.3)
        now = 10.3
        for _ in range(50):
            now = max(now, one.wake_s())
            one.tick(now)
            assert one.wake_s() > now


@pytest.mark.parametrize(("sent_to", "proves"), [(("H0", "H1"), False), (("H1", "H2"), True), (("H1",), True)])
def test_that_a_leg_ended_at_another_broker_is_proof_unless_it_was_sent_here_too(
    sent_to: tuple[str, ...], proves: bool
) -> None:
    """What H1 has seen says nothing of what the publisher sent to H0 itself."""
    one = settled()
    later = Envelope(0, 7, 2, 2, 1, 2, 0, b"", Trail("H0", 1, 1, 1, BOTH))
    assert one.frame(later, "H0", 5.0) == []
    out = one.frame(marker("H1", "H0", ended=((7, 1, sent_to),)), "H0", 5.1)
    assert (out == [Deliver(later)]) is proves
    if not proves:
        assert one.frame(marker("H0", "H0", ended=((7, 1, sent_to),)), "H0", 5.2) == [Deliver(later)]


# What was signed, and is sent again by somebody


def test_a_marker_that_no_agent_carried_to_a_broker_proves_nothing_there() -> None:
    """Heard at one broker, published at the other by whoever may publish there: before what it should come behind."""
    one = moving()
    one.generation(Generation("t", 2, "H1", 8, 1, BOTH), 10.3)
    for source, via in (("H0", "H0"), ("H1", "H1")):
        for replayed_at in BOTH:
            one.frame(marker(source, via), replayed_at, 10.3)
    assert one.tick(15.0) != []
    assert "H0" in one.attachments, "it has not left"
    for source, via in (("H0", "H1"), ("H1", "H0")):
        one.frame(marker(source, via), via, 16.0)
    assert Detach("H0") in one.tick(16.1 + TIMING.linger_s)


@pytest.mark.parametrize(("generation", "incarnation"), [(1, 8), (9, 7)])
def test_a_barrier_of_before_that_is_replayed_neither_lets_leave_nor_undoes_what_came(
    generation: int, incarnation: int
) -> None:
    one = moving()
    one.generation(Generation("t", 2, "H1", 8, 2, BOTH), 10.3)
    everywhere = [(source, via) for source in BOTH for via in BOTH]
    for source, via in everywhere:
        one.frame(marker(source, via, generation, incarnation=incarnation), via, 10.3)
    assert Detach("H0") not in one.tick(10.4 + TIMING.linger_s)
    for source, via in everywhere[:3]:
        one.frame(marker(source, via, 2), via, 15.0)
        one.frame(marker(source, via, generation, incarnation=incarnation), via, 15.1)
    one.frame(marker(*everywhere[3], 2), everywhere[3][1], 15.2)
    assert Detach("H0") in one.tick(15.3 + TIMING.linger_s)


def test_a_notice_of_another_topic_means_nothing_here() -> None:
    one = settled()
    away = Route(9, Strategy.SINGLE, ("H1",))
    for said in (Switch("other", away, BOTH, 1), Broken("other", "H0"), Gone("other", 7)):
        assert one.frame(notice(said, 9), "H0", 1.0) == []
    assert list(one.attachments) == ["H0"]
