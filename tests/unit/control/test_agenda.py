"""Who wants to be woken when, for many."""

import math

from nearcast.control.agenda import Agenda


def test_the_next_time_is_the_earliest_of_those_that_still_hold() -> None:
    agenda = Agenda()
    agenda.set("a", 5.0)
    agenda.set("b", 3.0)
    assert agenda.next_s() == 3.0
    agenda.set("b", 9.0)
    assert agenda.next_s() == 5.0


def test_who_is_due_comes_in_the_order_of_its_time_and_only_once() -> None:
    agenda = Agenda()
    agenda.set("a", 2.0)
    agenda.set("b", 1.0)
    agenda.set("c", 3.0)
    assert agenda.due(2.0) == ["b", "a"]
    assert agenda.due(2.0) == []
    assert agenda.next_s() == 3.0


def test_a_time_that_was_brought_forward_is_not_due_again_at_the_later_one() -> None:
    agenda = Agenda()
    agenda.set("a", 5.0)
    agenda.set("a", 1.0)
    assert agenda.due(1.0) == ["a"]
    assert agenda.due(9.0) == []


def test_a_time_set_back_and_forth_is_due_once() -> None:
    agenda = Agenda()
    for at_s in (5.0, 1.0, 5.0):
        agenda.set("a", at_s)
    assert agenda.due(4.0) == []
    assert agenda.due(5.0) == ["a"]
    assert agenda.next_s() == math.inf


def test_never_takes_a_time_back() -> None:
    agenda = Agenda()
    agenda.set("a", 5.0)
    agenda.set("a", math.inf)
    assert agenda.due(9.0) == []
