"""A watcher on every processor, before all others."""

import os
import time
from pathlib import Path

import pytest

from nearcast.lab.live.stalls import STALL_S, read_stalls, watched_stalls


async def test_a_machine_that_only_sleeps_is_watched(tmp_path: Path) -> None:
    """However busy it is otherwise: at most a part of half a second may be a stall."""
    async with watched_stalls(tmp_path) as files:
        if not files:
            pytest.skip("this user may not have real-time priority")
        begin_s = time.time()
        time.sleep(0.5)  # noqa: ASYNC251  # nothing else is to run
        end_s = time.time()
    assert len(files) == len(os.sched_getaffinity(0))
    assert read_stalls(files).total_s(begin_s, end_s) < end_s - begin_s
    for file in files:
        for line in file.read_text().splitlines():
            from_s, to_s = map(float, line.split())
            assert to_s - from_s > STALL_S
