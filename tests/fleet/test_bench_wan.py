"""`nearcast bench wan`, shortly."""

import json

from typer.testing import CliRunner

from nearcast.cli.bench.app import app


def test_the_figures_are_of_messages_that_took_the_delay() -> None:
    result = CliRunner().invoke(app, ["wan", "--rate", "500", "--seconds", "0.6", "--rounds", "2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["rate_hz"], found["delay_ms"], len(found["rounds"])) == (500, 20.0, 2)
    for each in found["rounds"]:
        for way in ("direct", "emulated"):
            assert 0.0 < each[way]["p50"] <= each[way]["p90"] <= each[way]["p99"]
        assert each["emulated"]["p50"] < 100.0
    for key, over in found["added"].items():
        added = [each["added"][key] for each in found["rounds"]]
        assert (over["min"], over["max"]) == (min(added), max(added))


def test_the_table_ends_with_the_spread() -> None:
    result = CliRunner().invoke(app, ["wan", "--rate", "200", "--seconds", "0.2", "--rounds", "1"])
    assert result.exit_code == 0, result.output
    assert "added p99:" in result.output.splitlines()[-1]
