"""`nearcast plan compute`: a decision replayed from a file."""

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearcast.cli.main import command_line
from nearcast.domain.errors import SnapshotError
from nearcast.domain.homes import Homes
from nearcast.domain.load import BrokerReport
from nearcast.domain.placing import places_of
from nearcast.domain.ring import Ring
from nearcast.domain.route import Route, Strategy
from nearcast.domain.slo import Slo
from nearcast.domain.snapshot import Snapshot
from nearcast.domain.snapshot_json import write_snapshot
from nearcast.domain.whereabouts import BrokerPlace, Spot, TopicPlace
from nearcast.policies.epulsar import epulsar
from nearcast.policies.settings import Settings
from nearcast.transport.config import new_key


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEARCAST_CONFIG", raising=False)


def far_away() -> Snapshot:
    reports = [BrokerReport(name, 0.0, 0.0, 100.0) for name in ("a", "b")]
    routes = {"t": Route(1, Strategy.SINGLE, ("a",))}
    seen = Snapshot.of(reports, routes, Ring(("a", "b")), at_s=7.0)
    here = Spot((0.2,), 0.0)
    told = [
        BrokerPlace("a", Spot((0.0,), 0.0), (TopicPlace("t", here, here, 0.0, 0.4),)),
        BrokerPlace("b", Spot((0.19,), 0.0)),
    ]
    return dataclasses.replace(seen, places=places_of(seen, told, {"t": Slo(95, 40.0)}))


def test_the_plan_of_a_file_is_that_of_the_policy(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_bytes(write_snapshot(far_away()))
    asked = ["plan", "compute", "--policy", "epulsar", "--snapshot", "s.json"]
    shown = json.loads(CliRunner().invoke(command_line(), [*asked, "--json"]).stdout)
    (step,) = epulsar(far_away(), Settings(), 7.0).steps
    assert (shown["at_s"], shown["objections"]) == (7.0, [])
    (found,) = shown["steps"]
    assert (found["topic"], found["brokers"], found["reason"]) == ("t", ["b"], step.reason)
    assert found["forecast"]["predicted_ms"] == 10.0
    text = CliRunner().invoke(command_line(), asked).stdout
    assert "epulsar: 1 topics would move, 0 subscribers would get another home" in text


def test_subscribers_of_a_file_get_other_homes(tmp_path: Path) -> None:
    crowd = {f"s{number:02}": ("a", (f"k{number:02}",)) for number in range(90)}
    homes = Homes.of(("a", "b"), crowd, {keys[0]: 100.0 for _, keys in crowd.values()})
    (tmp_path / "s.json").write_bytes(write_snapshot(dataclasses.replace(far_away(), homes=homes)))
    asked = ["plan", "compute", "--policy", "bad-ldm", "--snapshot", "s.json"]
    shown = json.loads(CliRunner().invoke(command_line(), [*asked, "--json"]).stdout)
    assert (shown["steps"], shown["objections"]) == ([], [])
    assert {step["subscriber"] for step in shown["homes"]} == {f"s{number:02}" for number in range(len(shown["homes"]))}
    assert {(step["was"], step["broker"]) for step in shown["homes"]} == {("a", "b")}
    assert 30 < len(shown["homes"]) <= 45
    text = CliRunner().invoke(command_line(), asked).stdout
    assert f"bad-ldm: 0 topics would move, {len(shown['homes'])} subscribers would get another home" in text
    assert "a carried the most" in " ".join(text.split())


@pytest.mark.parametrize(
    ("content", "policy", "message"),
    [
        (b"{}", "epulsar", "s.json: is not a nearcast snapshot"),
        (write_snapshot(far_away()), "best", "policy 'best' is not known"),
        (write_snapshot(far_away()), "all-pairs", "It is for the lab"),
        (None, "epulsar", "s.json: cannot be read: No such file"),
    ],
)
def test_what_cannot_be_computed_is_refused_with_the_reason(
    tmp_path: Path, content: bytes | None, policy: str, message: str
) -> None:
    if content is not None:
        (tmp_path / "s.json").write_bytes(content)
    result = CliRunner().invoke(command_line(), ["plan", "compute", "--policy", policy, "--snapshot", "s.json"])
    assert result.exit_code != 0
    assert message in f"{result.output}{result.exception}"


def an_area(tmp_path: Path, *options: str) -> Path:
    file = tmp_path / "area.json"
    asked = ["lab", "area", "--out", str(file), "--topics", "6", "--servers", "4", "--seed", "2", *options]
    assert CliRunner().invoke(command_line(), asked).exit_code == 0
    return file


def test_clients_of_an_area_get_homes_and_the_delay_that_follows_is_told(tmp_path: Path) -> None:
    file = an_area(tmp_path)
    asked = ["plan", "compute", "--policy", "reloc", "--snapshot", str(file)]
    shown = json.loads(CliRunner().invoke(command_line(), [*asked, "--json"]).stdout)
    facts = shown["delay"]
    assert len(shown["homes"]) == facts["clients"] == len(facts["homes"])
    assert shown["objections"] == []
    assert facts["y_ms"] == pytest.approx(facts["y1_ms"] + facts["y2_ms"], abs=2e-6)
    assert [each["server"] for each in facts["servers"]] == ["s0", "s1", "s2", "s3"]
    assert all(each["storage"] <= each["storage_limit"] == 640.0 for each in facts["servers"])
    assert sum(each["clients"] for each in facts["servers"]) == facts["clients"]
    text = CliRunner().invoke(command_line(), asked).stdout
    assert f"Y {facts['y_ms']:.3f} ms" in text

    # The same homes in a file give the same delay.
    content = json.loads(file.read_bytes())
    for client in content["area"]["clients"]:
        client["home"] = facts["homes"][client["name"]]
    file.write_text(json.dumps(content))
    told = CliRunner().invoke(command_line(), ["plan", "evaluate", "--snapshot", str(file), "--json"])
    assert json.loads(told.stdout) == facts
    assert (
        "to and from homes" in CliRunner().invoke(command_line(), ["plan", "evaluate", "--snapshot", str(file)]).stdout
    )


def test_homes_that_are_not_there_cannot_be_evaluated(tmp_path: Path) -> None:
    file = an_area(tmp_path)
    with pytest.raises(SnapshotError, match=r"clients have no home, such as 'c00'; .*plan compute --policy reloc"):
        CliRunner().invoke(command_line(), ["plan", "evaluate", "--snapshot", str(file)], catch_exceptions=False)
    (tmp_path / "s.json").write_bytes(write_snapshot(far_away()))
    with pytest.raises(SnapshotError, match="has no clients with places"):
        CliRunner().invoke(command_line(), ["plan", "evaluate", "--snapshot", "s.json"], catch_exceptions=False)


def test_the_settings_of_a_deployments_file_bound_how_many_homes_change(tmp_path: Path) -> None:
    file = an_area(tmp_path)
    content = json.loads(file.read_bytes())
    for client in content["area"]["clients"]:
        client["home"] = "s0"
    file.write_text(json.dumps(content))
    (tmp_path / "nearcast.toml").write_text(
        'name = "n"\nkey_file = "k"\n[control]\nurl = "nats://127.0.0.1:1"\n'
        '[[broker]]\nname = "b1"\nurl = "nats://127.0.0.1:2"\n[rebalance.allocation]\nmost_changes = 3\n'
    )
    (tmp_path / "k").write_text(new_key())
    asked = ["plan", "compute", "--policy", "nearest-server", "--snapshot", str(file), "--json"]
    assert len(json.loads(CliRunner().invoke(command_line(), asked).stdout)["homes"]) == 3
