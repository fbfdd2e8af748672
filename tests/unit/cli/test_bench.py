"""`nearcast bench`."""

import json

from typer.testing import CliRunner

from nearcast.cli.main import app


def test_the_ring_is_measured_for_every_size() -> None:
    result = CliRunner().invoke(app, ["bench", "ring", "--json"])
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert [row["brokers"] for row in shown["sizes"]] == [2, 4, 8, 16, 32, 100, 1000]
    assert all(row["most_to_mean"] >= 1 for row in shown["sizes"])
