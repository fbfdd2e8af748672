"""The command line against a deployment of real processes."""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path

from nearcast.fleet.servers import Server, ServerSpec
from nearcast.fleet.status import process_mark
from tests.live.conftest import Fleet, on_nats, on_redis


def subscribed(fleet: Fleet, topic: str, count: int, *, seconds: int = 30) -> "subprocess.Popen[str]":
    """A `nearcast sub` that is subscribed."""
    process = fleet.start("sub", topic, "--count", str(count), "--json", "--seconds", str(seconds))
    assert process.stderr is not None
    assert process.stderr.readline() == f"subscribed to {topic}\n"
    return process


def received(process: "subprocess.Popen[str]") -> list[str]:
    out, err = process.communicate(timeout=40)
    assert process.returncode == 0, err
    return [json.loads(line)["text"] for line in out.splitlines()]


def topic_lines(fleet: Fleet, topic: str) -> list[str]:
    return fleet.run("topic", "show", topic).out.splitlines()


@on_redis
def test_messages_flow_while_a_topic_is_moved(fleet: Fleet) -> None:
    listener = subscribed(fleet, "greetings", 4)
    assert fleet.run("pub", "greetings", "one").code == 0
    moved = fleet.run("topic", "move", "greetings", "b1", "b2", "--strategy", "all_publishers", "--json")
    assert moved.json == {"topic": "greetings", "epoch": 1, "strategy": "all_publishers", "brokers": ["b1", "b2"]}
    assert fleet.run("pub", "greetings", given="two\nthree\n").code == 0
    assert fleet.run("topic", "move", "greetings", "b3").code == 0
    assert fleet.run("pub", "greetings", "four").code == 0
    assert received(listener) == ["one", "two", "three", "four"]

    shown = fleet.run("topic", "show", "greetings", "--json").json
    assert (shown["strategy"], shown["brokers"], shown["epoch"]) == ("single", ["b3"], 2)
    cost = {each["broker"]: each for each in shown["handovers"]}
    assert cost["b1"]["notices"] >= 1
    assert any("its moves cost the agent of b1: forwarded" in line for line in topic_lines(fleet, "greetings"))
    brokers = {each["name"]: each["load"]["handed_over"] for each in fleet.run("broker", "list", "--json").json}
    assert brokers["b1"]["notices"] >= cost["b1"]["notices"]
    assert "notices" in fleet.run("broker", "list").out
    assert [each["topic"] for each in fleet.run("topic", "list", "--json").json] == ["greetings"]
    plan = fleet.run("plan", "show", "--json").json
    assert plan["ring"]["brokers"] == ["b1", "b2", "b3"]
    assert len(plan["routes"]) == 1
    assert fleet.run("topic", "show", "elsewhere", "--json").json["by_ring"] is True


def test_what_is_wrong_is_said_with_what_there_is(fleet: Fleet) -> None:
    refused = fleet.run("topic", "move", "t", "b9")
    assert (refused.code, refused.out) == (1, "")
    assert "'b9' has no agent that answers; known are b1, b2, b3" in refused.err
    assert "wildcards" in fleet.run("pub", "t.*", "x").err
    assert fleet.run("topic", "move", "t", "b1", "b2").code == 2
    assert "no broker is at site 'moon'" in fleet.run("sub", "t", "--site", "moon").err


def test_a_fleet_that_is_well_is_found_well(fleet: Fleet) -> None:
    found = fleet.run("doctor", "--json")
    assert found.code == 0, found.out
    rtts = fleet.run("rtt", "--json").json
    assert all(0 < each["median_ms"] < 1000 for each in rtts)
    assert [each["name"] for each in fleet.run("broker", "list", "--json").json] == ["b1", "b2", "b3"]


@on_nats
def test_without_the_control_bus_traffic_goes_on_and_status_says_that_nothing_moves(fleet: Fleet) -> None:
    listener = subscribed(fleet, "t", 2)
    sender = fleet.start("pub", "t")
    assert sender.stdin is not None
    print("before", file=sender.stdin, flush=True)
    assert listener.stdout is not None
    assert json.loads(listener.stdout.readline())["text"] == "before"
    os.kill(fleet.children()["control"], signal.SIGSTOP)
    try:
        time.sleep(12)  # every agent's lease has run out: who has a route keeps it
        print("meanwhile", file=sender.stdin, flush=True)
        assert received(listener) == ["meanwhile"]
        sender.communicate(timeout=20)
        status = fleet.run("status")
        assert status.code == 1
        assert "THE BUS IS DOWN" in status.out
        assert "traffic goes on with the last plan, nothing moves" in status.out
        moved = fleet.run("topic", "move", "t", "b1", "--timeout", "3")
        assert moved.code == 1
    finally:
        os.kill(fleet.children()["control"], signal.SIGCONT)
    fleet.until_well()
    assert fleet.run("topic", "move", "t", "b1").code == 0


def test_a_second_fleet_in_the_same_place_is_refused(fleet: Fleet) -> None:
    second = fleet.run("up", "--state", str(fleet.state))
    assert second.code == 1
    assert f"process {fleet.process.pid} runs a fleet here" in second.err


def test_the_end_of_the_command_is_the_end_of_all_it_started(fleet: Fleet) -> None:
    pids = fleet.children().values()
    assert len(pids) == 9
    fleet.stop()
    assert fleet.process.returncode == 0
    assert [pid for pid in pids if process_mark(pid) is not None] == []


def test_killing_the_command_leaves_no_orphan(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, "--sites", "1", "--coordinators", "1")
    pids = fleet.children().values()
    fleet.process.kill()
    fleet.process.communicate(timeout=10)
    until_s = time.monotonic() + 10
    while left := [pid for pid in pids if process_mark(pid) is not None]:
        assert time.monotonic() < until_s, left
        time.sleep(0.05)


def test_agents_and_coordinators_start_for_servers_that_run_already(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        bus = runner.run(Server.start(ServerSpec("nats", "bus", jetstream=True), tmp_path))
        broker = runner.run(Server.start(ServerSpec("redis", "shop"), tmp_path))
        try:
            (tmp_path / "key").write_text("ab" * 32)
            file = tmp_path / "shop.toml"
            file.write_text(
                f'key_file = "key"\n[control]\nurl = "{bus.endpoint.url}"\n'
                f'[[broker]]\nname = "shop"\nurl = "{broker.endpoint.url}"\n'
            )
            fleet = Fleet(tmp_path, "--config", str(file), "--coordinators", "1")
            try:
                assert sorted(fleet.children()) == ["agent-shop", "coordinator-1"]
                assert Path(fleet.ready["config"]) == file
                fleet.config = file
                fleet.until_well()
                listener = subscribed(fleet, "orders", 1)
                assert fleet.run("pub", "orders", "one").code == 0
                assert received(listener) == ["one"]
            finally:
                fleet.stop()
            refused = fleet.run("up", "--config", str(file), "--sites", "2")
            assert refused.code == 2
            assert "--sites is for servers that are started here" in refused.err
        finally:
            runner.run(broker.kill())
            runner.run(bus.kill())
