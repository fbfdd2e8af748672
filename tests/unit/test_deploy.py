"""What `deploy/` holds fits together, and fits the code."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from nearcast.transport.config import load_config
from nearcast.web import metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
FILE = DEPLOY / "nearcast.toml"
# What Prometheus appends to the name of a counter or a histogram.
SUFFIX = re.compile(r"_(total|bucket|count|sum)$")


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def served() -> set[str]:
    return set(re.findall(r'"(nearcast_\w+)"', Path(metrics.__file__).read_text()))


def asked(expression: str) -> set[str]:
    return {SUFFIX.sub("", name) for name in re.findall(r"\bnearcast_\w+", expression)}


def test_the_deployments_file_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARCAST_KEY", "0" * 64)
    config = load_config(FILE)
    assert len({broker.site for broker in config.brokers.values()}) == 3


def test_every_broker_has_a_server_and_an_agent() -> None:
    services = read("compose.yaml")["services"]
    brokers = tomllib.loads(FILE.read_text())["broker"]
    agents = {each["command"][2] for each in services.values() if each.get("command", [""])[0] == "agent"}
    assert agents == {broker["name"] for broker in brokers}
    assert {urlsplit(broker["url"]).hostname for broker in brokers} <= set(services)
    assert [each for each in services.values() if each.get("command") == ["coordinator"]][1:], "one cannot stand in"


def test_what_prometheus_asks_is_a_service_at_the_port_of_the_file() -> None:
    services = read("compose.yaml")["services"]
    web = tomllib.loads(FILE.read_text())["web"]
    ports = {"coordinator": web["address"].rpartition(":")[2], "agent": web["metrics"].rpartition(":")[2]}
    for job in read("prometheus.yml")["scrape_configs"]:
        for target in job["static_configs"][0]["targets"]:
            host, _, port = target.partition(":")
            assert services[host]["command"][0] == job["job_name"]
            assert port == ports[job["job_name"]]


def test_every_alert_asks_what_is_served_and_says_what_to_do() -> None:
    rules = [rule for group in read("alerts.yml")["groups"] for rule in group["rules"]]
    assert rules
    for rule in rules:
        assert asked(rule["expr"]), rule["alert"]
        assert asked(rule["expr"]) <= served(), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]


def test_every_panel_asks_what_is_served() -> None:
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    assert panels
    for panel in panels:
        for target in panel["targets"]:
            assert asked(target["expr"]), panel["title"]
            assert asked(target["expr"]) <= served(), panel["title"]
