"""What servers and commands have in common: a named process that can be ended and started again."""

import signal
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from nearcast.domain.errors import FleetError
from nearcast.fleet.processes import Process


class Child(ABC):
    """One named child below a state directory; its log is `logs/<name>.log`."""

    kind: str
    facts: Mapping[str, object] = {}  # what it said of itself when it was ready

    def __init__(self, name: str, state: Path) -> None:
        """Not running; see `restart`."""
        self.name = name
        self.log = state / "logs" / f"{name}.log"
        self._process: Process | None = None

    @abstractmethod
    async def restart(self) -> None:
        """Start it again, as it was, after ending what still runs; return when it is ready.

        Raises FleetError naming the log file, with its last lines, when it does not get there: then nothing runs.
        """

    @property
    def url(self) -> str | None:
        """A server's address, without credentials."""
        return None

    @property
    def pid(self) -> int:
        """Of the newest process, even if it has ended."""
        return self._spawned.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def wait(self) -> int:
        """Return the exit code once it has ended, for whatever reason."""
        return await self._spawned.wait()

    async def stop(self, grace_s: float = 5.0) -> None:
        """TERM, then KILL when it takes longer. Does nothing when it has ended."""
        await self._spawned.stop(grace_s)

    async def kill(self) -> None:
        """-9."""
        await self._spawned.kill()

    def pause(self) -> None:
        """From now on its connections stay, and nothing is read, answered or sent."""
        self._spawned.pause()

    def resume(self) -> None:
        self._spawned.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """A signal that it knows what to do with."""
        self._spawned.send(number)

    def failure(self, what: str) -> FleetError:
        """An error with the end of the log of its newest process."""
        return self._spawned.failure(what)

    @property
    def _spawned(self) -> Process:
        if self._process is None:
            raise FleetError(f"{self.name}: never started")
        return self._process
