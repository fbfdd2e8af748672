"""The lab's report: one page with every claim, and what was measured of it."""

import base64
import re
from pathlib import Path

import pytest

from nearcast.lab.claim import Expectation
from nearcast.lab.experiment import Experiment, Outcome, Progress, RunSettings
from nearcast.lab.papers import PAPERS
from nearcast.lab.registry import EXPERIMENTS
from nearcast.lab.report import command_of, report
from nearcast.lab.result import Result, command_for, located_results

RULES = (Expectation("EP-3", "few <violations>", "<= 2"), Expectation("EP-3", "many players", ">= 1000"))
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def never(_settings: RunSettings, _progress: Progress) -> Outcome:
    raise AssertionError("a report runs nothing")


def experiment(name: str) -> Experiment:
    return Experiment(name, "ePulsar, section 5", "Players & groups.", RULES, ("flow",), never)


def written(folder: Path, measured: float, command: str = "") -> Path:
    folder.mkdir(parents=True)
    claims = (RULES[0].judge(measured),)
    result = Result("epulsar.mmog-placement", "flow", 7, True, claims, {}, ("violations.png", "t.csv"), command)
    (folder / "result.json").write_bytes(result.to_json())
    (folder / "violations.png").write_bytes(PIXEL)
    return folder


def test_it_has_the_claim_with_its_rule_the_figure_and_the_command_and_needs_no_other_file(tmp_path: Path) -> None:
    written(tmp_path / "new", 3.0)
    one = experiment("epulsar.mmog-placement")
    page = report({one.name: one}, located_results(tmp_path), "today", {})
    assert "few &lt;violations&gt;" in page
    assert "✕ does not hold" in page
    assert "nearcast lab run epulsar.mmog-placement --mode flow --seed 7 --quick" in page
    assert f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}" in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)


def test_every_claim_of_the_papers_is_there_whether_it_was_run_or_not() -> None:
    page = report(EXPERIMENTS, [], "today", {"bad.groups": "no <room>"})
    for paper in PAPERS:
        for claim in paper.claims:
            assert f'<tr id="{claim.id}">' in page
    assert "could not be run: no &lt;room&gt;" in page
    for name in EXPERIMENTS:
        assert f'<article id="{name}">' in page


def test_every_experiment_that_is_registered_for_a_claim_is_the_one_that_the_papers_name() -> None:
    named = {claim.id: claim.experiment for paper in PAPERS for claim in paper.claims}
    for paper in PAPERS:
        for claim in paper.claims:
            if claim.experiment in EXPERIMENTS:
                assert claim.id in {each.id for each in EXPERIMENTS[claim.experiment].expectations}
    assert len(named) == sum(len(paper.claims) for paper in PAPERS)


@pytest.mark.parametrize("command", ["", "nearcast lab run x --faults"])
def test_the_command_is_the_one_that_was_given_where_the_result_knows_it(command: str) -> None:
    result = Result("x", "virtual", 3, False, (), {}, (), command)
    assert command_of(result) == (command or "nearcast lab run x --mode virtual --seed 3")


def test_a_result_says_which_options_it_was_made_with() -> None:
    settings = RunSettings(mode="live", seed=2, quick=True, faults=True, brokers="redis")
    assert command_for("x", settings) == "nearcast lab run x --mode live --seed 2 --brokers redis --quick --faults"
