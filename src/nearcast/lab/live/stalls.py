"""When the machine itself stood still: a virtual one has its processors taken away by its host, for up to 100 ms.

One process a processor sleeps and wakes up, again and again, before all others: real-time priority keeps it from
waiting for anything of ours, so that where it wakes up late, the processor was gone. Without the right to such a
priority there are no stalls to tell of, and whatever is late counts as ours.
"""

import contextlib
import os
import sys
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from nearcast.fleet.commands import Command, CommandSpec
from nearcast.transport.process import say_ready

STALL_S = 0.005  # as late as a generator of load may be before a measurement is thrown away
_NAP_S = 0.002
_PRIORITY = 50
_END_S = 5.0


class Stalls:
    """Times in which a processor was gone, and as long again, in which what had piled up was worked off."""

    def __init__(self, stalls: Iterable[tuple[float, float]] = ()) -> None:
        """Each (from, to) on the wall clock, in any order."""
        self._begins_s: list[float] = []
        self._ends_s: list[float] = []
        for begin_s, gone_until_s in sorted(stalls):
            end_s = gone_until_s + (gone_until_s - begin_s)
            if self._ends_s and begin_s <= self._ends_s[-1]:
                self._ends_s[-1] = max(self._ends_s[-1], end_s)
            else:
                self._begins_s.append(begin_s)
                self._ends_s.append(end_s)

    def during(self, from_s: float, to_s: float) -> bool:
        """Was there one at any time of these?"""
        last = bisect_right(self._begins_s, to_s) - 1
        return last >= 0 and self._ends_s[last] >= from_s

    def total_s(self, from_s: float, to_s: float) -> float:
        inside = (
            min(end_s, to_s) - max(begin_s, from_s) for begin_s, end_s in zip(self._begins_s, self._ends_s, strict=True)
        )
        return sum(part_s for part_s in inside if part_s > 0.0)


@contextlib.asynccontextmanager
async def watched_stalls(folder: Path) -> AsyncIterator[list[Path]]:
    """Files for `read_stalls`, once this has ended; none where watching is not allowed."""
    files = [folder / f"stalls-{core}" for core in sorted(os.sched_getaffinity(0))] if _may_watch() else []
    specs = [
        CommandSpec(file.name, "stalls", (sys.executable, "-m", __name__, file.name.rpartition("-")[2], str(file)))
        for file in files
    ]
    async with contextlib.AsyncExitStack() as watchers:
        for spec in specs:
            watcher = await Command.start(spec, folder)
            watchers.push_async_callback(watcher.stop, _END_S)
        yield files


def read_stalls(files: Iterable[Path]) -> Stalls:
    lines = (line.split() for file in files for line in file.read_text().splitlines())
    return Stalls((float(begin_s), float(end_s)) for begin_s, end_s in lines)


def _may_watch() -> bool:
    if not hasattr(os, "sched_setscheduler"):  # macOS
        return False
    before = os.sched_getscheduler(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    except PermissionError:
        return False
    os.sched_setscheduler(0, before, os.sched_param(0))
    return True


def main() -> None:
    """Until it is ended from outside."""
    core, file = int(sys.argv[1]), Path(sys.argv[2])
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    with file.open("w", buffering=1) as out:
        say_ready(core=core)
        while True:
            due_s = time.time() + _NAP_S
            time.sleep(_NAP_S)
            now_s = time.time()
            if now_s - due_s > STALL_S:
                out.write(f"{due_s} {now_s}\n")


if __name__ == "__main__":
    main()
