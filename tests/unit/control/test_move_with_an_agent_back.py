"""An agent that is back stays `lost` to subscribers for a lease's time, but it takes part again at once.

What it had acknowledged before it started anew counts for nothing: it has forgotten it.
"""

from nearcast.control.instructions import Command
from nearcast.control.move import Move, Save
from nearcast.control.timing import Timing
from nearcast.domain.record import Phase, TopicRecord
from nearcast.domain.route import Route, Strategy
from nearcast.wire.control import Ack, Prepare, Tell

TIMING = Timing()


def back() -> Move:
    """Done at H0, whose agent was lost and has caught up again just now."""
    move = Move(TopicRecord("t", Phase.DONE, (Route(1, Strategy.SINGLE, ("H0",)),), 1, term=3), "H1", TIMING)
    move.agent_lost("H0")
    move.agent_back("H0")
    move.ack(Ack("t", "H0", 2, 3, "prepare", 1), 0.0)
    assert move.record.lost == ("H0",)
    return move


def test_an_agent_that_is_back_is_prepared_for_the_next_move_and_waited_for() -> None:
    move = back()
    move.begin(Strategy.SINGLE, ("H1",))
    commands = [each for each in move.saved(1.0) if isinstance(each, Command)]
    assert [each.broker for each in commands if isinstance(each.message, Prepare)] == ["H0", "H1"]
    assert move.ack(Ack("t", "H1", 1, 3, "prepare", 2), 1.0) == [], "H0 has not acknowledged yet"


def test_an_agent_that_is_back_hears_who_else_is_lost() -> None:
    move = back()
    told = [each for each in move.agent_lost("H1") if isinstance(each, Command) and isinstance(each.message, Tell)]
    assert [each.broker for each in told] == ["H0"]


def preparing() -> Move:
    """On its way from H0 to H1, the record written."""
    move = Move(TopicRecord("t", Phase.DONE, (Route(1, Strategy.SINGLE, ("H0",)),), 1, term=3), "H0", TIMING)
    move.begin(Strategy.SINGLE, ("H1",))
    move.saved(0.0)
    return move


def test_who_starts_anew_while_others_are_prepared_must_say_again_that_it_is() -> None:
    move = preparing()
    move.ack(Ack("t", "H1", 1, 3, "prepare", 2), 0.0)
    move.agent_back("H1")
    assert move.ack(Ack("t", "H0", 1, 3, "prepare", 2), 0.0) == [], "nobody is told: H1 forwards nothing yet"
    (saved,) = move.ack(Ack("t", "H1", 2, 3, "prepare", 2), 0.0)
    assert isinstance(saved, Save)
    assert saved.record.phase is Phase.TOLD


def test_who_starts_anew_and_is_lost_for_good_is_not_waited_for() -> None:
    move = preparing()
    move.ack(Ack("t", "H0", 1, 3, "prepare", 2), 0.0)
    move.agent_back("H0")
    move.ack(Ack("t", "H1", 1, 3, "prepare", 2), 0.0)
    assert any(isinstance(each, Save) for each in move.agent_lost("H0"))
