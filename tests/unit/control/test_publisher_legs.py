"""A publisher's numbers, legs, marks and what it sends again; the rest of its tests are about goodbyes."""

import math

import pytest

from nearcast.control import publisher as module
from nearcast.control.instructions import Instruction, Say, Send
from nearcast.control.publisher import Publisher
from nearcast.control.timing import Timing
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Hello, Unsure, Welcome
from nearcast.wire.envelope import END, HEARTBEAT

TIMING = Timing()
RING = Ring(("H0", "H1"), vnodes=1)


def welcome(epoch: int, *brokers: str, asked_s: float = 0.0, strategy: Strategy = Strategy.SINGLE) -> Welcome:
    return Welcome(
        "t",
        Route(epoch, strategy, brokers),
        brokers,
        1,
        (),
        TIMING.lease_s,
        asked_s,
        0,
        (),
        publisher=7,
        registered=brokers[0],
    )


def at_h0() -> Publisher:
    one = Publisher("t", 7, "P", RING, timing=TIMING)
    one.tick(0.0)
    one.welcome(welcome(1, "H0"), 0.0)
    return one


def publish(one: Publisher, now: float = 0.0) -> list[Instruction]:
    envelope = one.publish(b"m", now, 0)
    return [Send(broker, envelope) for broker in one.reachable]


def sent(instructions: list[Instruction]) -> list[tuple[str, int, int, int]]:
    """(broker, flags, seq, first) of what is sent on the topic."""
    out = [each for each in instructions if isinstance(each, Send)]
    return [(each.broker, each.envelope.flags, each.envelope.seq, each.envelope.first) for each in out]


# Numbers and routes


def test_without_a_route_nothing_can_be_published_and_somebody_is_asked() -> None:
    one = Publisher("t", 7, "P", RING, timing=TIMING)
    assert not one.can_publish(0.0)
    (asked,) = one.tick(0.0)
    assert isinstance(asked, Say)
    assert isinstance(asked.message, Hello)
    assert (asked.broker, asked.message.attached) == (RING.owner("t"), False)


def test_messages_are_numbered_from_one() -> None:
    one = at_h0()
    assert sent(publish(one)) == [("H0", 0, 1, 1)]
    assert sent(publish(one)) == [("H0", 0, 2, 1)]


def test_when_the_lease_is_out_nothing_may_be_published() -> None:
    one = at_h0()
    assert one.can_publish(TIMING.lease_s - 0.1)
    assert not one.can_publish(TIMING.lease_s)


def test_when_nobody_has_a_lease_the_route_is_kept() -> None:
    one = at_h0()
    for _ in range(4):
        one.tick(20.0 + TIMING.retry_s)
        one.unsure(Unsure("t", 0.0, 7, leased=False, ring_version=0, ring=()))
    assert one.can_publish(100.0)


def test_with_all_publishers_a_message_goes_to_every_broker() -> None:
    one = at_h0()
    one.welcome(welcome(2, "H0", "H1", strategy=Strategy.ALL_PUBLISHERS), 1.0)
    assert [broker for broker, *_ in sent(publish(one))] == ["H0", "H1"]


def test_an_older_epoch_changes_nothing() -> None:
    one = at_h0()
    one.welcome(welcome(2, "H1"), 1.0)
    assert one.welcome(welcome(1, "H0"), 2.0) == []
    assert one.targets == ("H1",)


# Legs


def test_a_new_leg_names_where_it_starts_and_the_epoch_before_it() -> None:
    one = at_h0()
    publish(one)
    publish(one)
    assert ("H0", END, 2, 1) in sent(one.welcome(welcome(2, "H1"), 1.0))
    (send,) = publish(one)
    assert isinstance(send, Send)
    envelope = send.envelope
    assert (envelope.seq, envelope.first, envelope.epoch, envelope.before) == (3, 3, 2, 1)


def test_a_leg_on_which_nothing_was_sent_has_no_end_and_is_not_the_one_before() -> None:
    one = at_h0()
    publish(one)
    one.welcome(welcome(2, "H1"), 1.0)
    assert sent(one.welcome(welcome(3, "H0"), 2.0)) == []
    (send,) = publish(one)
    assert isinstance(send, Send)
    assert (send.envelope.first, send.envelope.before) == (2, 1)


def test_a_new_epoch_with_the_same_brokers_is_the_same_leg() -> None:
    one = at_h0()
    publish(one)
    assert sent(one.welcome(welcome(2, "H0"), 1.0)) == []
    (send,) = publish(one)
    assert isinstance(send, Send)
    assert (send.envelope.epoch, send.envelope.first) == (2, 1)


# Marks


def test_an_idle_publisher_announces_its_last_number_ever_more_seldom() -> None:
    one = at_h0()
    publish(one)
    announced_s = []
    now = 0.0
    for _ in range(4):
        now = one._announce_s
        announced_s.append(now)
        assert ("H0", HEARTBEAT, 1, 1) in sent(one.tick(now))
    pauses = [after - before for before, after in zip([0.0, *announced_s], announced_s, strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[0] == TIMING.idle_s
    assert pauses[-1] == pytest.approx(TIMING.renew_s)


def test_who_has_published_nothing_announces_nothing() -> None:
    one = at_h0()
    assert sent(one.tick(5.0)) == []


def test_closing_announces_the_end_of_everything() -> None:
    one = at_h0()
    publish(one)
    assert sent(one.close()) == [("H0", END | HEARTBEAT, 1, 1)]


# Breaks


def test_what_was_not_confirmed_is_sent_again_after_a_break() -> None:
    one = at_h0()
    for _ in range(3):
        publish(one)
    one.confirmed("H0", 1)
    one.lost("H0")
    assert sent(publish(one)) == [], "kept, not sent into the void"
    assert [seq for _, _, seq, _ in sent(one.restored("H0", 1.0))] == [2, 3, 4]


def test_every_reconnect_says_hello_again() -> None:
    one = at_h0()
    one.lost("H0")
    (hello,) = one.restored("H0", 1.0)
    assert isinstance(hello, Say)
    assert isinstance(hello.message, Hello)


def test_when_the_topic_moves_during_a_break_what_was_not_confirmed_opens_the_new_leg() -> None:
    one = at_h0()
    for _ in range(3):
        publish(one)
    one.confirmed("H0", 1)
    one.lost("H0")
    out = one.welcome(welcome(2, "H1"), 1.0)
    assert sent(out) == [("H1", 0, 2, 2), ("H1", 0, 3, 2)], "no END: the old leg cannot be ended"
    assert sent(publish(one)) == [("H1", 0, 4, 2)]


def test_a_break_of_a_leg_already_left_sends_its_tail_again_on_the_present_one() -> None:
    one = at_h0()
    publish(one)
    publish(one)
    one.confirmed("H0", 1)
    one.welcome(welcome(2, "H1"), 1.0)
    assert sent(one.lost("H0")) == [("H1", 0, 2, 2)]


def test_a_confirmation_that_comes_after_the_break_counts_for_nothing() -> None:
    one = at_h0()
    publish(one)
    one.lost("H0")
    one.confirmed("H0", 1)
    assert [seq for _, _, seq, _ in sent(one.restored("H0", 1.0))] == [1]


def test_a_broker_is_waited_for_until_it_has_confirmed_everything() -> None:
    one = at_h0()
    assert one.waits_for() == []
    publish(one)
    assert one.waits_for() == ["H0"]
    one.confirmed("H0", 1)
    assert one.waits_for() == []


def test_with_too_much_unconfirmed_publishing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_UNCONFIRMED", 2)
    one = at_h0()
    publish(one)
    publish(one)
    assert not one.can_publish(0.1)
    one.confirmed("H0", 1)
    assert [one.can_publish(0.1)] == [True]


def test_after_a_tick_no_time_is_left_that_has_come_already() -> None:
    one = at_h0()
    publish(one)
    for _ in range(50):
        now = one.wake_s()
        assert -math.inf < now < math.inf
        one.tick(now)
        assert one.wake_s() > now
