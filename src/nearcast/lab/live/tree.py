"""What a process and all that it started use: Spark is a process of its own below the pipeline's."""

import contextlib
import os
from pathlib import Path

from nearcast.fleet.cpu import used_s

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def below(pid: int) -> tuple[int, ...]:
    """It, and every process that descends from it now."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, OSError):
            parent = int((each / "stat").read_text().rsplit(")", 1)[1].split()[1])
            children.setdefault(parent, []).append(int(each.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return tuple(found)


def processor_s(pids: tuple[int, ...]) -> float:
    """Processor time so far, to ten milliseconds; of one that has ended, none."""
    used = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            used += used_s(pid)
    return used


def precise_s(pid: int) -> float:
    """Processor time of its threads that live, to the microsecond: for one that keeps its threads."""
    used_ns = 0
    for each in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            used_ns += int((each / "schedstat").read_text().split()[0])
    return used_ns / 1e9


def memory_bytes(pids: tuple[int, ...]) -> int:
    """What is in memory now."""
    used = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            used += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return used
