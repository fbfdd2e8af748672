"""nearcast's own processes as children: anything that says in one line that it is ready."""

import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearcast.fleet.child import Child
from nearcast.fleet.processes import Process, check_name

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """What to run: `argv`, with `env` over this process's own environment where it is given.

    The command must print, flushed, one line with a JSON object that has `"ready": true` once it does its work; what
    else the object has is kept as the command's facts.
    """

    name: str
    kind: str  # what it is to a reader of the status: agent, coordinator, wan, ...
    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    start_s: float = 30.0  # until then it must be ready

    def __post_init__(self) -> None:
        check_name(self.name)


class Command(Child):
    """One process of a CommandSpec."""

    def __init__(self, spec: CommandSpec, state: Path) -> None:
        """Not running; see `start`."""
        super().__init__(spec.name, state)
        self.spec = spec
        self.kind = spec.kind

    @classmethod
    async def start(cls, spec: CommandSpec, state: Path) -> "Command":
        """Return when it is ready. Raises FleetError with the end of its log when it does not get there."""
        command = cls(spec, state)
        await command.restart()
        return command

    async def restart(self) -> None:
        if self._process is not None:
            await self._process.stop()
        self._process = process = Process.spawn(self.name, self.spec.argv, log=self.log, env=self.spec.env)
        try:
            self.facts = await self._until_ready(process)
        except BaseException:
            await process.kill()
            raise

    async def _until_ready(self, process: Process) -> Mapping[str, object]:
        deadline_s = time.monotonic() + self.spec.start_s
        while time.monotonic() < deadline_s:
            code = process.returncode  # before the log is read: what it printed last must not be missed
            for line in process.output().splitlines():
                if (facts := _facts(line)) is not None:
                    return facts
            if code is not None:
                raise process.failure(f"ended with code {code} before it was ready")
            await asyncio.sleep(_POLL_S)
        raise process.failure(f"was not ready within {self.spec.start_s:g} s")


def _facts(line: str) -> Mapping[str, object] | None:
    if not line.startswith("{"):
        return None
    try:
        facts = json.loads(line)
    except json.JSONDecodeError:
        return None
    return {key: value for key, value in facts.items() if key != "ready"} if facts.get("ready") is True else None


def own_command(name: str, kind: str, command: Sequence[str], config: Path) -> CommandSpec:
    """One of nearcast's own, by the interpreter that runs this."""
    return CommandSpec(name, kind, (sys.executable, "-m", "nearcast", *command, "--config", str(config)))
