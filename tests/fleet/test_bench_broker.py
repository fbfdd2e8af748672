"""`nearcast bench broker` on real servers, for a few seconds: that it measures, not what."""

import asyncio
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nearcast.cli.main import command_line
from nearcast.fleet.servers import Server, ServerSpec
from nearcast.lab.live.profile import PARAMETERS
from nearcast.lab.live.traffic import Traffic, play
from nearcast.transport.config import load_config
from nearcast.transport.endpoint import NATS, REDIS

KINDS = pytest.mark.parametrize("kind", [NATS, REDIS])


@KINDS
def test_all_that_is_sent_is_heard_and_timed_from_end_to_end(kind: str, tmp_path: Path) -> None:
    server = asyncio.run(Server.start(ServerSpec(kind, "b1"), tmp_path))
    try:
        where = (kind, server.endpoint.host, server.endpoint.port)
        # Longer than it takes a NATS server to ask for the first time whether its clients are still there.
        heard = play(Traffic(*where, 3, 2, 4, 300, 50.0, 0.5, 2.5, 7, server.pid))
        again = play(Traffic(*where, 3, 2, 4, 300, 50.0, 0.5, 0.5, 7))
    finally:
        asyncio.run(server.kill())
    assert heard.expected == pytest.approx(3 * 2 * 4 * 50 * 2.5, rel=0.2)
    assert heard.delivered == heard.expected
    assert 0.0 < heard.p50_ms <= heard.p95_ms <= heard.p99_ms < 1000.0
    assert heard.cores is not None
    assert 0.0 <= heard.cores < 2.0
    assert again.cores is None


@KINDS
def test_what_a_server_that_ends_connections_had_yet_to_carry_never_comes(kind: str, tmp_path: Path) -> None:
    """As one does that has too much: that is what a profile is to find, and no reason to end it."""
    server = asyncio.run(Server.start(ServerSpec(kind, "b1"), tmp_path))
    end = threading.Timer(1.0, lambda: os.kill(server.pid, signal.SIGKILL))
    try:
        end.start()
        heard = play(Traffic(kind, server.endpoint.host, server.endpoint.port, 2, 2, 2, 300, 50.0, 0.2, 2.0, 7))
    finally:
        end.join()
        asyncio.run(server.kill())
    assert heard.expected == pytest.approx(2 * 2 * 2 * 50 * 2.0, rel=0.2)
    assert 0 < heard.delivered < heard.expected
    assert heard.p95_ms > 1000.0


@KINDS
def test_a_server_is_profiled_within_its_time(kind: str) -> None:
    began_s = time.monotonic()
    result = CliRunner().invoke(command_line(), ["bench", "broker", "--brokers", kind, "--minutes", "0.1", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert time.monotonic() - began_s < 60
    assert len(found["rows"]) + found["discarded"] >= 1
    assert found["limit_hz"] >= 500
    assert set(found["tellers"]) in (set(), set(PARAMETERS))


def test_the_watermark_of_a_broker_is_written_into_its_configuration(tmp_path: Path) -> None:
    """Or, on a machine too busy to tell, nothing is: then the command fails."""
    server = asyncio.run(Server.start(ServerSpec(REDIS, "b1"), tmp_path))
    config = tmp_path / "nearcast.toml"
    (tmp_path / "key").write_text("00" * 32)
    around = 'key_file = "key"\n[control]\nurl = "nats://127.0.0.1:1"\n[[broker]]\nname = "b1"  # mine\n'
    config.write_text(f'{around}url = "{server.url}"\n')
    try:
        command = ["bench", "broker", "--broker", "b1", "--minutes", "0.2", "--write", "--config", str(config)]
        result = CliRunner().invoke(command_line(), [*command, "--json"])
    finally:
        asyncio.run(server.kill())
    watermark = json.loads(result.stdout)["out_messages_per_s"]
    assert result.exit_code == (1 if watermark is None else 0)
    assert load_config(config).brokers["b1"].most.out_messages_per_s == watermark
    assert "# mine" in config.read_text()


def test_a_watermark_of_no_broker_is_refused() -> None:
    assert CliRunner().invoke(command_line(), ["bench", "broker", "--write"]).exit_code != 0
