"""`nearcast bench`."""

import json

from typer.testing import CliRunner

from nearcast.cli.bench.client import Case, Figures, Round, notes, summary
from nearcast.cli.bench.client_sides import Style
from nearcast.cli.main import command_line


def test_the_ring_is_measured_for_every_size() -> None:
    result = CliRunner().invoke(command_line(), ["bench", "ring", "--json"])
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    assert [row["brokers"] for row in shown["sizes"]] == [2, 4, 8, 16, 32, 100, 1000]
    assert all(row["most_to_mean"] >= 1 for row in shown["sizes"])


def test_a_policy_is_measured_at_both_sizes_and_loads() -> None:
    asked = ["bench", "plan", "--topics", "400", "--brokers", "20", "--rounds", "2", "--json"]
    result = CliRunner().invoke(command_line(), asked)
    assert result.exit_code == 0
    shown = json.loads(result.stdout)
    cases = {(case["load"], case["topics"]): case for case in shown["cases"]}
    assert sorted(cases) == [("high", 40), ("high", 400), ("low", 40), ("low", 400)]
    assert cases["high", 400]["steps"] > 0
    assert cases["high", 400]["busiest_after"] < cases["high", 400]["busiest_before"]
    assert cases["low", 400]["release"] == 1
    assert all(case["plan_s"]["min"] <= case["plan_s"]["median"] <= case["plan_s"]["max"] for case in cases.values())
    assert set(shown["growth"]) == {"high", "low"}


def test_a_policy_that_is_not_there_is_refused_by_name() -> None:
    result = CliRunner().invoke(command_line(), ["bench", "plan", "--policy", "best"])
    assert result.exit_code != 0
    assert "policy 'best' is not known" in f"{result.output}{result.exception}"


def test_the_median_of_the_rounds_decides_whether_a_goal_of_the_client_is_met() -> None:
    raw = Figures(1000.0, 1.0, 0.0, 0)
    rounds = [Round(raw, Figures(rate_hz, ms, 0.0, 0)) for rate_hz, ms in ((740.0, 1.2), (760.0, 1.1), (2000.0, 1.3))]
    found = summary(Case("nats", Style.CALLBACK, 1), rounds)
    assert (found.throughput.median, found.throughput.min, found.throughput.max) == (0.76, 0.74, 2.0)
    assert (found.latency.median, found.latency.min, found.latency.max) == (1.2, 1.1, 1.3)
    assert (found.throughput_met, found.latency_met) == (True, False)
    assert not summary(Case("nats", Style.ITERATOR, 1), rounds).throughput_met


def test_what_was_dropped_is_said() -> None:
    rounds = [Round(Figures(1000.0, 1.0, 0.0, dropped), Figures(1000.0, 1.0, 0.0, 0)) for dropped in (3, 4)]
    told = notes([summary(Case("nats", Style.ITERATOR, 50), rounds)])
    assert told[0] == "nats, iterator, fan-out 50: raw did not deliver 7 of its messages; they do not count"
