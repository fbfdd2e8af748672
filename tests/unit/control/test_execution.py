"""A plan is carried out in its order, so many steps at a time, and stops where it is told to."""

import pytest

from nearcast.control.execution import Execution, StepState
from nearcast.domain.plan import Plan, Step
from nearcast.domain.route import Strategy


def plan(count: int) -> Plan:
    single = Strategy.SINGLE
    steps = (Step(f"t{at}", single, ("H1",), single, ("H0",), "too much at H0") for at in range(count))
    return Plan("dynamoth", 0.0, tuple(steps))


def topics(steps: list[Step]) -> list[str]:
    return [step.topic for step in steps]


def test_no_more_steps_begin_than_may_move_at_once() -> None:
    run = Execution(plan(3), at_once=2, now=0.0)
    assert topics(run.due(0.0)) == ["t0", "t1"]
    assert run.due(0.0) == []
    run.ended("t1")
    assert topics(run.due(0.0)) == ["t2"]
    assert run.counts() == {"waiting": 0, "moving": 2, "settling": 0, "done": 1, "refused": 0, "dropped": 0}
    assert not run.over
    run.ended("t0")
    run.ended("t2")
    assert run.over


def test_a_step_whose_clients_follow_by_themselves_lets_the_next_one_begin() -> None:
    run = Execution(plan(2), at_once=1, now=10.0)
    run.due(10.0)
    run.moved("t0", 10.2)
    assert topics(run.due(10.2)) == ["t1"]
    run.moved("t1", 10.5)
    run.ended("t1")
    assert (run.counts()["settling"], run.over) == (1, False)
    run.ended("t0")
    assert (run.counts()["settling"], run.over) == (0, True)
    assert [each.waited_s for each in run.progress()] == pytest.approx([0.0, 0.2])
    assert [each.took_s for each in run.progress()] == pytest.approx([0.2, 0.3])


def test_a_step_that_is_refused_says_why_and_the_others_go_on() -> None:
    run = Execution(plan(2), at_once=1, now=0.0)
    run.due(0.0)
    run.ended("t0", "the broker is gone")
    assert topics(run.due(0.0)) == ["t1"]
    run.ended("t1")
    assert [(each.state, each.why) for each in run.progress()] == [
        (StepState.REFUSED, "the broker is gone"),
        (StepState.DONE, ""),
    ]


def test_stopped_it_begins_nothing_more_and_is_over_when_what_has_begun_has_ended() -> None:
    run = Execution(plan(3), at_once=1, now=0.0)
    run.due(0.0)
    run.stop()
    assert run.due(0.0) == []
    assert (run.states, run.over) == ([StepState.MOVING, StepState.DROPPED, StepState.DROPPED], False)
    run.ended("t0")
    assert (run.states[0], run.over) == (StepState.DONE, True)


def test_a_plan_without_steps_is_over_at_once() -> None:
    assert Execution(plan(0), at_once=1, now=0.0).over


def test_a_topic_that_is_not_in_the_plan_is_an_error() -> None:
    with pytest.raises(KeyError):
        Execution(plan(1), at_once=1, now=0.0).ended("other")
