"""`nearcast bench client`, shortly."""

import json

import pytest
from typer.testing import CliRunner

from nearcast.cli.bench.app import app


@pytest.mark.parametrize("kind", ["nats", "redis"])
def test_every_case_is_measured_on_both_sides_and_judged_by_its_median(kind: str) -> None:
    result = CliRunner().invoke(app, ["client", "--brokers", kind, "--rounds", "1", "--seconds", "0.2", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert [(each["case"]["fan_out"], each["case"]["style"]) for each in found["cases"]] == [
        (1, "iterator"),
        (1, "callback"),
        (50, "iterator"),
        (50, "callback"),
    ]
    for each in found["cases"]:
        for figures in (each["rounds"][0]["raw"], each["rounds"][0]["nearcast"]):
            assert figures["dropped"] == 0
            assert figures["delivered_hz"] > 500
            assert 0 <= figures["late_ms"] < figures["latency_ms"] < 1000
        raw, ours = each["rounds"][0]["raw"], each["rounds"][0]["nearcast"]
        assert each["throughput"]["median"] == pytest.approx(ours["delivered_hz"] / raw["delivered_hz"], abs=0.001)
        assert each["throughput_met"] == (each["throughput"]["median"] >= each["throughput_goal"])
        assert each["latency"]["median"] == pytest.approx(ours["latency_ms"] / raw["latency_ms"], abs=0.001)
        assert each["latency_met"] == (each["latency"]["median"] <= each["latency_goal"])
