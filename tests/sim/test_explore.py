"""Every interleaving of small configurations: nothing is lost, and each rule is there for a reason."""

from dataclasses import replace

import pytest

from nearcast.control.rules import NAMES
from nearcast.domain.errors import ConfigError
from nearcast.domain.report import Discontinuity, Gap
from nearcast.sim.counterexamples import COUNTEREXAMPLES, find, page
from nearcast.sim.explore import Exploration, explore, search, wander
from nearcast.sim.explored_telling import condensed
from nearcast.sim.freeze import clone, freeze
from nearcast.sim.scenarios import FULL_ONLY, QUICK, SCENARIOS


def assert_holds(name: str) -> None:
    """The figures are printed by `nearcast lab explore`."""
    run = explore(SCENARIOS[name], name=name)
    assert run.violation is None, f"{name}: {run.violation}"
    assert run.fine, f"{name}: more than {run.states} states"


@pytest.mark.parametrize("name", QUICK)
def test_no_order_of_events_breaks_the_promise(name: str) -> None:
    assert_holds(name)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", FULL_ONLY)
def test_no_order_of_events_breaks_the_promise_at_full_size(name: str) -> None:
    assert_holds(name)


@pytest.mark.parametrize("rule", NAMES)
def test_without_a_rule_the_explorer_finds_what_it_is_for(rule: str) -> None:
    run = find(rule)
    assert run.violation is not None, f"nothing goes wrong without {rule} in {run.scenario}"
    assert run.violation.trace, "a counterexample is a sequence of events"


# Small enough to be explored without any reduction; with a rule off there is more than one way to end.
REDUCIBLE = (
    ("single to homed 20", None),
    ("single to all_subscribers 20", None),
    pytest.param("single to all_subscribers 20", "confirm", marks=pytest.mark.slow),
    ("homed to single 11", "barrier"),
    ("single to homed 21", "barrier"),
    ("single to all_subscribers 10", "barrier"),
    ("all_subscribers to single 20", "barrier"),
    ("ring change", "pin_ring"),
)


@pytest.mark.parametrize(("name", "without"), REDUCIBLE)
def test_leaving_out_orders_leaves_out_no_outcome(name: str, without: str | None) -> None:
    scenario = SCENARIOS[name]
    if without is not None:
        scenario = replace(scenario, rules=scenario.rules.without(without))
    reduced = search(scenario, on_and_on=True)
    whole = search(replace(scenario, reduced=False), on_and_on=True)
    assert reduced.outcomes == whole.outcomes
    assert reduced.states <= whole.states


def test_random_runs_find_what_goes_wrong_without_a_rule_and_nothing_with_all() -> None:
    scenario = replace(SCENARIOS["one move"], walks=2000)
    fine = wander(scenario)
    assert (fine.violation, fine.walks, fine.fine) == (None, 2000, True)
    wrong = wander(replace(scenario, rules=scenario.rules.without("prepare_first")))
    assert wrong.violation is not None
    assert wrong.violation.what == "lost silently: 1:1"
    assert wrong.violation.trace


def test_the_same_search_twice_visits_the_same_states() -> None:
    first, again = (search(SCENARIOS["single to homed 21"]) for _ in range(2))
    assert replace(first, seconds=0.0) == replace(again, seconds=0.0)


def test_breadth_first_finds_a_counterexample_that_is_no_longer_than_any_other() -> None:
    scenario = SCENARIOS["one move, 2 messages"]
    without = replace(scenario, rules=scenario.rules.without("legs"))
    shortest, some = search(without, shortest=True).violation, search(without).violation
    assert shortest is not None
    assert some is not None
    assert len(shortest.trace) <= len(some.trace)


def test_a_search_that_runs_out_of_states_is_not_complete() -> None:
    run = search(SCENARIOS["one move"], most_states=100)
    assert run.violation is None
    assert not run.complete


def test_an_unknown_rule_is_refused_with_the_rules_there_are() -> None:
    with pytest.raises(ConfigError, match="prepare_first"):
        find("politeness")


def test_every_rule_has_its_place_on_the_page_of_counterexamples() -> None:
    assert tuple(COUNTEREXAMPLES) == NAMES
    found = {rule: Exploration(COUNTEREXAMPLES[rule].scenario, 1, 1, 1, 0.0, True, None) for rule in NAMES}
    text = page(found)
    assert all(f"## {rule}\n" in text for rule in NAMES)


def test_a_trace_is_told_without_what_happens_all_the_time() -> None:
    trace = (
        "S -> AH0: Hello, knowing epoch 1",
        "AH0 -> S: Welcome to epoch 1 (single on H0), floor 1",
        "time passes to 3 s",
        "AH0 -> S: Welcome to epoch 1 (single on H0), floor 1",
        "time passes to 6 s",
        "H0 -> S: 1:1 (epoch 1, leg from 1)  [S delivers 1:1]",
    )
    assert condensed(trace) == [trace[1], trace[4], trace[5]]


class Undeclared:
    __slots__ = ("count",)


def test_a_machine_that_was_not_declared_is_refused() -> None:
    with pytest.raises(TypeError, match="Undeclared"):
        freeze([Undeclared()])


def test_equal_states_freeze_to_equal_values_and_a_clone_shares_no_state() -> None:
    state: dict[str, list[object]] = {"a": [1, 2], "b": [Gap("t", 1, 2, 3), Discontinuity("t", "H0", 1.0, None)]}
    copy = clone(state)
    assert freeze(copy) == freeze(state)
    copy["a"].append(3)
    assert freeze(copy) != freeze(state)
