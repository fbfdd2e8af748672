"""The API of a fleet of real processes: against its own document, and for every order."""

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from nearcast.fleet.ports import free_port
from tests.live.conftest import Fleet

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("api"), "--metrics", "--capacity", "1000000")
    try:
        fleet.until_well()
        for page in pages(fleet):
            TOKENS[page] = (fleet.state / "credentials" / "api-operator").read_text().strip()
            until(lambda page=page: ask(page, "/readyz")[0] == 200)
        yield fleet
    finally:
        fleet.stop()


def facts(fleet: Fleet, key: str) -> list[str]:
    return [child["facts"][key] for child in fleet.ready["children"] if key in child["facts"]]


def pages(fleet: Fleet) -> list[str]:
    return facts(fleet, "web")


TOKENS: dict[str, str] = {}  # of the operator, by page


def ask(page: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKENS.get(page, '')}", **headers}
    request = urllib.request.Request(page + path, data, headers)  # noqa: S310  # ours, on loopback
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def until(reached: Any) -> Any:
    until_s = time.monotonic() + DEADLINE_S
    while not (found := reached()):
        assert time.monotonic() < until_s, "not reached in time"
        time.sleep(0.2)
    return found


def look(page: str) -> None:
    """Until what was so when this was called has been seen."""
    begun_s = time.time()
    until(lambda: time.time() - ask(page, "/api/v1/status")[1]["age_s"] > begun_s + 0.5)


def state(page: str) -> Any:
    """All that an order could change."""
    brokers = [(each["name"], each["state"], each["in_ring"]) for each in ask(page, "/api/v1/brokers")[1]["brokers"]]
    promises = [(each["topic"], each["slo"]) for each in ask(page, "/api/v1/topics?limit=1000")[1]["topics"]]
    tasks = [each["id"] for each in ask(page, "/api/v1/tasks")[1]["tasks"]]
    return brokers, promises, ask(page, "/api/v1/plan?limit=1000")[1], tasks


def test_whatever_is_asked_as_its_document_says_is_answered_as_it_says_and_never_with_a_5xx(served: Fleet) -> None:
    page = pages(served)[1]
    before = state(page)
    schema = schemathesis.openapi.from_url(f"{page}/openapi.json")
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    count = 0
    for found in schema.exclude(path="/api/v1/events").get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @settings(
            max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            if case.method == "POST":
                case.query = {**(case.query or {}), "dry_run": True}
            case.call_and_validate(checks=checks, timeout=20, headers={"Authorization": f"Bearer {TOKENS[page]}"})

        check()
        count += 1
    assert count == len([1 for path in schema.raw_schema["paths"].values() for _ in path]) - 1
    look(page)  # what had happened would be seen
    assert state(page) == before


ORDERS: list[tuple[str, dict[str, object], str]] = [
    ("/api/v1/topics/race/move", {"brokers": ["b2"]}, "topic race"),
    ("/api/v1/topics/race/promise", {"slo": "p95:40ms"}, "topic race"),
    ("/api/v1/topics/race/processor", {"code": "SELECT payload FROM message", "language": "sql"}, "topic race"),
    ("/api/v1/topics/race/processor", {"code": ""}, "topic race"),
    ("/api/v1/brokers/b3/drain", {}, "broker b3"),
    ("/api/v1/brokers/b3/drain", {"cancel": True}, "broker b3"),
]


def test_an_order_is_a_dry_run_unless_said_otherwise_and_its_reason_is_seen_afterwards(served: Fleet) -> None:
    asked, other = pages(served)  # the one leads, the other does not: it makes no difference
    for number, (path, body, subject) in enumerate(ORDERS):
        look(asked)  # what was ordered before is seen by then
        before = state(asked)
        status, shown = ask(asked, path, body)
        assert (status, shown["dry_run"]) == (200, True), (path, shown)
        assert shown["steps"] or shown["notes"]
        look(asked)
        assert state(asked) == before, path
        status, said = ask(asked, f"{path}?dry_run=false", body)
        assert (status, said["field"]) == (422, "reason")
        reason = f"reason number {number}"
        status, said = ask(asked, f"{path}?dry_run=false", {**body, "reason": reason})
        assert status == 202, said
        task = until(lambda said=said: done(other, said["task"]))
        assert (task["state"], task["reason"], task["subject"]) == ("done", reason, subject)
        happened = ask(other, "/api/v1/decisions")[1]["happenings"]
        assert any(reason in ((each["task"] or each["decision"])["reason"]) for each in happened)
    happened = ask(other, "/api/v1/decisions?topic=race")[1]["happenings"]
    moved = [each["decision"] for each in happened if each["decision"]]
    assert [(each["was_brokers"] != ["b2"], each["brokers"]) for each in moved] == [(True, ["b2"])]
    assert "reason number 0" in moved[0]["reason"]


def done(page: str, task: str) -> Any:
    status, found = ask(page, f"/api/v1/tasks/{task}")
    return found if status == 200 and found["state"] != "running" else None


def test_what_cannot_be_is_answered_with_the_field_and_what_was_expected(served: Fleet) -> None:
    page = pages(served)[0]
    for path, body, status, field in (
        ("/api/v1/topics?limit=many", None, 422, "limit"),
        ("/api/v1/topics?colour=red", None, 422, "colour"),
        ("/api/v1/topics/a..b", None, 422, "topic"),
        ("/api/v1/topics/a/promise", {"slo": "soon"}, 422, "slo"),
        ("/api/v1/topics/a/promise", {}, 422, "slo"),
        ("/api/v1/topics/a/move", {"brokers": []}, 422, "brokers"),
        ("/api/v1/topics/a/move", {"brokers": ["b1"], "strategy": "best"}, 422, "strategy"),
        ("/api/v1/brokers", {"name": "b9", "out_bytes_per_s": -1}, 422, "out_bytes_per_s"),
        ("/api/v1/topics/a/move", {"brokers": ["b77"]}, 409, None),
        ("/api/v1/brokers/b77", None, 404, None),
        ("/api/v1/nothing", None, 404, None),
    ):
        found, said = ask(page, path, body)
        assert (found, said.get("field")) == (status, field), (path, said)
        assert said["error"]
    found, said = ask(page, "/api/v1/topics/a/promise", {"slo": "p95:40ms"}, **{"Content-Type": "text/plain"})
    assert (found, said["field"]) == (415, "content-type")
    assert ask(page, "/api/v1/rebalance/plan")[0] == 405


def test_every_process_tells_its_metrics_and_none_names_a_client(served: Fleet) -> None:
    agents = facts(served, "metrics")
    assert len(agents) == 3
    texts = []
    for page in (*pages(served), *agents):
        with urllib.request.urlopen(f"{page}/metrics", timeout=20) as answer:  # noqa: S310
            texts.append(answer.read().decode())
    for text in texts:
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        assert all(line.startswith(("nearcast_", "process_", "python_")) for line in samples)
        assert "client=" not in text
    assert "nearcast_broker_load_ratio{" in texts[0]
    assert "nearcast_balancedness_ratio" in texts[1]
    assert 'nearcast_forwarded_messages_total{broker="b1"}' in texts[2]
    assert 'nearcast_gaps_total{broker="b1"} 0.0' in texts[2]
    assert 'nearcast_downtime_seconds_bucket{broker="b1",le="+Inf"}' in texts[2]


@pytest.mark.slow
def test_without_a_leader_what_is_not_known_is_not_told_as_known(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "--coordinators", "1", "--sites", "1")
    try:
        fleet.until_well()
        (page,) = pages(fleet)
        TOKENS[page] = (fleet.state / "credentials" / "api-operator").read_text().strip()
        until(lambda: ask(page, "/readyz")[0] == 200)
        bus = fleet.children()["control"]
        os.kill(bus, signal.SIGSTOP)
        said = until(lambda: found if (found := ask(page, "/readyz"))[0] == 503 else None)[1]
        assert "no leader answers" in said["error"]
        assert ask(page, "/healthz")[0] == 200
        assert ask(page, "/api/v1/brokers/b1/drain", {})[0] == 503
    finally:
        os.kill(fleet.children()["control"], signal.SIGCONT)
        fleet.stop()


def test_operators_need_an_address_and_a_token_and_nothing_else(served: Fleet) -> None:
    """No file of the deployment is read; the first address is of nobody, and the next one does."""
    secret = (served.state / "credentials" / "api-operator").read_text().strip()
    far = {
        "NEARCAST_CONFIG": "/nowhere",
        "NEARCAST_API": f"http://127.0.0.1:{free_port()},{pages(served)[1]}",
        "NEARCAST_TOKEN": secret,
    }
    moved = served.run("topic", "move", "far/away", "b2", "--reason", "its players are there", "--json", **far)
    assert moved.json == {"topic": "far/away", "epoch": 1, "strategy": "single", "brokers": ["b2"]}
    assert "its players are there" in served.run("topic", "explain", "far/away", **far).out
    assert served.run("topic", "set", "far/away", "--slo", "p95:900ms", **far).code == 0
    assert served.run("rebalance", "plan", "--policy", "hash", "--json", **far).json["policy"] == "hash"


def test_a_command_that_may_not_or_cannot_says_why_and_what_to_do(served: Fleet) -> None:
    viewer = (served.state / "credentials" / "api-viewer").read_text().strip()
    refused = served.run("topic", "move", "race", "b1", NEARCAST_TOKEN=viewer)
    assert (refused.code, refused.out) == (1, "")
    assert "this needs the role operator; the token 'viewer' has the role viewer (NEARCAST_TOKEN" in refused.err
    assert "the token is not known here" in served.run("topic", "move", "race", "b1", NEARCAST_TOKEN=viewer[1:]).err
    nobody = f"http://127.0.0.1:{free_port()}"
    gone = served.run("broker", "drain", "b3", NEARCAST_API=nobody)
    assert gone.code == 1
    assert f"no coordinator answers at {nobody} (" in gone.err
    assert "NEARCAST_API or web.api says where coordinators are" in gone.err
    assert "expected addresses like http://" in served.run("rebalance", "plan", NEARCAST_API="host:8790").err
    server = pages(served)[0]
    assert (
        "is a coordinator of this version there?"
        in served.run("rebalance", "status", NEARCAST_API=f"{server}/static").err
    )


def test_nobody_is_let_in_without_a_token_and_a_viewer_orders_nothing(served: Fleet) -> None:
    """An expired token too: it is made with the command, and outlived."""
    page = pages(served)[0]
    viewer = (served.state / "credentials" / "api-viewer").read_text().strip()
    made = served.run("token", "create", "brief", "--role", "operator", "--expires", "4s", "--json")
    brief, made_s = f"Bearer {made.json['token']}", time.monotonic()
    assert ask(page, "/api/v1/status", Authorization=brief)[0] == 200
    status, said = ask(page, "/api/v1/brokers/b3/drain", {}, Authorization="")
    assert (status, "a token is needed" in said["error"]) == (401, True)
    assert ask(page, "/api/v1/status", Authorization=f"Bearer {viewer}")[0] == 200
    status, said = ask(page, "/api/v1/brokers/b3/drain", {}, Authorization=f"Bearer {viewer}")
    assert (status, said["error"]) == (403, "this needs the role operator; the token 'viewer' has the role viewer")
    time.sleep(max(0.0, made_s + 4.0 - time.monotonic()))
    status, said = ask(page, "/api/v1/brokers/b3/drain", {}, Authorization=brief)
    assert (status, "the token 'brief' expired at" in said["error"]) == (401, True)
    shown = json.dumps(served.ready) + (served.state / "fleet.json").read_text()
    shown += "".join(log.read_text() for log in (served.state / "logs").iterdir())
    public = {"tokens", "authority.pem", "servers.pem"}
    kept = [file for file in (served.state / "credentials").iterdir() if file.name not in public]
    secrets = [file.read_text().strip() for file in kept]
    assert len(secrets) == 8  # of three roles, of notices, two tokens, and two keys of certificates
    assert not any(each in shown for each in secrets), "no log and no state has one"
