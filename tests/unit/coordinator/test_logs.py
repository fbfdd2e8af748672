"""Which segments retention lets go of."""

from nearcast.brokers.log import SegmentState
from nearcast.coordinator.logs import droppable
from nearcast.domain.log import LogSpec, Segment, TopicLog

FULL = SegmentState(1, 100, 100, 10_000)
AGED = SegmentState(101, 100, 0, 0)
THREE = (Segment(1, "H0", 100), Segment(2, "H1", 100), Segment(3, "H0"))


def test_without_a_limit_everything_is_kept_but_what_is_empty_at_the_front() -> None:
    assert droppable(TopicLog("id", LogSpec(3), THREE), [FULL, FULL, FULL]) == ()
    empty = (Segment(1, "H0", 0), *THREE[1:])
    assert droppable(TopicLog("id", LogSpec(3), empty), [None, FULL, FULL]) == (1,)


def test_a_segment_whose_records_are_all_too_old_goes() -> None:
    log = TopicLog("id", LogSpec(3, retain_s=60.0), THREE)
    assert droppable(log, [AGED, AGED, AGED]) == (1, 2), "the newest is written to"
    assert droppable(log, [AGED, FULL, AGED]) == (1,)
    assert droppable(log, [FULL, AGED, FULL]) == (), "only from the front: a reader goes in order"


def test_segments_go_when_newer_ones_hold_as_much_as_is_to_be_kept() -> None:
    assert droppable(TopicLog("id", LogSpec(3, retain_messages=150), THREE), [FULL, FULL, FULL]) == (1,)
    assert droppable(TopicLog("id", LogSpec(3, retain_bytes=10_000), THREE), [FULL, FULL, FULL]) == (1, 2)


def test_a_segment_that_is_not_sealed_stays() -> None:
    moving = (Segment(1, "H0"), Segment(2, "H1"))
    assert droppable(TopicLog("id", LogSpec(3, retain_messages=1), moving), [FULL, FULL]) == ()
