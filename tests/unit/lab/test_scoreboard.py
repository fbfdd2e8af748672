from dataclasses import replace

from nearcast.lab.claim import Claim, Expectation
from nearcast.lab.experiment import Experiment, Outcome
from nearcast.lab.result import Result
from nearcast.lab.scoreboard import ScoreRow, scoreboard

LOST = Expectation("DYN-6", "messages lost", "== 0")
FOUND = Expectation("DYN-6", "losses found with the barrier off", "> 0")
EXPERIMENT = Experiment(
    "dynamoth.reconfiguration",
    "Dynamoth",
    "nothing is lost",
    (LOST, FOUND),
    ("virtual",),
    lambda _settings, _progress: Outcome(claims=()),
)
EXPERIMENTS = {EXPERIMENT.name: EXPERIMENT}


def result(*claims: Claim, seed: int = 0) -> Result:
    return Result(EXPERIMENT.name, "virtual", seed, quick=True, claims=claims, metrics={}, artifacts=())


def test_what_was_never_run_is_neither_holding_nor_failing() -> None:
    rows = scoreboard(EXPERIMENTS, [])
    assert rows == (
        ScoreRow(EXPERIMENT.name, LOST.id, LOST.statement, LOST.expected),
        ScoreRow(EXPERIMENT.name, FOUND.id, FOUND.statement, FOUND.expected),
    )
    assert [row.holds for row in rows] == [None, None]


def test_each_claim_comes_from_the_newest_result_that_measured_it() -> None:
    newest_first = [result(FOUND.judge(4), seed=3), result(LOST.judge(2), seed=2), result(LOST.judge(0), seed=1)]
    rows = scoreboard(EXPERIMENTS, newest_first)
    assert [(row.measured, row.holds, row.seed, row.quick, row.mode) for row in rows] == [
        (2, False, 2, True, "virtual"),
        (4, True, 3, True, "virtual"),
    ]


def test_an_old_result_is_judged_by_the_rule_as_it_reads_now() -> None:
    lenient = Claim(LOST.id, LOST.statement, "< 9", measured=4, holds=True)
    row = scoreboard(EXPERIMENTS, [result(lenient)])[0]
    assert (row.expected, row.measured, row.holds) == ("== 0", 4, False)


def test_the_same_claim_of_another_experiment_is_not_mixed_up() -> None:
    other = replace(result(LOST.judge(5)), experiment="dynamoth.overhead")
    assert scoreboard(EXPERIMENTS, [other])[0].holds is None
