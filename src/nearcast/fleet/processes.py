"""One child process: started with a log, waited for without a thread, ended for sure."""

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from nearcast.domain.errors import ConfigError, FleetError

LOG_BYTES = 4 << 20  # a log longer than this is put aside, once, when its process is started again
_GRACE_S = 5.0
_TAIL_LINES = 12
_TAIL_BYTES = 1 << 16
_PR_SET_PDEATHSIG = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_RESERVED = ("logs", "lock", "fleet.json", "fleet.json.new")  # what else a state directory holds

_libc = ctypes.CDLL(None)


def check_name(name: str) -> None:
    """Raises ConfigError unless a child, its log and its directory can have this name."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise ConfigError(
            f"child name {name!r}: expected letters, digits, '_', '.' and '-', and none of {', '.join(_RESERVED)}"
        )


class Process:
    """A running child, in a session of its own, so that Ctrl-C in the terminal reaches us and not it.

    It does not outlive us: when the thread that spawned it ends, even by kill -9, the kernel kills it; so it is spawned
    from a thread that stays. What it starts itself is ended with it, as long as that stays in its process group.
    Nothing it prints is lost: stdout and stderr go straight to its log file.
    """

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path, log_start: int) -> None:
        self.name = name
        self.log = log
        self._popen = popen
        self._log_start = log_start

    @classmethod
    def spawn(cls, name: str, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> "Process":
        """Raises FleetError when the program cannot be run at all."""
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(log.suffix + ".1"))
        with log.open("ab") as output:
            start = output.tell()  # before the child writes: it shares the position
            try:
                popen = subprocess.Popen(  # noqa: S603  # argv is a list of ours; no shell reads it
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=env,
                    start_new_session=True,
                    preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509  # it takes no lock
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise FleetError(f"{name}: {argv[0]!r} cannot be run: {error}") from error
            return cls(name, popen, log, start)

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; the negated number of the signal that ended it, if one did."""
        if self._popen.returncode is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self._reap()
        return self._popen.returncode

    async def wait(self) -> int:
        """Return once it has ended and is reaped. May be called by several tasks at once."""
        if self.returncode is None:
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            pidfd = os.pidfd_open(self.pid)
            loop.add_reader(pidfd, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(pidfd)
                os.close(pidfd)
        code = self.returncode
        assert code is not None
        return code

    async def stop(self, grace_s: float = _GRACE_S) -> int:
        """Ask it to end (TERM), and kill it when it has not done so in time, or when this is cancelled."""
        try:
            async with asyncio.timeout(grace_s):
                self.send(signal.SIGTERM)
                self.send(signal.SIGCONT)  # a stopped process handles TERM only once it goes on
                return await self.wait()
        except TimeoutError:
            return await self.kill()
        except asyncio.CancelledError:
            self.send(signal.SIGKILL)
            self._reap()
            raise

    async def kill(self) -> int:
        """End it at once (-9), with its process group."""
        self.send(signal.SIGKILL)
        return await self.wait()

    def send(self, number: signal.Signals) -> None:
        """Does nothing when it has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP; returns once the last of its threads stands still, or it has ended."""
        self.send(signal.SIGSTOP)
        if self.returncode is None:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def output(self) -> str:
        """What it has printed since it was spawned; the newest part, when that is much."""
        return self._read(self._log_start)

    def failure(self, what: str) -> FleetError:
        """An error that says where to read on, with the end of the log."""
        lines = self.output().splitlines()[-_TAIL_LINES:] or ["(nothing was printed)"]
        return FleetError("\n    ".join([f"{self.name}: {what}; the end of its log {self.log}:", *lines]))

    def _read(self, start: int) -> str:
        with self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(start, size - _TAIL_BYTES))
            return log.read().decode(errors="replace")

    def _reap(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # what it left behind; its pid is not reused before the next line
        self._popen.wait()


def die_with_parent(parent: int) -> None:
    """Runs in the child before exec. The parent may have died before the kernel was told: then nobody would kill us."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0 or os.getppid() != parent:
        os._exit(127)
