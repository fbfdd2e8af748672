"""A move of a persistent topic: a segment is there before anybody is told of it, and sealed when its epoch is over."""

import pytest

from nearcast.control.instructions import Command, Instruction
from nearcast.control.move import Move, OpenSegment, Save, SealSegment
from nearcast.control.timing import Timing
from nearcast.domain.errors import MoveRefused
from nearcast.domain.log import LogSpec, Segment, TopicLog
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ack, Prepare, Quiet, Release, Tell

TIMING = Timing()
LOG = TopicLog("id", LogSpec(3)).opened(1, "H0")
BROKERS = ("H0", "H1")


def at_rest() -> Move:
    record = TopicRecord("t", Phase.DONE, (Route(1, Strategy.SINGLE, ("H0",)),), 1, term=3, log=LOG)
    return Move(record, "H0", TIMING)


def ack(move: Move, of: str, epoch: int, brokers: tuple[str, ...] = BROKERS) -> list[Instruction]:
    return [each for broker in brokers for each in move.ack(Ack("t", broker, 1, 3, of, epoch), 0.0)]


def saved(instructions: list[Instruction]) -> TopicRecord:
    (found,) = [each.record for each in instructions if isinstance(each, Save)]
    return found


def released() -> Move:
    """From H0 to H1: told, quiet, and the release is written."""
    move = at_rest()
    move.begin(Strategy.SINGLE, ("H1",))
    move.saved(0.0)
    move.opened(2)
    ack(move, "prepare", 2)
    move.saved(0.0)
    ack(move, "tell", 2)
    for broker in BROKERS:
        move.quiet(Quiet("t", broker, 2))
    assert move.record.phase is Phase.DONE
    return move


def test_nobody_is_told_before_the_segment_is_there() -> None:
    move = at_rest()
    record = saved(move.begin(Strategy.SINGLE, ("H1",)))
    assert record.log is not None
    assert record.log.segments == (Segment(1, "H0"), Segment(2, "H1"))
    out = move.saved(0.0)
    assert OpenSegment(record.log, 2) in out
    assert all(
        each.message.log == record.log
        for each in out
        if isinstance(each, Command) and isinstance(each.message, Prepare)
    )
    assert ack(move, "prepare", 2) == []
    assert saved(move.opened(2)).phase is Phase.TOLD


def test_the_next_leader_opens_what_was_to_be_opened() -> None:
    move = at_rest()
    record = saved(move.begin(Strategy.SINGLE, ("H1",)))
    following = Move(record, "H0", TIMING)
    following.resume(4)
    assert [each.epoch for each in following.saved(0.0) if isinstance(each, OpenSegment)] == [2]


def test_a_segment_that_cannot_be_made_takes_the_move_back() -> None:
    move = at_rest()
    move.begin(Strategy.SINGLE, ("H1",))
    move.saved(0.0)
    record = saved(move.unopened(2, "no suitable servers"))
    assert (record.newest.brokers, record.newest.epoch, move.cancelled) == (("H0",), 3, 2)
    assert move.refusal == "no suitable servers"
    assert record.log is not None
    assert record.log.segments == (Segment(1, "H0"), Segment(2, "H1", 0), Segment(3, "H0"))


def test_a_topic_that_could_not_become_persistent_is_what_it_was() -> None:
    move = Move(TopicRecord("t", Phase.DONE, (Route(1, Strategy.SINGLE, ("H0",)),), 1, term=3), "H0", TIMING)
    move.begin(Strategy.SINGLE, ("H0",), log=TopicLog("id", LogSpec(3)))
    move.saved(0.0)
    assert saved(move.unopened(2, "no")).log is None


def test_a_segment_is_sealed_when_its_epoch_is_over_and_everybody_learns_its_end() -> None:
    move = released()
    out = move.saved(0.0)
    assert [each.epoch for each in out if isinstance(each, SealSegment)] == [1]
    assert move.sealed(1, 40) == [], "not before the release is acknowledged"
    record = saved(ack(move, "release", 2))
    assert record.log is not None
    assert record.log.segments == (Segment(1, "H0", 40), Segment(2, "H1"))
    out = move.saved(0.0)
    told = [each.message for each in out if isinstance(each, Command)]
    assert told == [Release("t", 3, 2, record.log)] * 2
    assert not [each for each in out if isinstance(each, SealSegment)]


def test_the_next_leader_seals_what_was_to_be_sealed() -> None:
    following = Move(released().record, "H0", TIMING)
    following.resume(4)
    assert [each.epoch for each in following.saved(0.0) if isinstance(each, SealSegment)] == [1]


def test_an_end_found_while_the_topic_moves_on_is_written_with_the_next_step() -> None:
    move = released()
    move.saved(0.0)
    ack(move, "release", 2)
    move.begin(Strategy.SINGLE, ("H0",))
    assert move.sealed(1, 40) == []
    move.saved(0.0)
    move.opened(3)
    record = saved(ack(move, "prepare", 3))
    assert record.phase is Phase.TOLD
    assert record.log is not None
    assert record.log.segments[0] == Segment(1, "H0", 40)


def test_a_persistent_topic_stays_on_one_broker() -> None:
    with pytest.raises(MoveRefused, match="its log is written at one broker"):
        at_rest().begin(Strategy.ALL_SUBSCRIBERS, BROKERS)


def test_commands_about_other_topics_carry_no_log() -> None:
    move = Move(TopicRecord("t", Phase.DONE, (Route(1, Strategy.SINGLE, ("H0",)),), 1, term=3), "H0", TIMING)
    move.begin(Strategy.SINGLE, ("H1",))
    out = move.saved(0.0)
    assert not [each for each in out if isinstance(each, OpenSegment)]
    assert not [each for each in out if isinstance(each, Command) and isinstance(each.message, Tell)]
    assert saved(ack(move, "prepare", 2)).log is None
