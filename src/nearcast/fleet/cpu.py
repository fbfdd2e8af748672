"""A share of one processor for a process, without any right that an ordinary user lacks; and who had a processor."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from nearcast.domain.errors import ConfigError

_LOOK_S = 0.005
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SAVED_S = 0.1  # as much of its share as a process that was idle may use at once later


def used_s(pid: int) -> float:
    """Processor time of all its threads so far. Raises FileNotFoundError when it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def stolen_s(core: int) -> float:
    """For how long so far a virtual machine wanted this processor and its host had it. 0 where nobody tells."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return 0.0
    found = next((line.split() for line in lines if line.startswith(f"cpu{core} ")), [])
    return int(found[8]) / _TICKS_PER_S if len(found) > 8 else 0.0


class CpuShare:
    """Use as `with CpuShare(pid, 0.05)`: the process is stopped whenever it has used more than its share, over all its
    threads, and until time has caught up; at the end it runs freely again.

    Not promised: a share of less than a tick of the kernel's clock at a time.
    """

    def __init__(self, pid: int, share: float) -> None:
        if not 0 < share <= 1:
            raise ConfigError(f"share is {share}; expected more than 0 and at most 1 (a whole processor)")
        self._pid = pid
        self._share = share
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"share of {pid}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        stopped = False
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            began_s, at_first = time.monotonic(), used_s(self._pid)
            try:
                while not self._over.wait(_LOOK_S):
                    owed_s = (time.monotonic() - began_s) * self._share - (used_s(self._pid) - at_first)
                    if owed_s > _SAVED_S:
                        began_s += (owed_s - _SAVED_S) / self._share
                    if (owed_s < 0) != stopped:
                        stopped = not stopped
                        os.kill(self._pid, signal.SIGSTOP if stopped else signal.SIGCONT)
            finally:
                os.kill(self._pid, signal.SIGCONT)
