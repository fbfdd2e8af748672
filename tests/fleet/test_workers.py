"""Worker processes: jobs are done or their end is told, and the next one is done."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nearcast.agent.workers import WorkerProcesses
from nearcast.control.spool import Spool
from nearcast.control.stage import DIED, HUNG, LATE, RAISED, Job, Outcome
from nearcast.domain.message import Message
from nearcast.domain.processor import Language, Processor
from nearcast.transport.clock import SystemClock

SOURCE = """
import os, sys, time

def moody(message, spool):
    what = message.payload.decode()
    if what == "raise":
        raise ValueError("a bad day")
    if what == "hang":
        time.sleep(100)
    if what == "die":
        os._exit(3)
    if what == "noise":
        print("what a processor prints is no answer")
    return b"%d" % os.getpid() if what == "pid" else b",".join(each.payload for each in spool)

def slow(message, spool):
    begun_s = time.monotonic()
    time.sleep(0.3)
    return [b"%f" % begun_s, b"%f" % time.monotonic()]
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs_of_a_test.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))


@asynccontextmanager
async def started(cores: int) -> AsyncIterator[WorkerProcesses]:
    workers = WorkerProcesses(cores, SystemClock())
    try:
        yield workers
    finally:
        await workers.close()
        assert workers.pids == []


def job(
    payload: bytes, *, name: str = "moody", topic: str = "t", spool: Spool | None = None, late: bool = False
) -> Job:
    processor = Processor(Language.PYTHON, f"jobs_of_a_test:{name}", spool=3, limit_ms=2000)
    start_by_s = SystemClock().now() + (-1.0 if late else 60.0)
    return Job(topic, 1, processor, Message(topic, payload, 1, 1, 0), spool or Spool(3), start_by_s)


async def outcome(workers: WorkerProcesses, wanted: Job) -> Outcome:
    done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    workers.run(wanted, done.set_result)
    async with asyncio.timeout(60):
        return await done


async def test_whatever_becomes_of_one_the_next_is_done() -> None:
    async with started(1) as workers:
        found = [
            await outcome(workers, job(what)) for what in (b"noise", b"raise", b"ok", b"die", b"ok", b"hang", b"ok")
        ]
    assert [each.failure for each in found] == ["", RAISED, "", DIED, "", HUNG, ""]
    assert found[1].error == "ValueError: a bad day"
    assert "exit code 3" in found[3].error
    assert found[5].error == "jobs_of_a_test:moody did not end within 2 s"


async def test_one_that_is_killed_while_idle_is_replaced_and_no_job_is_told_dead() -> None:
    async with started(1) as workers:
        first = await outcome(workers, job(b"pid"))
        os.kill(int(first.results[0]), signal.SIGKILL)
        await asyncio.sleep(0.3)
        second = await outcome(workers, job(b"pid"))
    assert second.failure == ""
    assert second.results != first.results


async def test_a_spool_is_given_by_differences_also_to_a_worker_that_was_replaced() -> None:
    spool = Spool(3)
    async with started(1) as workers:
        for number in range(6):
            if number == 3:
                await outcome(workers, job(b"die", spool=spool))
            found = await outcome(workers, job(b"ok", spool=spool))
            assert found.results[0].decode() == ",".join(str(each) for each in range(max(0, number - 3), number))
            spool.append(Message("t", b"%d" % number, 1, number, 0))


async def test_as_many_are_done_at_once_as_there_are_cores() -> None:
    async with started(2) as workers:
        await asyncio.gather(*(outcome(workers, job(b"", name="slow", topic=topic)) for topic in "ab"))
        found = await asyncio.gather(*(outcome(workers, job(b"", name="slow", topic=topic)) for topic in "abcd"))
        assert len(workers.pids) == 2
    times = [tuple(map(float, each.results)) for each in found]
    at_once = [sum(begun_s <= at_s < ended_s for begun_s, ended_s in times) for at_s, _ in times]
    assert max(at_once) == 2


async def test_what_is_too_late_to_begin_is_not_begun() -> None:
    async with started(1) as workers:
        assert (await outcome(workers, job(b"die", late=True))).failure == LATE
        assert workers.pids == []
