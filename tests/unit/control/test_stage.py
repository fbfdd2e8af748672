"""A stage: what goes into the inlet comes out on the topic, in order, whatever becomes of it."""

import math

from nearcast.control.instructions import Instruction, Send
from nearcast.control.spool import Spool
from nearcast.control.stage import HUNG, LATE, RAISED, Bury, Outcome, Process, Stage
from nearcast.domain.message import Message
from nearcast.domain.processor import Language, Processor
from nearcast.wire.control import Broken
from nearcast.wire.envelope import CONTROL, HEARTBEAT, LOST, PLAIN, SEVERAL, Envelope, plain, unpack

PROCESSOR = Processor(Language.PYTHON, "m:f", spool=2, queue=2)


def stage() -> Stage:
    return Stage("t", "b", wait_s=3.0, beat_s=1.0)


def data(seq: int, *, publisher: int = 7, flags: int = 0) -> Envelope:
    return Envelope(flags, publisher, seq, 1, 0, 1, 0, b"%d" % seq)


def sent(instructions: list[Instruction]) -> list[Envelope]:
    return [each.envelope for each in instructions if isinstance(each, Send)]


def jobs(instructions: list[Instruction]) -> list[int]:
    return [each.job.number for each in instructions if isinstance(each, Process)]


def test_one_message_is_processed_at_a_time_and_its_result_has_its_number() -> None:
    each = stage()
    assert jobs(each.take(data(1), PROCESSOR, 0.0)) == [1]
    assert each.take(data(2), PROCESSOR, 0.0) == []
    out = each.done(1, Outcome((b"one",)), 0.1)
    assert [(one.publisher, one.seq, one.flags, one.payload) for one in sent(out)] == [(7, 1, 0, b"one")]
    assert jobs(out) == [2]


def test_a_mark_waits_for_what_is_before_it_and_passes_when_nothing_is() -> None:
    each = stage()
    mark = data(0, flags=HEARTBEAT)
    assert sent(each.take(mark, None, 0.0)) == [mark]
    each.take(data(1), PROCESSOR, 0.0)
    assert each.take(mark, None, 0.0) == []
    assert sent(each.done(1, Outcome((b"x",)), 0.1))[-1] == mark


def test_no_result_and_several_results_are_one_envelope() -> None:
    for results in ((), (b"a", b"")):
        each = stage()
        each.take(data(1), PROCESSOR, 0.0)
        (made,) = sent(each.done(1, Outcome(results), 0.1))
        assert (made.flags, made.seq, tuple(unpack(made.payload))) == (SEVERAL, 1, results)


def test_what_failed_is_buried_and_counted_and_keeps_its_place() -> None:
    each = stage()
    each.take(data(1), PROCESSOR, 0.0)
    out = each.done(1, Outcome(failure=RAISED, error="oh"), 0.1)
    assert [(one.message.seq, one.failure, one.error) for one in out if isinstance(one, Bury)] == [(1, RAISED, "oh")]
    assert [(one.flags, one.payload) for one in sent(out)] == [(SEVERAL, b"")]
    each.take(data(2), PROCESSOR, 0.2)
    each.done(2, Outcome(failure=HUNG, error="endless"), 0.3)
    assert (each.counted.raised, each.counted.hung) == (1, 1)
    assert each.counted.errors == ("raised: oh", "hung: endless")
    assert each.spool.count == 0


def test_what_finds_the_queue_full_is_lost_in_its_turn() -> None:
    each = stage()
    for seq in (1, 2, 3, 4):
        each.take(data(seq), PROCESSOR, 0.0)
    assert (each.waiting, each.counted.dropped) == (2, 1)
    each.done(1, Outcome((b"x",)), 0.1)
    each.done(2, Outcome((b"x",)), 0.2)
    out = each.done(3, Outcome((b"x",)), 0.3)
    assert [(one.seq, one.flags) for one in sent(out)] == [(3, 0), (4, LOST)]
    assert each.idle


def test_what_waited_for_too_long_is_lost_here_or_where_it_waits_for_a_worker() -> None:
    each = stage()
    each.take(data(1), PROCESSOR, 0.0)
    each.take(data(2), PROCESSOR, 0.0)
    out = each.done(1, Outcome(failure=LATE), 3.5)
    assert [(one.seq, one.flags) for one in sent(out)] == [(1, LOST), (2, LOST)]
    assert each.counted.dropped == 2


def test_a_plain_message_that_is_left_out_is_told_of_at_once_and_then_once_a_beat() -> None:
    each = stage()
    for _ in range(3):
        each.take(plain(b"x"), PROCESSOR, 0.0)
    (told,) = sent(each.take(plain(b"x"), PROCESSOR, 0.0))
    assert (told.flags, told.notice) == (CONTROL, Broken("t", "b"))
    assert each.wake_s() == math.inf
    assert each.take(plain(b"x"), PROCESSOR, 0.5) == []
    assert each.wake_s() == 1.0
    assert len(sent(each.tick(1.0))) == 1
    (made,) = sent(each.done(1, Outcome((b"y",)), 1.1))
    assert (made.flags, made.payload) == (PLAIN, b"y")


def test_marks_without_end_do_not_fill_the_memory() -> None:
    each = stage()
    each.take(data(1), PROCESSOR, 0.0)
    for seq in range(10_000):
        each.take(data(seq, flags=HEARTBEAT), None, 0.0)
    out = each.done(1, Outcome((b"x",)), 0.1)
    assert 1000 < len(sent(out)) < 1100


def test_a_result_that_no_server_would_take_is_a_failure() -> None:
    each = stage()
    each.take(data(1), PROCESSOR, 0.0)
    out = each.done(1, Outcome((b"x" * 600_000, b"x" * 600_000)), 0.1)
    assert "1200000 bytes" in each.counted.errors[0]
    assert sent(out)[0].payload == b""


def test_the_interval_is_of_the_last_reports_that_had_any() -> None:
    each = stage()
    assert each.reported().interval_ms is None
    for number, took_s in ((1, 0.010), (2, 0.030)):
        each.take(data(number), PROCESSOR, 0.0)
        each.done(number, Outcome((b"x",), took_s=took_s), 0.1)
    assert each.reported().interval_ms == 20.0
    assert each.reported().interval_ms == 20.0


def test_a_spool_gives_what_is_new_to_each_that_looks() -> None:
    spool = Spool(3)
    messages = [Message("t", b"%d" % number, 1, number, 0) for number in range(5)]
    for each in messages[:4]:
        spool.append(each)
    assert spool.since(0) == messages[1:4]
    assert spool.since(3) == messages[3:4]
    spool.append(messages[4])
    assert spool.since(4) == messages[4:]
    assert spool.since(5) == []
    spool.resize(1)
    assert spool.since(0) == messages[4:]
