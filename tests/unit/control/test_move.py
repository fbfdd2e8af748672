"""The move of one topic: what is written before what is said, and to whom."""

import math
from collections.abc import Sequence

import pytest

from nearcast.control.instructions import Command, Instruction
from nearcast.control.move import Move, Save
from nearcast.control.timing import Timing
from nearcast.domain.errors import MoveRefused
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ack, Prepare, Quiet, Release, Tell

TIMING = Timing()
OLD = Route(1, Strategy.SINGLE, ("H0",))
NEW = Route(2, Strategy.SINGLE, ("H1",))


def resting(*, lost: tuple[str, ...] = (), directory: str = "H0") -> Move:
    """Done at H0, epoch 1; everything acknowledged."""
    return Move(TopicRecord("t", Phase.DONE, (OLD,), 1, term=3, lost=lost), directory, TIMING)


def ack(move: Move, broker: str, of: str, now: float = 0.0) -> list[Instruction]:
    return move.ack(Ack("t", broker, 1, 3, of, move.record.newest.epoch), now)


def preparing(directory: str = "H0") -> Move:
    """On its way to H1, the record written, nobody has answered yet."""
    move = resting(directory=directory)
    move.begin(Strategy.SINGLE, ("H1",))
    move.saved(0.0)
    return move


def draining() -> Move:
    """Everybody is prepared and has been told."""
    move = preparing()
    for broker in ("H0", "H1"):
        ack(move, broker, "prepare")
    move.saved(1.0)
    for broker in ("H0", "H1"):
        ack(move, broker, "tell")
    assert move.draining
    return move


def saved_phase(instructions: Sequence[Instruction]) -> Phase:
    (save,) = instructions
    assert isinstance(save, Save)
    return save.record.phase


def told(instructions: Sequence[Instruction], kind: type) -> list[str]:
    return [each.broker for each in instructions if isinstance(each, Command) and isinstance(each.message, kind)]


# Forward


def test_the_order_is_written_before_anybody_hears_of_it() -> None:
    assert saved_phase(resting().begin(Strategy.SINGLE, ("H1",))) is Phase.PREPARING


def test_once_written_every_agent_of_old_and_new_is_prepared() -> None:
    move = resting()
    move.begin(Strategy.SINGLE, ("H1",))
    out = move.saved(0.0)
    assert told(out, Prepare) == ["H0", "H1"]
    assert out[0] == Command("H0", Prepare("t", 3, 2, (OLD, NEW), 1, ()))


def test_the_agent_that_answers_for_the_ring_is_prepared_too() -> None:
    move = resting(directory="H7")
    move.begin(Strategy.SINGLE, ("H1",))
    assert told(move.saved(0.0), Prepare) == ["H0", "H1", "H7"]


def test_nobody_is_told_before_everybody_is_prepared() -> None:
    move = preparing()
    assert ack(move, "H0", "prepare") == []
    assert saved_phase(ack(move, "H1", "prepare")) is Phase.TOLD
    assert told(move.saved(1.0), Tell) == ["H0", "H1"]


def test_nobody_is_released_before_every_broker_of_a_live_route_is_quiet() -> None:
    move = draining()
    assert move.quiet(Quiet("t", "H0", 2)) == []
    assert saved_phase(move.quiet(Quiet("t", "H1", 2))) is Phase.DONE
    assert told(move.saved(2.0), Release) == ["H0", "H1"]
    for broker in ("H0", "H1"):
        assert not move.finished
        ack(move, broker, "release")
    assert move.finished
    assert move.record.routes == (NEW,)


def test_an_acknowledgement_of_another_epoch_counts_for_nothing() -> None:
    move = preparing()
    ack(move, "H0", "prepare")
    assert move.ack(Ack("t", "H1", 1, 3, "prepare", 1), 0.0) == []
    assert not move.draining


def test_an_acknowledgement_of_another_command_counts_for_nothing() -> None:
    move = preparing()
    ack(move, "H0", "prepare")
    assert ack(move, "H1", "tell") == []


def test_quiet_about_an_older_epoch_counts_for_nothing() -> None:
    move = draining()
    move.quiet(Quiet("t", "H0", 1))
    assert move.quiet(Quiet("t", "H1", 2)) == []


def test_what_is_not_answered_is_said_again() -> None:
    move = preparing()
    ack(move, "H0", "prepare")
    assert move.wake_s() == TIMING.retry_s
    assert move.tick(0.5 * TIMING.retry_s) == []
    assert told(move.tick(TIMING.retry_s), Prepare) == ["H1"]


def test_a_resting_topic_wants_no_timer() -> None:
    assert resting().wake_s() == math.inf


def test_a_lazy_move_says_so_to_the_agents() -> None:
    move = resting()
    move.begin(Strategy.SINGLE, ("H1",), eager=False)
    move.saved(0.0)
    for broker in ("H0", "H1"):
        ack(move, broker, "prepare")
    (first, _) = move.saved(1.0)
    assert first == Command("H0", Tell("t", 3, 2, (), eager=False))


# One at a time, and further moves


def test_a_move_while_one_is_preparing_is_refused_with_its_phase() -> None:
    with pytest.raises(
        MoveRefused, match=r"'t' is still being moved to epoch 2 \(preparing\); wait until it is draining"
    ):
        preparing().begin(Strategy.SINGLE, ("H2",))


def test_a_move_while_the_one_before_is_being_written_is_refused() -> None:
    move = resting()
    move.begin(Strategy.SINGLE, ("H1",))
    with pytest.raises(MoveRefused):
        move.begin(Strategy.SINGLE, ("H2",))


def test_while_the_old_brokers_drain_the_next_move_takes_them_in() -> None:
    move = draining()
    move.begin(Strategy.HOMED, ("H2", "H1"))
    assert [route.epoch for route in move.record.routes] == [1, 2, 3]
    assert told(move.saved(2.0), Prepare) == ["H0", "H1", "H2"]


def test_a_move_to_a_broker_whose_agent_is_lost_is_refused() -> None:
    with pytest.raises(MoveRefused, match="cannot move to 'H1': its agent does not answer"):
        resting(lost=("H1",)).begin(Strategy.SINGLE, ("H1",))


def test_a_new_leader_writes_its_term_and_says_again_what_was_being_said() -> None:
    move = Move(preparing().record, "H0", TIMING)
    (save,) = move.resume(term=4)
    assert isinstance(save, Save)
    assert save.record.term == 4
    out = move.saved(9.0)
    assert told(out, Prepare) == ["H0", "H1"]
    assert isinstance(out[0], Command)
    assert out[0].message.term == 4


# Agents that are lost


def test_an_agent_of_the_old_broker_that_is_lost_is_not_waited_for() -> None:
    move = preparing()
    ack(move, "H1", "prepare")
    assert saved_phase(move.agent_lost("H0")) is Phase.TOLD
    assert move.record.lost == ("H0",)
    assert told(move.saved(1.0), Tell) == ["H1"]


def test_a_cancelled_move_goes_back_with_a_new_epoch() -> None:
    move = preparing()
    assert saved_phase(move.agent_lost("H1")) is Phase.PREPARING
    assert move.record.newest == Route(3, Strategy.SINGLE, ("H0",))
    assert move.record.told == 1, "nobody ever learned of epoch 2"
    assert told(move.saved(1.0), Prepare) == ["H0"]


def test_a_new_broker_lost_while_the_order_is_being_written_cancels_the_move_too() -> None:
    move = resting()
    move.begin(Strategy.SINGLE, ("H1",))
    assert move.agent_lost("H1") == []
    assert saved_phase(move.saved(0.0)) is Phase.PREPARING
    assert move.record.newest == Route(3, Strategy.SINGLE, ("H0",))


def test_a_new_broker_lost_after_everybody_was_told_cancels_nothing() -> None:
    move = draining()
    out = move.agent_lost("H1")
    assert move.record.newest == NEW
    assert told(out, Tell) == ["H0"], "but the others say so"


def test_an_agent_that_has_no_part_in_the_topic_is_nobodys_loss() -> None:
    move = draining()
    assert move.agent_lost("H9") == []
    assert move.agent_back("H9") == []


def test_a_lost_broker_counts_as_quiet_when_every_lease_there_is_over() -> None:
    move = draining()
    move.quiet(Quiet("t", "H1", 2))
    assert [each for each in move.agent_lost("H0") if isinstance(each, Save)] == []
    due_s = move.wake_s()
    assert due_s >= 2 * move.timing.lease_s
    assert saved_phase([each for each in move.tick(due_s) if isinstance(each, Save)]) is Phase.DONE


def test_an_agent_that_is_back_is_prepared_and_told_what_it_missed() -> None:
    move = draining()
    move.agent_lost("H0")
    assert told(move.agent_back("H0"), Prepare) == ["H0"]
    assert move.catching_up("H0")
    assert told(ack(move, "H0", "prepare", 5.0), Tell) == ["H0"]
    assert not move.catching_up("H0")


def test_an_agent_that_is_back_is_lost_to_the_topic_for_a_lease_more() -> None:
    """Its own clients must first have had time to hear of the route."""
    move = draining()
    move.agent_lost("H0")
    move.agent_back("H0")
    ack(move, "H0", "prepare", 5.0)
    assert move.wake_s() <= 5.0 + TIMING.lease_s
    move.tick(4.9 + TIMING.lease_s)
    lost = [move.record.lost]
    out = move.tick(5.0 + TIMING.lease_s)
    lost.append(move.record.lost)
    assert lost == [("H0",), ()]
    assert told(out, Tell) == ["H0", "H1"]


def test_an_agent_that_comes_back_while_a_record_is_written_is_prepared_after_it() -> None:
    move = resting()
    move.begin(Strategy.SINGLE, ("H1",))
    assert move.agent_back("H0") == []
    assert "H0" in told(move.saved(0.0), Prepare)


def test_an_agent_back_on_a_resting_topic_is_told_and_released_again() -> None:
    move = resting()
    move.agent_back("H0")
    out = ack(move, "H0", "prepare")
    assert told(out, Tell) == told(out, Release) == ["H0"]
