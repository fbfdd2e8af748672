"""`nearcast bench channel`: what its figures mean."""

import json

import pytest
from typer.testing import CliRunner

from nearcast.cli.main import command_line


def test_all_at_once_is_beside_one_by_one_on_the_same_records() -> None:
    asked = ["bench", "channel", "--records", "400", "--subscriptions", "40", "--alone", "3", "--master", "local[2]"]
    result = CliRunner().invoke(command_line(), [*asked, "--json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["sizes"]
    assert (row["records"], row["subscriptions"], row["alone_sampled"]) == (400, 40, 3)
    assert row["matches_per_subscription"] == 10.0, "every record is somebody's"
    assert row["per_subscription_ms"] == pytest.approx(1e3 * row["execution_s"] / 40, rel=0.01)
    assert row["times_faster"] == pytest.approx(row["alone_ms"] / row["per_subscription_ms"], rel=0.01)
