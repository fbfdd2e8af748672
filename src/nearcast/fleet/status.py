"""What a fleet's state directory tells other processes: who runs it, and how each child is."""

import fcntl
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from nearcast.domain.errors import FleetError

FORMAT = "nearcast.fleet/1"
_FILE = "fleet.json"
_LOCK = "lock"

ChildState = Literal["running", "restarting", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class ChildStatus:
    name: str
    kind: str
    pid: int
    mark: int  # tells this process from a later one with the same pid
    state: ChildState
    restarts: int
    log: str
    url: str | None = None  # a server's address, without credentials
    last_end: str | None = None  # how its newest process but one ended
    facts: dict[str, object] = field(default_factory=dict)  # what a command said when it was ready

    @property
    def alive(self) -> bool:
        return process_mark(self.pid) == self.mark


@dataclass(frozen=True, slots=True)
class FleetStatus:
    pid: int
    mark: int
    state: Literal["running", "stopped"]
    children: tuple[ChildStatus, ...]  # in the order in which they were started
    format: str = FORMAT

    @property
    def alive(self) -> bool:
        """Whether the process that wrote this still supervises; if not, `children` is how things were before."""
        return self.state == "running" and process_mark(self.pid) == self.mark


def write_status(state: Path, status: FleetStatus) -> None:
    """A reader sees the old or the new, never a part."""
    new = state / f"{_FILE}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(status)) + b"\n")
    new.replace(state / _FILE)


def read_status(state: Path) -> FleetStatus | None:
    """None when no fleet was ever run here. Raises FleetError when the file is not one of ours."""
    file = state / _FILE
    try:
        status = msgspec.json.decode(file.read_bytes(), type=FleetStatus)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        raise FleetError(f"{file}: is not a status of a fleet: {error}") from error
    if status.format != FORMAT:
        raise FleetError(f"{file}: has the format {status.format!r}; this version reads {FORMAT}")
    return status


def process_mark(pid: int) -> int | None:
    """When the process was started, in the kernel's ticks; None when there is none, or when only its end is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


class StateLock:
    """Held by the one process that runs a fleet in a state directory; the kernel frees it when that process dies."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._fd = -1

    def acquire(self) -> None:
        """Raises FleetError with the pid of the process that holds it."""
        self._state.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._state / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(fd, 20).decode().strip() or "unknown"
            os.close(fd)
            raise FleetError(
                f"{self._state}: process {holder} runs a fleet here; stop it first, or use another state directory"
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        os.close(self._fd)
