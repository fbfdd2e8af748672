"""A reader of a persistent topic: every acknowledged message once, in its publisher's order, across segments."""

from nearcast.control.log_reader import LogReader, Look, Waits
from nearcast.domain.log import LogSpec, Position, Segment, TopicLog
from nearcast.domain.report import Discontinuity, Gap
from nearcast.wire.record import LogMessage, Record

P, Q = 7, 8
NOW_S = 1_000.0


def log(*segments: Segment, floor: int = 0) -> TopicLog:
    return TopicLog("id", LogSpec(3), segments, floor)


def record(first: int, last: int, before: tuple[int, int] = (0, 0), *, doubt: bool = False) -> Record:
    return Record(tuple(LogMessage(seq, 0, str(seq).encode()) for seq in range(first, last + 1)), before, doubt)


def reader(*segments: Segment, start: Position | None = None) -> LogReader:
    machine = LogReader("t", start)
    machine.learn(log(*segments), NOW_S)
    return machine


def read(machine: LogReader, epoch: int, seq: int, publisher: int, what: Record) -> list[int]:
    """What is delivered of a record whose turn it is."""
    machine.arrived(epoch, seq, float(seq))
    assert machine.waits_for(epoch, publisher, what) is None
    messages, _ = machine.take(epoch, seq, publisher, what)
    for message in messages:
        machine.taken(epoch, seq, publisher, what, message)
    machine.passed(epoch, seq)
    return [message.seq for message in messages]


def epochs(machine: LogReader) -> list[int]:
    return [segment.epoch for segment in machine.active()]


def test_sealed_segments_are_read_one_after_the_other_and_open_ones_side_by_side() -> None:
    machine = reader(Segment(1, "H0", 2), Segment(2, "H1", 3), Segment(3, "H0"), Segment(4, "H1"))
    assert epochs(machine) == [1]
    read(machine, 1, 1, P, record(1, 1))
    assert epochs(machine) == [2], "record 2 only marks the end"
    machine.passed(2, 1)
    machine.passed(2, 2)
    assert epochs(machine) == [3, 4]


def test_a_segment_that_is_empty_is_not_read() -> None:
    machine = reader(Segment(1, "H0", 0), Segment(2, "H1"))
    assert epochs(machine) == [2]


def test_a_record_waits_for_its_publishers_record_before_it() -> None:
    machine = reader(Segment(1, "H0"), Segment(2, "H1"))
    later = record(3, 4, before=(1, 2))
    assert machine.waits_for(2, P, later) == Waits(1, 2)
    assert read(machine, 2, 1, Q, record(1, 1)) == [1], "another publisher's need not wait"
    assert read(machine, 1, 1, P, record(1, 1)) == [1]
    assert machine.waits_for(2, P, later) == Waits(1, 2)
    assert read(machine, 1, 2, P, record(2, 2, before=(1, 1))) == [2]
    assert read(machine, 2, 2, P, later) == [3, 4]


def test_a_segment_that_is_not_there_any_more_is_not_waited_for() -> None:
    machine = reader(Segment(2, "H1"))
    assert read(machine, 2, 1, P, record(3, 4, before=(1, 2))) == [3, 4]


def test_a_copy_in_the_next_segment_is_dropped_and_so_is_one_in_the_segment_before() -> None:
    machine = reader(Segment(1, "H0"), Segment(2, "H1"))
    read(machine, 1, 1, P, record(1, 1))
    read(machine, 1, 2, P, record(2, 3, before=(1, 1)))
    assert read(machine, 2, 1, P, record(2, 4, before=(1, 1), doubt=True)) == [4]
    in_doubt = record(1, 2, doubt=True)
    assert machine.waits_for(2, Q, in_doubt) == Look(Q, (1,))
    machine.learnt(Q, 2, [(1, 3, 1)])  # it is there, and not read yet
    assert read(machine, 2, 2, Q, in_doubt) == [1, 2]
    assert read(machine, 1, 3, Q, record(1, 1)) == []


def test_a_reader_that_resumes_looks_for_the_first_copy_of_what_is_in_doubt() -> None:
    machine = reader(Segment(1, "H0", 5), Segment(2, "H1"), start=Position(1, ((1, 4, 0),)))
    machine.passed(1, 4)
    doubtful = record(2, 4, before=(1, 1), doubt=True)
    assert machine.waits_for(2, P, doubtful) == Look(P, (1,))
    machine.learnt(P, 2, [(1, 2, 3)])
    assert read(machine, 2, 1, P, doubtful) == [4]
    fresh = reader(Segment(1, "H0", 5), Segment(2, "H1"), start=Position(2))
    assert fresh.waits_for(2, P, doubtful) == Look(P, (1,))
    fresh.learnt(P, 2, [])
    assert read(fresh, 2, 1, P, doubtful) == [2, 3, 4]


def test_a_position_within_a_record_leads_to_its_next_message() -> None:
    machine = reader(Segment(1, "H0"))
    whole = record(1, 3)
    machine.arrived(1, 1, 0.0)
    messages, _ = machine.take(1, 1, P, whole)
    positions = [machine.taken(1, 1, P, whole, message) for message in messages]
    assert [str(each) for each in positions] == ["1~1-1-1~1-7-1", "1~1-1-2~1-7-2", "1~1-2-0"]
    again = reader(Segment(1, "H0"), start=Position.parse(str(positions[0])))
    assert again.after(1) == 0
    assert read(again, 1, 1, P, whole) == [2, 3]
    assert reader(Segment(1, "H0"), start=positions[2]).after(1) == 1


def test_records_that_were_removed_before_they_were_read_are_told() -> None:
    machine = reader(Segment(1, "H0"), start=Position(1, ((1, 3, 0),)))
    assert machine.arrived(1, 7, 70.0) == [Discontinuity("t", "H0", 0.0, 70.0)]
    machine.passed(1, 7)
    assert machine.arrived(1, 8, 71.0) == []
    assert machine.arrived(1, 12, 75.0) == [Discontinuity("t", "H0", 71.0, 75.0)]


def test_the_oldest_message_there_is_needs_no_excuse() -> None:
    machine = reader(Segment(1, "H0"), Segment(2, "H1"))
    assert machine.arrived(1, 40, 70.0) == []
    assert machine.arrived(2, 2, 71.0) == [Discontinuity("t", "H1", 0.0, 71.0)], "this one was removed under our eyes"


def test_a_publishers_missing_numbers_are_told() -> None:
    machine = reader(Segment(1, "H0"))
    read(machine, 1, 1, P, record(1, 2))
    machine.arrived(1, 2, 0.0)
    messages, gaps = machine.take(1, 2, P, record(5, 5, before=(1, 1)))
    assert [message.seq for message in messages] == [5]
    assert gaps == [Gap("t", P, 3, 4)]


def test_segments_that_retention_removed_are_told_unless_they_were_read() -> None:
    behind = reader(Segment(1, "H0"), Segment(2, "H1"))
    assert behind.learn(log(Segment(2, "H1"), floor=2), NOW_S) == [Discontinuity("t", "*", 0.0, NOW_S)]
    done = reader(Segment(1, "H0", 2), Segment(2, "H1"))
    read(done, 1, 1, P, record(1, 1))
    assert done.learn(log(Segment(2, "H1"), floor=2), NOW_S) == []
    late = LogReader("t", Position(1, ((1, 1, 0),)))
    assert late.learn(log(Segment(2, "H1"), floor=2), NOW_S) == [Discontinuity("t", "*", 0.0, NOW_S)]


def test_the_end_of_a_sealed_segment_that_was_removed_is_told() -> None:
    machine = reader(Segment(1, "H0", 9), Segment(2, "H1"))
    assert machine.cut_short(1, NOW_S) == [Discontinuity("t", "H0", 0.0, NOW_S)]
    assert epochs(machine) == [2]


def test_what_an_agent_that_is_behind_says_of_the_log_takes_nothing_back() -> None:
    newer = log(Segment(2, "H0", 4), Segment(3, "H1"), floor=2)
    older = log(Segment(1, "H0"), Segment(2, "H0"), Segment(3, "H1"))
    assert older.after(newer) == newer
    assert newer.after(older) == newer
