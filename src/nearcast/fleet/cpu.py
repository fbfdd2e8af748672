"""A share of one processor for a process, without any right that an ordinary user lacks."""

import contextlib
import os
import signal
import threading
import time
from types import TracebackType
from typing import Self

from nearcast.domain.errors import ConfigError

_PERIOD_S = 0.02


class CpuShare:
    """Use as `with CpuShare(pid, 0.05)`: the process is stopped for the rest of every 20 ms in which it has used its
    share; at the end it runs freely again.

    Not promised: more than a share of wall time. A process that waits within its turn does not get it back.
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
        next_s = time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            try:
                while not self._over.is_set():
                    os.kill(self._pid, signal.SIGCONT)
                    time.sleep(_PERIOD_S * self._share)
                    os.kill(self._pid, signal.SIGSTOP)
                    next_s = max(next_s + _PERIOD_S, time.monotonic())
                    time.sleep(max(0.0, next_s - time.monotonic()))
            finally:
                os.kill(self._pid, signal.SIGCONT)
