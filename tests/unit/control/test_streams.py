"""Each publisher's messages in its order, each once, and a hole only with a report."""

import math
from collections.abc import Callable

import msgspec
import pytest

from nearcast.control.instructions import Deliver, Instruction, Report
from nearcast.control.rules import ALL_ON
from nearcast.control.streams import Streams, View
from nearcast.control.timing import Timing
from nearcast.domain.report import Gap
from nearcast.wire.envelope import END, HEARTBEAT, Envelope, Trail

TIMING = Timing()
P = 7
SETTLED = View(settled=True, patience_s=TIMING.patience_s, epoch=1, floor=1, through=("H0",), alone=False)
ALONE = msgspec.structs.replace(SETTLED, alone=True)
UNSETTLED = msgspec.structs.replace(SETTLED, settled=False, patience_s=math.inf)
FORWARDED = Trail("H1", 1, 1, 1, ("H1", "H0"))


def message(seq: int, *, first: int = 1, before: int = 0, trail: Trail | None = None) -> Envelope:
    return Envelope(0, P, seq, before + 1, before, first, 0, b"", trail)


def mark(seq: int, *, flags: int = HEARTBEAT, first: int = 1, trail: Trail | None = None) -> Envelope:
    return Envelope(flags, P, seq, 1, 0, first, 0, b"", trail)


def delivered(instructions: list[Instruction]) -> list[int]:
    return [each.envelope.seq for each in instructions if isinstance(each, Deliver)]


def gaps(instructions: list[Instruction]) -> list[tuple[int | None, int | None]]:
    reports = [each.what for each in instructions if isinstance(each, Report)]
    return [(what.first, what.last) for what in reports if isinstance(what, Gap)]


def opened() -> Streams:
    streams = Streams("t", TIMING, ALL_ON)
    streams.open(0.0)
    return streams


def knowing(*seqs: int) -> Streams:
    """Streams that have delivered these messages since `subscribe()` returned."""
    streams = opened()
    for seq in seqs:
        assert streams.data(message(seq), SETTLED, 0.0) == [Deliver(message(seq))]
    return streams


# A known publisher


def test_messages_in_order_are_delivered_at_once() -> None:
    knowing(1, 2, 3)


def test_a_repeat_is_dropped() -> None:
    streams = knowing(1, 2)
    assert streams.data(message(2), SETTLED, 1.0) == []
    assert streams.data(message(1, trail=FORWARDED), SETTLED, 1.0) == []


def test_what_is_ahead_is_held_until_what_is_before_it_has_come() -> None:
    streams = knowing(1)
    assert streams.data(message(3), SETTLED, 1.0) == []
    assert streams.data(message(4), SETTLED, 1.0) == []
    assert delivered(streams.data(message(2), SETTLED, 1.1)) == [2, 3, 4]


def test_a_hole_that_nothing_fills_is_reported_after_patience_and_passed_over() -> None:
    streams = knowing(1)
    streams.data(message(4), SETTLED, 1.0)
    assert streams.wake_s(TIMING.patience_s) == 1.0 + TIMING.patience_s
    assert streams.tick(SETTLED, 0.9 + TIMING.patience_s) == []
    out = streams.tick(SETTLED, 1.0 + TIMING.patience_s)
    assert (gaps(out), delivered(out)) == ([(2, 3)], [4])
    assert streams.wake_s(TIMING.patience_s) == math.inf


def test_a_jump_on_the_only_path_there_is_is_a_gap_at_once() -> None:
    streams = knowing(1)
    out = streams.data(message(3), ALONE, 1.0)
    assert (gaps(out), delivered(out)) == ([(2, 2)], [3])


def test_a_jump_on_a_forwarded_path_is_no_proof_even_for_one_broker() -> None:
    streams = knowing(1)
    assert streams.data(message(3, trail=FORWARDED), ALONE, 1.0) == []


def test_a_new_leg_is_held_until_the_one_before_has_ended() -> None:
    streams = knowing(1)
    assert streams.data(message(3, first=3, before=1), ALONE, 1.0) == [], "what is missing went over another leg"
    assert delivered(streams.data(message(2), ALONE, 1.1)) == [2, 3]


def test_a_high_water_mark_shows_a_lost_tail() -> None:
    streams = knowing(1)
    assert streams.mark(mark(3), "H0", SETTLED, 1.0, ends=False) == []
    assert gaps(streams.tick(SETTLED, 1.0 + TIMING.patience_s)) == [(2, 3)]


def test_a_high_water_mark_on_the_only_path_shows_it_at_once() -> None:
    assert gaps(knowing(1).mark(mark(3), "H0", ALONE, 1.0, ends=False)) == [(2, 3)]


def test_a_high_water_mark_of_what_has_come_says_nothing() -> None:
    streams = knowing(1, 2)
    assert streams.mark(mark(2), "H0", ALONE, 1.0, ends=False) == []
    assert streams.wake_s(TIMING.patience_s) == math.inf


def test_a_hole_that_is_filled_in_time_is_never_reported() -> None:
    streams = knowing(1)
    streams.mark(mark(2, trail=FORWARDED), "H0", SETTLED, 1.0, ends=False)
    assert delivered(streams.data(message(2), SETTLED, 1.5)) == [2]
    assert streams.wake_s(TIMING.patience_s) == math.inf
    assert streams.tick(SETTLED, 1.0 + TIMING.patience_s) == []


def test_a_second_hole_waits_from_when_the_first_was_filled() -> None:
    streams = knowing(1)
    streams.data(message(3), SETTLED, 1.0)
    streams.data(message(5), SETTLED, 1.0)
    assert delivered(streams.data(message(2), SETTLED, 2.0)) == [2, 3]
    assert streams.tick(SETTLED, 1.0 + TIMING.patience_s) == []
    assert gaps(streams.tick(SETTLED, 2.0 + TIMING.patience_s)) == [(4, 4)]


def test_a_publisher_that_vanished_leaves_an_open_gap() -> None:
    assert gaps(knowing(1, 2).gone(P)) == [(3, None)]
    assert gaps(Streams("t", TIMING, ALL_ON).gone(P)) == [(None, None)]


def test_a_publisher_that_is_not_heard_for_four_leases_is_forgotten() -> None:
    streams = knowing(1)
    streams.tick(SETTLED, TIMING.forget_s - 0.1)
    assert P in streams.known
    streams.tick(SETTLED, TIMING.forget_s)
    assert P not in streams.known


# Strangers


def test_a_stranger_in_the_middle_of_a_leg_starts_with_the_first_message_seen() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    assert delivered(streams.data(message(5), SETTLED, 0.0)) == [5]


def test_before_the_subscriber_is_settled_a_stranger_is_held() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    assert streams.data(message(6), UNSETTLED, 0.0) == []
    assert streams.data(message(5), UNSETTLED, 0.1) == []
    assert delivered(streams.settle(SETTLED, 0.2, afresh=True)) == [5, 6]


def test_a_strangers_later_leg_waits_while_an_older_epoch_is_alive() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    assert streams.data(message(5, first=5, before=1), SETTLED, 0.0) == []
    over = msgspec.structs.replace(SETTLED, floor=2)
    assert delivered(streams.settle(over, 1.0)) == [5]


def test_a_strangers_later_leg_starts_when_the_end_before_it_came_through_every_broker() -> None:
    both = msgspec.structs.replace(SETTLED, through=("H0", "H1"))
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(5, first=5, before=1), both, 0.0)
    assert streams.mark(mark(4, flags=END), "H0", both, 0.1, ends=True) == []
    assert delivered(streams.ended(P, (1, 4), "H1", both, 0.2)) == [5]


def test_an_end_of_a_later_leg_starts_nothing_that_is_before_it() -> None:
    """A publisher that went on twice: what it sent first goes the slowest way."""
    one = msgspec.structs.replace(SETTLED, through=("H0",))
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(4, first=4, before=1), one, 0.0)
    assert streams.ended(P, (4, 7), "H0", one, 0.1) == []
    assert delivered(streams.ended(P, (1, 3), "H0", one, 0.2)) == [4]


def test_an_end_of_an_earlier_leg_starts_nothing() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(5, first=5, before=1), SETTLED, 0.0)
    assert streams.mark(mark(3, flags=END), "H0", SETTLED, 0.1, ends=True) == []


def test_a_stranger_whose_start_stays_in_doubt_starts_after_patience_with_a_gap() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(5, first=5, before=1), SETTLED, 1.0)
    assert streams.tick(SETTLED, 0.9 + TIMING.patience_s) == []
    out = streams.tick(SETTLED, 1.0 + TIMING.patience_s)
    assert (gaps(out), delivered(out)) == ([(None, 4)], [5])


def test_a_mark_of_a_stranger_is_where_its_numbers_are_counted_from() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    assert streams.mark(mark(4), "H0", SETTLED, 0.0, ends=False) == []
    assert gaps(streams.data(message(6), ALONE, 1.0)) == [(5, 5)]


def test_a_hole_behind_a_strangers_start_is_reported_too() -> None:
    streams = opened()
    streams.data(message(5), UNSETTLED, 0.0)
    streams.data(message(7), UNSETTLED, 0.0)
    assert delivered(streams.settle(SETTLED, 1.0, afresh=True)) == [5]
    assert gaps(streams.tick(SETTLED, 1.0 + TIMING.patience_s)) == [(6, 6)]


def test_with_legs_off_repeats_are_dropped_but_order_is_as_it_comes() -> None:
    streams = Streams("t", TIMING, ALL_ON.without("legs"))
    out = [streams.data(message(seq), SETTLED, 0.0) for seq in (3, 1, 3, 2)]
    assert [delivered(each) for each in out] == [[3], [1], [], [2]]


def test_holes_from_before_subscribe_returned_are_no_gaps() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    for seq in (32, 33, 43, 44):
        assert streams.data(message(seq, first=30), UNSETTLED, 0.0) == []
    opened = streams.open(1.0)
    assert delivered(opened) == [43, 44]
    assert gaps(opened) == []
    assert delivered(streams.data(message(45, first=30), SETTLED, 1.1)) == [45]


def test_a_publisher_known_while_joining_goes_on_behind_its_holes() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    assert delivered(streams.data(message(1), UNSETTLED, 0.0)) == [1]
    assert streams.data(message(5), UNSETTLED, 0.0) == []
    assert delivered(streams.open(1.0)) == [5]
    assert streams.wake_s(TIMING.patience_s) == math.inf


def test_a_new_move_gives_strangers_new_patience() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(9, first=9, before=1), UNSETTLED, 0.0)
    streams.postpone(50.0)
    assert streams.wake_s(TIMING.lease_s) == 50.0 + TIMING.lease_s


# Before subscribe() has returned, and when it is left


def test_before_subscribe_returns_a_hole_is_no_gap_however_long_it_lasts() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(1), UNSETTLED, 0.0)
    streams.data(message(19), UNSETTLED, 0.0)
    assert streams.wake_s(math.inf) == math.inf
    assert streams.tick(UNSETTLED, 100.0) == []
    assert delivered(streams.open(100.0)) == [19]


def test_who_leaves_is_given_what_waited_long_with_a_report_because_its_start_is_in_doubt() -> None:
    for first in (5, 3):  # at the start of its leg, and in the middle of it: before we came to this broker was more
        streams = opened()
        streams.data(message(5, first=first, before=1), UNSETTLED, 0.0)
        assert streams.close(UNSETTLED, TIMING.patience_s - 0.1) == [], "still under way"
        out = streams.close(UNSETTLED, TIMING.patience_s)
        assert (gaps(out), delivered(out)) == ([(None, 4)], [5])


def test_what_only_a_move_kept_waiting_is_given_without_a_report_when_the_leg_before_is_over() -> None:
    moving = msgspec.structs.replace(UNSETTLED, through=("H0", "H1"), patience_s=TIMING.lease_s)
    ends: tuple[Callable[[Streams], list[Instruction]], ...] = (
        lambda streams: streams.close(moving, TIMING.patience_s),
        lambda streams: streams.tick(moving, TIMING.lease_s),
    )
    for end in ends:
        for seen_through, gap in ((("H0",), [(None, 4)]), (("H0", "H1"), [])):
            streams = opened()
            for broker in seen_through:
                streams.mark(mark(4, flags=END), broker, moving, 0.0, ends=True)
            assert streams.data(message(5, first=5, before=1), moving, 0.0) == []
            out = end(streams)
            assert (gaps(out), delivered(out)) == (gap, [5])


def test_who_is_attached_nowhere_that_counts_cannot_know_that_a_leg_is_over() -> None:
    streams, nowhere = opened(), msgspec.structs.replace(UNSETTLED, through=())
    streams.data(message(5, first=5, before=1), nowhere, 0.0)
    assert gaps(streams.close(nowhere, TIMING.patience_s)) == [(None, 4)]


# A publisher that was silent for long


def silent_for_long() -> Streams:
    streams = knowing(1, 2)
    streams.tick(SETTLED, TIMING.forget_s)
    assert streams.known == {}
    return streams


def test_what_it_sends_again_is_not_delivered_again() -> None:
    streams, woken_s = silent_for_long(), 10 * TIMING.forget_s
    assert streams.data(message(2), SETTLED, woken_s) == []
    assert delivered(streams.data(message(3), SETTLED, woken_s)) == [3]


def test_what_it_has_sent_meanwhile_and_did_not_come_is_a_gap() -> None:
    streams, woken_s = silent_for_long(), 10 * TIMING.forget_s
    assert gaps(streams.data(message(5), ALONE, woken_s)) == [(3, 4)]
    assert gaps(silent_for_long().mark(mark(4), "H0", ALONE, woken_s, ends=False)) == [(3, 4)]
    assert gaps(silent_for_long().gone(P)) == [(3, None)]


def test_no_more_of_them_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.control.streams.MOST_PAST", 2)
    streams = opened()
    for publisher in (1, 2, 3):
        streams.data(msgspec.structs.replace(message(1), publisher=publisher), SETTLED, float(publisher))
    streams.tick(SETTLED, 3.0 + TIMING.forget_s)
    assert streams.past == {2: 2, 3: 2}


# Strangers that agents forward for a move of which we have not heard


def test_a_forward_for_a_move_not_heard_of_does_not_start_a_stranger_in_the_middle_of_its_leg() -> None:
    """Its agent has only just begun to forward here: what was sent before may come another, slower way."""
    early = Trail("H1", 1, 1, 2, ("H1", "H0"))
    streams = opened()
    assert streams.data(message(2, trail=early), SETTLED, 0.0) == []
    assert delivered(streams.data(message(1), SETTLED, 0.1)) == [1, 2]


def test_the_direct_copy_starts_a_stranger_that_a_forward_could_not() -> None:
    early = Trail("H1", 1, 1, 2, ("H1", "H0"))
    streams = opened()
    assert streams.data(message(2, trail=early), SETTLED, 0.0) == []
    assert delivered(streams.data(message(2), SETTLED, 0.1)) == [2]


def test_a_forward_for_the_move_that_we_know_starts_a_stranger_in_the_middle_of_its_leg() -> None:
    streams = opened()
    assert delivered(streams.data(message(2, trail=FORWARDED), SETTLED, 0.0)) == [2]


def test_what_a_mark_has_shown_before_subscribe_returned_is_owed_to_nobody() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(8, trail=FORWARDED), UNSETTLED, 0.0)
    streams.mark(mark(20, first=13), "H0", UNSETTLED, 0.1, ends=False)
    streams.open(1.0)
    assert streams.mark(mark(20, first=13), "H0", ALONE, 2.0, ends=False) == []
    assert delivered(streams.data(message(21, first=13), ALONE, 3.0)) == [21]


# Publishers that vanish


def test_a_publisher_of_which_nothing_is_heard_for_a_lease_is_missed_once() -> None:
    streams = knowing(1, 2)
    assert streams.tick(SETTLED, TIMING.lease_s - 0.1) == []
    assert gaps(streams.tick(SETTLED, TIMING.lease_s)) == [(3, None)]
    assert streams.tick(SETTLED, 2 * TIMING.lease_s) == []


def test_a_publisher_that_announces_itself_is_not_missed() -> None:
    streams = knowing(1, 2)
    streams.mark(mark(2), "H0", SETTLED, TIMING.lease_s - 1.0, ends=False)
    assert streams.tick(SETTLED, TIMING.lease_s + 1.0) == []


def test_a_publisher_that_ended_its_leg_or_itself_is_not_missed() -> None:
    streams = knowing(1, 2)
    streams.mark(mark(2, flags=END), "H0", SETTLED, 1.0, ends=True)
    assert streams.tick(SETTLED, 3 * TIMING.lease_s) == []


def test_a_mark_of_a_leg_that_is_over_which_comes_late_changes_nothing() -> None:
    streams = knowing(1, 2)
    streams.mark(mark(2, flags=END), "H0", SETTLED, 1.0, ends=True)
    streams.mark(mark(2, trail=FORWARDED), "H0", SETTLED, 1.1, ends=False)
    assert streams.tick(SETTLED, 2 * TIMING.lease_s) == []


def test_one_that_was_missed_and_comes_back_is_missed_again_when_it_vanishes() -> None:
    streams = knowing(1)
    streams.tick(SETTLED, TIMING.lease_s)
    streams.data(message(2), SETTLED, TIMING.lease_s + 1.0)
    assert gaps(streams.tick(SETTLED, 2 * TIMING.lease_s + 1.0)) == [(3, None)]


def test_a_leg_that_ended_while_its_publisher_was_a_stranger_rests_too() -> None:
    streams = opened()
    streams.data(message(5, first=5, before=1), UNSETTLED, 0.0)
    streams.mark(mark(5, flags=END, first=5), "H0", UNSETTLED, 0.1, ends=True)
    assert delivered(streams.settle(msgspec.structs.replace(SETTLED, floor=2), 1.0)) == [5]
    assert streams.tick(SETTLED, 1.0 + 2 * TIMING.lease_s) == []


def test_a_leg_whose_end_overtook_a_mark_of_it_rests_too() -> None:
    streams = opened()
    streams.mark(mark(5, flags=END, trail=FORWARDED), "H2", SETTLED, 0.1, ends=True)
    streams.mark(mark(5), "H0", SETTLED, 0.2, ends=False)
    assert streams.tick(SETTLED, 2 * TIMING.lease_s) == []
    assert delivered(streams.data(message(6, first=6, before=1), SETTLED, 2 * TIMING.lease_s)) == [6]
    assert gaps(streams.tick(SETTLED, 3 * TIMING.lease_s)) == [(7, None)]


def test_a_leg_rests_that_an_agent_says_is_over() -> None:
    streams = knowing(1, 2)
    streams.ended(P, (1, 2), "H0", SETTLED, 1.0)
    assert streams.tick(SETTLED, 2 * TIMING.lease_s) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_leg_that_is_over_and_whose_last_messages_did_not_come_is_missed(known: bool) -> None:
    streams = knowing(1, 2) if known else opened()
    streams.ended(P, (1, 3), "H0", SETTLED, 1.0)
    if not known:
        assert delivered(streams.data(message(2), SETTLED, 1.0)) == [2]
    assert gaps(streams.tick(SETTLED, 2 * TIMING.lease_s)) == [(3, None)]


def test_what_its_agent_and_its_silence_both_show_is_reported_once() -> None:
    streams = knowing(1, 2)
    assert gaps(streams.gone(P)) == [(3, None)]
    assert streams.tick(SETTLED, TIMING.lease_s) == []


def test_what_was_delivered_before_subscribe_returned_is_not_delivered_again_and_what_follows_it_is() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(1), UNSETTLED, 0.0)
    streams.open(1.0)
    assert streams.data(message(1, trail=FORWARDED), SETTLED, 1.1) == []
    assert delivered(streams.data(message(2), UNSETTLED, 1.2)) == [2]


def test_what_was_sent_elsewhere_before_subscribe_returned_is_no_gap_when_its_publisher_goes_on() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(1), UNSETTLED, 0.0)
    streams.open(1.0)
    assert delivered(streams.data(message(21, first=13), SETTLED, 5.0)) == [21]
    assert streams.tick(SETTLED, 5.0 + TIMING.patience_s) == []


def test_a_direct_mark_shows_that_what_it_names_was_sent_before_subscribe_returned() -> None:
    streams = Streams("t", TIMING, ALL_ON)
    streams.data(message(1), UNSETTLED, 0.0)
    streams.open(1.0)
    streams.mark(mark(20), "H0", SETTLED, 1.5, ends=False)
    assert delivered(streams.data(message(21), SETTLED, 2.0)) == [21]
