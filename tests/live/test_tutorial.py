"""docs/tutorial.md, done as it says: its programs and its commands, and what it says that one sees."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.live.conftest import Fleet

TUTORIAL = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
PROGRAMS = dict(re.findall(r"```python\n# (\S+)\n(.*?)```", TUTORIAL, re.DOTALL))
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TUTORIAL, re.DOTALL) for line in block.splitlines()]

# One way over two emulated lines, there and back: no machine is faster.
FAR_MS = 100


class Program:
    """A program of the tutorial, running; what it printed last."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        path = fleet.folder / name
        path.write_text(PROGRAMS[name])
        env = {**os.environ, "NEARCAST_CONFIG": str(fleet.config)}
        self.process = subprocess.Popen([sys.executable, path], env=env, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            self.lines.extend(out)

    def late_ms(self) -> int | None:
        found = re.search(r": (\d+) ms", self.lines[-1]) if self.lines else None
        return int(found[1]) if found else None

    def latest_ms(self, count: int) -> list[int]:
        """Of its last lines; none before there are so many."""
        found = [int(each[1]) for line in self.lines[-count:] if (each := re.search(r": (\d+) ms", line))]
        return found if len(found) == count else []

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()


def wait_until(what: Callable[[], object], seconds: float = 90.0) -> None:
    until_s = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.1)


def test_ten_minutes_lead_to_a_promise(tmp_path: Path) -> None:
    up, status, *programs, move, promise, explain = [command.split()[1:] for command in COMMANDS]
    fleet = Fleet(tmp_path, *up[1:])
    running: list[Program] = []
    try:
        fleet.until_well()
        assert fleet.run(*status).code == 0
        assert [[name] for name in PROGRAMS] == programs
        running += [Program(fleet, name) for name in PROGRAMS]
        listener = running[0]
        wait_until(listener.late_ms)
        assert fleet.run(*move).code == 0
        wait_until(lambda: min(listener.latest_ms(20), default=0) >= FAR_MS)  # one alone may be late for any reason
        assert fleet.run(*promise).code == 0
        wait_until(lambda: max(listener.latest_ms(20)) < FAR_MS)
        explained = fleet.run(*explain)
        assert "b1" in explained.out, explained
        numbers = [int(found[1]) for line in listener.lines if (found := re.search(r" (\d+): \d+ ms", line))]
        assert numbers == list(range(numbers[0], numbers[0] + len(listener.lines))), "missed, twice or out of order"
    finally:
        for program in reversed(running):
            program.stop()
        fleet.stop()
