import time
import timeit
from functools import partial

import pytest

from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.check import CheckResult, Finding, check
from nearcast.sim.history import History

GRACE_S = 1.0


def publish(history: History, time_s: float, seq: int, publisher: int = 7, topic: str = "plaza") -> None:
    history.publish_begun(time_s, publisher, topic, seq)
    history.publish_returned(time_s, publisher, topic, seq)


def subscribed_history(*published_s: float) -> History:
    """Subscription 1 on "plaza" from 0.0, and one message of publisher 7 at each time."""
    history = History()
    history.subscribe_returned(0.0, 1, "plaza")
    for seq, time_s in enumerate(published_s):
        publish(history, time_s, seq)
    return history


def finished(history: History, time_s: float = 100.0) -> CheckResult:
    history.finished(time_s)
    return check(history, grace_s=GRACE_S)


def test_everything_delivered_once_and_in_order_is_clean() -> None:
    history = subscribed_history(1.0, 2.0)
    history.delivered(3.0, 1, 7, 0)
    history.delivered(3.0, 1, 7, 1)
    history.unsequenced_delivered(3.0, 1)
    result = finished(history)
    assert result.clean
    assert result.honest
    assert (result.published, result.delivered, result.unsequenced) == (2, 2, 1)


def test_a_message_that_never_came_is_lost() -> None:
    history = subscribed_history(1.0, 2.0)
    history.delivered(3.0, 1, 7, 0)
    result = finished(history)
    assert result.lost == (Finding(1, 7, 1),)
    assert not result.honest
    assert not result.clean


def test_a_message_published_before_subscribe_returned_is_not_owed_even_in_the_same_instant() -> None:
    history = History()
    publish(history, 1.0, 0)
    history.subscribe_returned(1.0, 1, "plaza")
    publish(history, 1.0, 1)
    history.delivered(1.0, 1, 7, 1)
    assert finished(history).clean


def test_a_message_that_arrives_before_subscribe_returned_counts_as_delivered() -> None:
    history = History()
    publish(history, 1.0, 0)
    history.delivered(1.0, 1, 7, 0)
    history.subscribe_returned(1.5, 1, "plaza")
    history.delivered(2.0, 1, 7, 0)
    assert finished(history).duplicated == (Finding(1, 7, 0),)


def test_a_publish_call_that_never_returned_may_arrive_or_not() -> None:
    for arrives in (False, True):
        history = subscribed_history()
        history.publish_begun(1.0, 7, "plaza", 0)
        if arrives:
            history.delivered(2.0, 1, 7, 0)
        assert finished(history).clean


def test_the_same_number_on_another_topic_is_another_message() -> None:
    history = subscribed_history(1.0)
    history.subscribe_returned(1.0, 2, "market")
    publish(history, 2.0, 0, topic="market")
    history.delivered(3.0, 1, 7, 0)
    assert finished(history).lost == (Finding(2, 7, 0),)


def test_a_repeat_is_a_duplicate_and_not_also_a_reordering() -> None:
    history = subscribed_history(1.0, 2.0)
    for seq in (0, 1, 0):
        history.delivered(3.0, 1, 7, seq)
    result = finished(history)
    assert result.duplicated == (Finding(1, 7, 0),)
    assert result.reordered == ()
    assert not result.honest


def test_a_message_behind_a_later_one_of_its_publisher_is_reordered() -> None:
    history = subscribed_history(1.0, 2.0)
    history.delivered(3.0, 1, 7, 1)
    history.delivered(3.0, 1, 7, 0)
    result = finished(history)
    assert result.reordered == (Finding(1, 7, 0),)
    assert not result.honest


def test_messages_of_two_publishers_may_overtake_each_other() -> None:
    history = subscribed_history(1.0, 2.0)
    publish(history, 2.0, 0, publisher=8)
    for publisher, seq in ((7, 0), (8, 0), (7, 1)):
        history.delivered(3.0, 1, publisher, seq)
    assert finished(history).clean


def test_a_message_that_nobody_published_is_invented() -> None:
    history = subscribed_history()
    history.delivered(3.0, 1, 7, 0)
    result = finished(history)
    assert result.invented == (Finding(1, 7, 0),)
    assert not result.honest


def test_a_missing_message_within_a_reported_gap_is_covered() -> None:
    history = subscribed_history(1.0, 2.0, 3.0)
    history.delivered(1.0, 1, 7, 0)
    history.reported(5.0, 1, Gap("plaza", 7, 1, 2))
    result = finished(history)
    assert result.covered == (Finding(1, 7, 1), Finding(1, 7, 2))
    assert result.gaps == 1
    assert result.honest
    assert not result.clean


@pytest.mark.parametrize(
    "beside",
    [Gap("plaza", 7, 2, 5), Gap("plaza", 8, 1, 1), Gap("market", 7, 1, 1), Gap("plaza", 7, None, 0)],
)
def test_a_gap_elsewhere_covers_nothing(beside: Gap) -> None:
    history = subscribed_history(1.0, 2.0)
    history.delivered(1.0, 1, 7, 0)
    history.reported(5.0, 1, beside)
    history.reported(5.0, 2, Gap("plaza", 7, 1, 1))
    assert finished(history).lost == (Finding(1, 7, 1),)


def test_a_gap_without_a_first_covers_all_that_was_not_seen_before_its_last() -> None:
    history = subscribed_history(1.0, 2.0, 3.0)
    history.reported(5.0, 1, Gap("plaza", 7, None, 1))
    result = finished(history)
    assert result.covered == (Finding(1, 7, 0), Finding(1, 7, 1))
    assert result.lost == (Finding(1, 7, 2),)


def test_a_gap_without_a_last_covers_all_from_its_first_on() -> None:
    history = subscribed_history(1.0, 2.0, 3.0)
    history.reported(5.0, 1, Gap("plaza", 7, 1, None))
    result = finished(history)
    assert result.lost == (Finding(1, 7, 0),)
    assert result.covered == (Finding(1, 7, 1), Finding(1, 7, 2))


def test_a_gap_without_a_last_covers_until_its_publisher_is_heard_again() -> None:
    history = subscribed_history(1.0, 2.0, 3.0, 4.0)
    history.delivered(1.0, 1, 7, 0)
    history.reported(5.0, 1, Gap("plaza", 7, 1, None))
    history.delivered(6.0, 1, 7, 2)
    result = finished(history)
    assert result.covered == (Finding(1, 7, 1),)
    assert result.lost == (Finding(1, 7, 3),)


def test_a_missing_message_published_within_a_discontinuity_is_covered() -> None:
    history = subscribed_history(1.0, 2.0, 3.0)
    history.reported(5.0, 1, Discontinuity("plaza", "b1", 2.0, 2.5))
    result = finished(history)
    assert result.covered == (Finding(1, 7, 1),)
    assert result.lost == (Finding(1, 7, 0), Finding(1, 7, 2))
    assert result.discontinuities == 1


def test_a_discontinuity_of_another_topic_or_subscription_covers_nothing() -> None:
    history = subscribed_history(1.0)
    history.reported(5.0, 1, Discontinuity("market", "b1", 0.0, None))
    history.reported(5.0, 2, Discontinuity("plaza", "b1", 0.0, None))
    assert finished(history).lost == (Finding(1, 7, 0),)


def test_a_publish_call_that_lasted_into_a_discontinuity_is_covered() -> None:
    history = subscribed_history()
    history.publish_begun(1.0, 7, "plaza", 0)
    history.publish_returned(3.0, 7, "plaza", 0)
    history.reported(5.0, 1, Discontinuity("plaza", "b1", 2.0, 2.5))
    assert finished(history).covered == (Finding(1, 7, 0),)


def test_an_open_discontinuity_covers_to_the_end_until_a_later_report_closes_it() -> None:
    for closed in (False, True):
        history = subscribed_history(1.0, 9.0)
        history.reported(2.0, 1, Discontinuity("plaza", "b1", 0.5, None))
        if closed:
            history.reported(3.0, 1, Discontinuity("plaza", "b1", 0.5, 2.0))
        result = finished(history)
        assert len(result.covered) == (1 if closed else 2)
        assert result.discontinuities == 1


def test_a_false_alarm_is_honest_but_not_clean() -> None:
    for report in (Gap("plaza", 7, 0, 0), Discontinuity("plaza", "b1", 0.0, 1.0)):
        history = subscribed_history(1.0)
        history.delivered(2.0, 1, 7, 0)
        history.reported(3.0, 1, report)
        result = finished(history)
        assert result.honest
        assert not result.clean


def test_who_leaves_may_miss_the_last_messages_on_their_way_but_no_older_ones() -> None:
    history = subscribed_history(1.0, 8.9, 9.5)
    history.unsubscribe_begun(10.0, 1)
    history.unsubscribe_closed(10.1, 1)
    publish(history, 11.0, 3)
    assert finished(history).lost == (Finding(1, 7, 0), Finding(1, 7, 1))


def test_who_leaves_may_not_miss_one_from_the_middle() -> None:
    history = subscribed_history(9.5, 9.6)
    history.delivered(9.9, 1, 7, 1)
    history.unsubscribe_begun(10.0, 1)
    assert finished(history).lost == (Finding(1, 7, 0),)


def test_a_message_whose_publish_call_was_held_up_until_the_end_may_still_be_on_its_way() -> None:
    history = subscribed_history()
    history.publish_begun(1.0, 7, "plaza", 0)
    history.publish_returned(9.9, 7, "plaza", 0)
    history.unsubscribe_begun(10.0, 1)
    assert finished(history).clean


def test_a_crash_is_a_departure_at_its_time() -> None:
    history = subscribed_history(1.0, 9.5)
    history.crashed(10.0, 1)
    assert finished(history).lost == (Finding(1, 7, 0),)


def test_who_stays_is_owed_the_last_message_too() -> None:
    history = subscribed_history(99.9)
    assert finished(history).lost == (Finding(1, 7, 0),)


def test_leaving_after_the_end_excuses_nothing() -> None:
    history = subscribed_history(99.9)
    history.finished(100.0)
    history.unsubscribe_begun(100.0, 1)
    assert check(history, grace_s=GRACE_S).lost == (Finding(1, 7, 0),)


def test_a_pause_is_a_time_in_which_something_was_due_and_nothing_came() -> None:
    history = subscribed_history(1.0, 2.0, 50.0)
    history.delivered(1.5, 1, 7, 0)
    history.delivered(4.0, 1, 7, 1)
    history.delivered(50.5, 1, 7, 2)
    assert finished(history).longest_pause_s == 2.0


def test_the_time_before_subscribe_returned_is_no_pause() -> None:
    history = History()
    publish(history, 0.0, 0)
    publish(history, 0.0, 1)
    history.delivered(1.0, 1, 7, 0)
    history.subscribe_returned(5.0, 1, "plaza")
    history.delivered(6.0, 1, 7, 1)
    assert finished(history).longest_pause_s == 1.0


def test_a_late_message_among_others_is_no_pause() -> None:
    history = subscribed_history(1.0)
    for seq, time_s in enumerate((1.0, 2.0, 3.0, 4.0)):
        publish(history, time_s, seq, publisher=8)
        history.delivered(time_s, 1, 8, seq)
    history.delivered(4.5, 1, 7, 0)
    assert finished(history).longest_pause_s == 1.0


def test_a_message_that_never_came_is_waited_for_until_the_next_one() -> None:
    history = subscribed_history(1.0, 4.0)
    history.delivered(5.0, 1, 7, 1)
    assert finished(history).longest_pause_s == 4.0


def test_a_record_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="no end"):
        check(subscribed_history(1.0), grace_s=GRACE_S)
    twice = subscribed_history(1.0)
    publish(twice, 2.0, 0)
    with pytest.raises(ValueError, match="published twice"):
        finished(twice)
    unbegun = History()
    unbegun.publish_returned(1.0, 7, "plaza", 0)
    with pytest.raises(ValueError, match="had not begun"):
        finished(unbegun)
    again = subscribed_history()
    again.subscribe_returned(1.0, 1, "market")
    with pytest.raises(ValueError, match="subscribes twice"):
        finished(again)


def test_counts_name_every_number_of_the_result() -> None:
    counts = finished(subscribed_history(1.0)).counts()
    assert set(counts) == set(CheckResult.__slots__)
    assert counts["lost"] == 1


def history_of(messages: int) -> History:
    """So many of each of 20 publishers, each of which five subscribers hear."""
    history = History()
    for number in range(100):
        history.subscribe_returned(0.0, number, f"t{number % 20}")
    for seq in range(messages):
        for topic in range(20):
            publish(history, seq * 0.1, seq, publisher=topic, topic=f"t{topic}")
            for number in range(topic, 100, 20):
                history.delivered(seq * 0.1 + 0.01, number, topic, seq)
    history.finished(messages * 0.1 + 100.0)
    return history


def test_ten_times_the_deliveries_take_some_ten_times_as_long_to_check() -> None:
    small, large = history_of(80), history_of(800)
    assert check(small, grace_s=GRACE_S).delivered == 8_000
    spent_s = [
        min(timeit.repeat(partial(check, each, grace_s=GRACE_S), timer=time.process_time, number=1, repeat=3))
        for each in (small, large)
    ]
    assert spent_s[1] < 40 * spent_s[0], "a square would be a hundred times"
