"""What the loop holds back of what a policy wants."""

from nearcast.control.restraint import Restraint, within_budget
from nearcast.domain.plan import Plan, Step
from nearcast.domain.route import Strategy

SINGLE = Strategy.SINGLE


def test_a_topic_that_has_moved_rests() -> None:
    restraint = Restraint(rest_s=10.0, per_hour=60, hits=1)
    restraint.moved("t", 5.0)
    assert restraint.held(14.9) == {"t"}
    assert restraint.held(15.0) == set()


def test_a_topic_rests_for_longer_while_its_clients_are_on_their_way() -> None:
    restraint = Restraint(rest_s=2.0, per_hour=60, hits=1)
    restraint.moved("t", 5.0)
    restraint.moved("u", 5.0)
    assert restraint.lately(14.9) == ["t", "u"]
    assert restraint.held(7.0, apart=["t"]) == {"t"}
    assert restraint.lately(15.0) == []


def test_a_broker_that_topics_have_left_is_left_alone_until_that_shows() -> None:
    restraint = Restraint(rest_s=0.0, per_hour=60, hits=1)
    restraint.relieved(("a", "b"), 5.0)
    restraint.relieved(("b",), 8.0)
    assert restraint.resting(19.9) == {"a", "b"}
    assert restraint.resting(20.0) == {"b"}
    restraint.forget()
    assert restraint.resting(20.0) == set()


def test_in_no_hour_a_topic_moves_more_often_than_it_may() -> None:
    restraint = Restraint(rest_s=10.0, per_hour=3, hits=1)
    moved_s = []
    for now_s in range(4 * 3600):
        if "t" not in restraint.held(now_s):
            restraint.moved("t", now_s)
            moved_s.append(now_s)
    assert moved_s[:4] == [0, 10, 20, 3600]
    assert max(sum(start <= each < start + 3600 for each in moved_s) for start in moved_s) == 3


def test_a_broken_promise_counts_when_it_was_seen_often_enough_in_a_row() -> None:
    restraint = Restraint(rest_s=10.0, per_hour=60, hits=2)
    restraint.seen("t", True)
    assert restraint.held(0.0) == {"t"}
    restraint.seen("t", False)
    restraint.seen("t", True)
    assert restraint.held(0.0) == {"t"}
    restraint.seen("t", True)
    assert restraint.held(0.0) == set()


def test_a_plan_with_too_many_steps_is_cut_and_says_so_and_gives_no_server_back() -> None:
    steps = tuple(Step(f"t{at}", SINGLE, ("b",), SINGLE, ("a",), "so") for at in range(3))
    plan = Plan("dynamoth", 0.0, steps, ring=("b",), release=("a",))
    assert within_budget(plan, 3) == plan
    cut = within_budget(plan, 2)
    assert (cut.steps, cut.ring, cut.release) == (steps[:2], None, ())
    assert cut.reasons == ("1 more steps wait for the next plan: at most 2 in one",)
