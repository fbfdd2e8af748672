"""Decisions are kept, the newest of each topic, and read by people."""

from dataclasses import replace

from nearcast.cli.topic.explain import explained
from nearcast.domain.decision import MOST_DECISIONS, Decision, Measured, merged
from nearcast.domain.plan import Candidate, Forecast
from nearcast.domain.route import Strategy

SINGLE = Strategy.SINGLE
ONE = Decision("1.1", "t", 100.0, "dynamoth", 3, "too much at a", SINGLE, ("b",), SINGLE, ("a",))


def test_what_is_known_later_of_a_decision_replaces_what_was_known() -> None:
    later = replace(ONE, told_s=0.2)
    other = replace(ONE, id="1.2", at_s=99.0)
    assert merged((ONE, other), (later,)) == (other, later)


def test_only_the_newest_are_kept() -> None:
    many = tuple(replace(ONE, id=f"1.{at}", at_s=float(at)) for at in range(40))
    kept = merged(many[:20], many[20:])
    assert kept == many[-MOST_DECISIONS:]


def test_a_move_that_is_refused_again_and_again_hides_none_that_was_made() -> None:
    refused = tuple(replace(ONE, id=f"2.{at}", at_s=200.0 + at, refused="no") for at in range(40))
    kept = merged((ONE,), refused)
    assert kept == (ONE, *refused[-MOST_DECISIONS + 1 :])


def test_a_move_for_load_is_told_without_a_promise() -> None:
    lines = explained(replace(ONE, told_s=0.123, done_s=21.5))
    assert lines[1:] == [
        "  why        too much at a",
        "  took       123 ms until clients were being told, 21.5 s until nobody used the old route",
        "  afterwards not measured yet, or nobody used it before it moved again",
    ]
    assert lines[0].endswith("t: from single on a to single on b (dynamoth, plan 3)")


def test_a_refused_move_says_why() -> None:
    assert explained(replace(ONE, refused="an agent was lost"))[-1] == "  refused    an agent was lost"


def test_candidates_are_told_with_what_speaks_against_them() -> None:
    forecast = Forecast(
        90.0, 40.0, 55.0, (Candidate("c", 10.0, True), Candidate("b", 55.0), Candidate("a", 90.0)), 1, 3
    )
    after = Measured(95, 50.0, 120, 0.5, 12.0)
    text = "\n".join(explained(replace(ONE, slo="p95:40ms", forecast=forecast, told_s=0.1, after=after)))
    assert "candidates by their predicted worst case, 1 of 3 would keep it:" in text
    assert "c                    10.0 ms  too full" in text
    assert "b                    55.0 ms  chosen, breaks the promise" in text
    assert "a                    90.0 ms  where it was, breaks the promise" in text
    assert "p95 50.0 ms give or take 0.5 on 120 messages, 12 s after" in text
    assert "predicted worst case 55.0 ms: -5.0 ms; the promise is broken" in text
