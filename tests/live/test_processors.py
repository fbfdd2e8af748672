"""Processors on real servers: they fail and nothing else notices, topics move and nothing is lost."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearcast.client import Client, open_client
from nearcast.domain.message import Message
from nearcast.domain.report import Discontinuity, Gap
from nearcast.lab.experiment import silent
from nearcast.lab.live.run import LiveScale, play
from nearcast.sim.check import check
from nearcast.sim.history import History
from nearcast.sim.recorder import Recorder
from tests.live.conftest import Fleet, fleet_with, until

DOCUMENT = Path(__file__).parents[2] / "docs" / "processors.md"
PROCESSORS = """
import os
import pathlib
import time


def moody(message, spool):
    what = message.payload.decode()
    if what == "raise":
        raise ValueError("a bad day")
    if what == "hang":
        while True:
            pass
    if what == "die":
        os._exit(3)
    if what.startswith("wait "):
        pathlib.Path(what.removeprefix("wait ")).write_text(str(os.getpid()))
        time.sleep(60)
    return message.payload.upper()


def counted(message, spool):
    return b"%s of %d" % (message.payload, len(spool))
"""


@pytest.fixture
def fleet(tmp_path: Path, kind: str) -> Iterator[Fleet]:
    with fleet_with("testprocessors", PROCESSORS, tmp_path, kind) as fleet:
        yield fleet


def test_one_raises_one_hangs_one_dies_one_is_killed_and_nothing_else_is_disturbed(
    fleet: Fleet, tmp_path: Path
) -> None:
    for topic in ("moody", "steady", "plain"):
        fleet.ok("topic", "move", topic, "b1")
    fleet.ok("topic", "set", "moody", "--processor", "testprocessors:moody", "--limit", "5000")
    fleet.ok("topic", "set", "steady", "--processor", "testprocessors:counted", "--spool", "3")
    asyncio.run(_disturb(fleet, tmp_path))
    shown = fleet.ok("topic", "show", "moody")
    found = json.loads(fleet.ok("topic", "show", "moody", "--json"))
    processed = found["processing"]["b1"]
    assert [processed[name] for name in ("processed", "raised", "hung", "died", "dropped")] == [5, 1, 1, 2, 0], shown
    for text in ("5 processed, 1 raised, 1 hung, 2 died", "a bad day", "did not end within 0.5 s", "signal 9"):
        assert text in shown, shown
    assert processed["interval_ms"] > 0.0
    steady = json.loads(fleet.ok("topic", "show", "steady", "--json"))["processing"]["b1"]
    assert [steady[name] for name in ("raised", "hung", "died", "dropped")] == [0, 0, 0, 0]


async def _disturb(fleet: Fleet, tmp_path: Path) -> None:
    heard: dict[str, list[bytes]] = {"moody": [], "steady": [], "plain": [], "moody.dead": []}
    reports: list[Gap | Discontinuity] = []
    history = History()
    recorder = Recorder(history, time.time)
    async with open_client(fleet.config) as sender, open_client(fleet.config) as receiver:

        def also(_number: int, message: Message) -> None:
            heard[message.topic].append(message.payload)

        for topic in ("steady", "plain"):
            await recorder.subscribe(receiver, topic, also=also, also_report=reports.append)
        for topic in ("moody", "moody.dead"):
            await receiver.subscribe(topic, lambda message: also(0, message), on_report=reports.append)
        over = asyncio.Event()
        others = [asyncio.create_task(_send_steadily(recorder, sender, topic, over)) for topic in ("steady", "plain")]
        file = tmp_path / "pid"
        for what in (b"1", b"raise", b"2", b"die", b"3", b"wait " + str(file).encode()):
            await sender.publish("moody", what)
        await until(20.0, file.exists, "the worker never began to wait")
        await asyncio.sleep(0.2)
        os.kill(int(file.read_text()), signal.SIGKILL)
        await sender.publish("moody", b"4")
        await until(20.0, lambda: len(heard["moody"]) == 4, f"heard only {heard['moody']}")
        await asyncio.to_thread(
            fleet.ok, "topic", "set", "moody", "--processor", "testprocessors:moody", "--limit", "500"
        )
        await asyncio.sleep(1.0)
        for what in (b"hang", b"5"):
            await sender.publish("moody", what)
        await until(20.0, lambda: len(heard["moody"]) == 5, f"heard only {heard['moody']}")
        await until(20.0, lambda: len(heard["moody.dead"]) == 4, f"buried only {heard['moody.dead']}")
        over.set()
        await asyncio.gather(*others)
        await asyncio.sleep(2.0)  # agents report every second
        history.finished(time.time())
    assert heard["moody"] == [b"1", b"2", b"3", b"4", b"5"]
    buried = [json.loads(each) for each in heard["moody.dead"]]
    assert [(each["failure"], each["topic"]) for each in buried] == [
        ("raised", "moody"),
        ("died", "moody"),
        ("died", "moody"),
        ("hung", "moody"),
    ]
    result = check(history, grace_s=5.0)
    assert result.clean, result.counts()
    assert reports == []
    assert min(len(heard["steady"]), len(heard["plain"])) > 20
    assert heard["steady"][-1].endswith(b" of 3")


async def _send_steadily(recorder: Recorder, sender: Client, topic: str, over: asyncio.Event) -> None:
    while not over.is_set():
        await recorder.publish(sender, topic, b"x")
        await asyncio.sleep(0.05)


@pytest.mark.slow
def test_processors_come_and_go_and_topics_move_on_real_servers_and_nothing_is_lost(kind: str) -> None:
    found = play(kind, LiveScale(fanout=10, moves=12, processed=True), seed=6, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert (len(found.checked.covered), found.checked.gaps, found.checked.discontinuities) == (0, 0, 0)
    assert found.checked.delivered > 1000
    assert found.changed >= 2
    assert (found.unfinished, found.disputed) == ([], 0)


@pytest.mark.slow
def test_processors_moves_and_kills_on_real_servers_and_what_is_missing_is_reported(kind: str) -> None:
    found = play(kind, LiveScale(fanout=10, moves=12, kills=1, processed=True), seed=7, progress=silent)
    assert found.checked.honest, found.checked.counts()
    assert (found.unfinished, found.disputed) == ([], 0)


@pytest.mark.parametrize("kind", ["nats"])
def test_the_example_of_the_document_does_what_it_says(fleet: Fleet, tmp_path: Path) -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (module,) = (text for language, text in blocks if language == "python")
    (console,) = (text for language, text in blocks if language == "console")
    (tmp_path / "taxi.py").write_text(module)
    lines = console.splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    shown = [line for line in lines if not line.startswith("$ ")]
    assert _shell(fleet, commands[0]).communicate(timeout=60)[0].splitlines() == shown[:1]
    listening = _shell(fleet, commands[1].removesuffix(" &"))
    assert listening.stderr is not None
    assert listening.stderr.readline().startswith("subscribed")
    _shell(fleet, commands[2]).communicate(timeout=60)
    assert listening.communicate(timeout=60)[0].splitlines() == shown[1:]
    until_s = time.monotonic() + 20.0
    while "1 raised" not in (found := fleet.ok("topic", "show", "gps")):
        assert time.monotonic() < until_s, found
        time.sleep(0.5)
    assert "JSONDecodeError" in found


def _shell(fleet: Fleet, line: str) -> "subprocess.Popen[str]":
    """As a user types it, with this nearcast."""
    text = f'nearcast() {{ "{sys.executable}" -m nearcast "$@"; }}; {line}'
    env = {**os.environ, "NEARCAST_CONFIG": str(fleet.config)}
    pipe = subprocess.PIPE
    return subprocess.Popen(["bash", "-c", text], env=env, text=True, stdout=pipe, stderr=pipe)
