"""A whole deployment of real processes, started by the command that users start it with."""

import asyncio
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """What a test left open is told of at its own end, and not at another test's."""
    yield
    gc.collect()


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Fleet:
    """`nearcast up` in a directory of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.state = folder / ".nearcast"
        self.config = self.state / "nearcast.toml"
        told = () if "--metrics" in options else ("--no-metrics",)  # what no test looks at costs every one of them time
        argv = [sys.executable, "-m", "nearcast", "up", "--json", "--state", str(self.state), *told, *options]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        assert lines, self.process.communicate()[1]
        self.ready = json.loads("".join(lines))

    def children(self) -> dict[str, int]:
        """Name and pid of every child that runs now."""
        status = json.loads((self.state / "fleet.json").read_text())
        return {child["name"]: child["pid"] for child in status["children"] if child["state"] == "running"}

    def run(self, *arguments: str, given: str | None = None, **more: str) -> Result:
        """`more`: variables of its environment."""
        argv = [sys.executable, "-m", "nearcast", *arguments]
        env = {**os.environ, "NEARCAST_CONFIG": str(self.config), **more}
        done = subprocess.run(argv, env=env, input=given, capture_output=True, text=True, timeout=60, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.code == 0, (arguments, done)
        return done.out

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        argv = [sys.executable, "-m", "nearcast", *arguments]
        env = {**os.environ, "NEARCAST_CONFIG": str(self.config)}
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=env, text=True, stdin=pipe, stdout=pipe, stderr=pipe)

    def until_well(self, deadline_s: float = 30.0) -> Any:
        until_s = time.monotonic() + deadline_s
        while True:
            status = self.run("status", "--json")
            if status.code == 0:
                return status.json
            assert time.monotonic() < until_s, status
            time.sleep(0.2)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)


# What depends little on the kind of servers is run on one kind, and by `make test-all` on both.
on_nats = pytest.mark.parametrize("kind", ["nats", pytest.param("redis", marks=pytest.mark.slow)], indirect=True)
on_redis = pytest.mark.parametrize("kind", ["redis", pytest.param("nats", marks=pytest.mark.slow)], indirect=True)


@pytest.fixture(params=["nats", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def fleet(tmp_path: Path, kind: str) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, "--brokers", kind)
    try:
        fleet.until_well()
        yield fleet
    finally:
        fleet.stop()


@contextmanager
def fleet_with(name: str, code: str, folder: Path, kind: str) -> Iterator[Fleet]:
    """One whose agents can import a module of this name: processors for a test."""
    (folder / f"{name}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        fleet = Fleet(folder, "--brokers", kind)
        try:
            fleet.until_well()
            yield fleet
        finally:
            fleet.stop()


async def until(seconds: float, good: Callable[[], bool], what: str) -> None:
    until_s = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < until_s, what
        await asyncio.sleep(0.05)
