"""A process that may use a share of one processor."""

import subprocess
import sys
import time

import pytest

from nearcast.domain.errors import ConfigError
from nearcast.fleet.cpu import CpuShare, used_s

BUSY = "while True: pass"


def share_of(pid: int, for_s: float) -> float:
    began_s, before_s = time.monotonic(), used_s(pid)
    time.sleep(for_s)
    return (used_s(pid) - before_s) / (time.monotonic() - began_s)


def test_a_busy_process_gets_its_share_and_then_runs_freely_again() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        try:
            time.sleep(0.3)
            with CpuShare(process.pid, 0.2):
                assert min(share_of(process.pid, 1.5) for _ in range(3)) <= 0.3, "a busy machine stops it late at times"
            freed = used_s(process.pid)
            until_s = time.monotonic() + 10
            while used_s(process.pid) < freed + 0.2:
                assert time.monotonic() < until_s, "it is still stopped"
                time.sleep(0.05)
        finally:
            process.kill()


def test_a_process_that_ends_meanwhile_is_no_trouble() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process, CpuShare(process.pid, 0.5):
        process.kill()
        process.wait()
        time.sleep(0.1)


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ConfigError, match="expected more than 0 and at most 1"):
        CpuShare(1, share)
