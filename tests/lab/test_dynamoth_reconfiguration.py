"""dynamoth.reconfiguration in quick mode: its claims hold, and its result says how to replay what does not."""

import json
from pathlib import Path

from typer.testing import CliRunner

from nearcast.cli.main import command_line
from nearcast.lab.experiment import RunSettings
from nearcast.lab.experiments.dynamoth_reconfiguration import DISPUTED, EXPERIMENT, NAME, UNFINISHED


def test_the_claims_hold_on_a_few_seeds() -> None:
    outcome = EXPERIMENT.run(RunSettings(mode="virtual", seed=300, seeds=8, quick=True, jobs=2))
    assert [claim.statement for claim in outcome.claims if not claim.holds] == []
    only_live = {UNFINISHED, DISPUTED}
    claimed = {claim.statement for claim in outcome.claims}
    assert claimed == {each.statement for each in EXPERIMENT.expectations if each not in only_live}
    assert outcome.metrics["replay"] == []


def test_the_claims_hold_on_a_few_seeds_with_faults() -> None:
    outcome = EXPERIMENT.run(RunSettings(mode="virtual", seed=300, seeds=4, quick=True, faults=True, jobs=2))
    assert all(claim.holds for claim in outcome.claims)
    assert isinstance(outcome.metrics["missing_but_reported"], int)


def test_a_seed_is_replayed_from_the_command_line(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    result = CliRunner().invoke(
        command_line(), ["lab", "replay", NAME, "--seed", "1", "--without", "legs", "--json", "--history", str(history)]
    )
    shown = json.loads(result.stdout)
    assert result.exit_code == 1
    assert shown["reordered"] > 0
    assert shown["trace"]
    assert history.stat().st_size > 0


def test_an_unknown_rule_is_a_usage_error() -> None:
    result = CliRunner().invoke(command_line(), ["lab", "replay", NAME, "--seed", "1", "--without", "nothing"])
    assert result.exit_code == 2
