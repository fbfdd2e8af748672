"""`nearcast bench forward`, shortly."""

import json

import pytest
from typer.testing import CliRunner

from nearcast.cli.bench.app import app
from nearcast.cli.bench.forward import SIZES_BYTES


@pytest.mark.parametrize("kind", ["nats", "redis"])
def test_what_one_agent_forwards_is_measured_beside_the_same_without_it(kind: str) -> None:
    result = CliRunner().invoke(app, ["forward", "--brokers", kind, "--rounds", "1", "--seconds", "0.3", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert [(each["kind"], each["size_bytes"]) for each in found["cases"]] == [(kind, size) for size in SIZES_BYTES]
    for each in found["cases"]:
        (measured,) = each["rounds"]
        assert measured["forwarded_hz"] > 50
        assert measured["direct_hz"] > measured["forwarded_hz"], "else it was not the agent that was measured"
        assert each["bytes_per_s"]["median"] == pytest.approx(measured["forwarded_hz"] * each["size_bytes"], rel=0.01)
