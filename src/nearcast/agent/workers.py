"""The worker processes of one agent: a job to whoever is idle, in the order in which they came.

Of each topic one job at most is here at a time (`control.stage`), so topics take turns. A worker that takes longer than
a processor may, or dies, is replaced by another; the job is told as hung or dead, and no other job notices.
"""

import asyncio
import contextlib
import os
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from nearcast.control.spool import Spool
from nearcast.control.stage import DIED, HUNG, LATE, RAISED, Job, Outcome
from nearcast.domain.processor import Processor
from nearcast.processing.worker import LENGTH, Done, Load, Run, decode_done, encode
from nearcast.transport.clock import Clock
from nearcast.transport.crew import Crew

LOAD_S = 30.0
"""How long a processor may take to be imported, in a worker that does not have it yet."""

_MODULE = "nearcast.processing.worker"
_MOST_ANSWER_BYTES = 256 << 20
_ON_ITS_WAY_S = 0.05

OnDone = Callable[[Outcome], None]


class Workers(Protocol):
    """Whoever processes for an agent."""

    def run(self, job: Job, done: OnDone) -> None:
        """Calls `done` once, later."""
        ...

    async def close(self) -> None: ...


class WorkerProcesses:
    """Up to `cores` of them, started when there is something to do."""

    def __init__(self, cores: int, clock: Clock) -> None:
        self._cores = cores
        self._clock = clock
        self._crew = Crew()
        self._waiting: deque[tuple[Job, OnDone]] = deque()
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []

    def run(self, job: Job, done: OnDone) -> None:
        self._waiting.append((job, done))
        self._assign()

    @property
    def pids(self) -> list[int]:
        """Of the workers that run now."""
        return [each.process.pid for each in self._workers if each.process is not None]

    async def close(self) -> None:
        await self._crew.close()
        for worker in self._workers:
            await worker.end(at_once=True)

    def _assign(self) -> None:
        while self._waiting:
            if not self._idle and len(self._workers) < self._cores:
                self._workers.append(_Worker())
                self._idle.append(self._workers[-1])
            if not self._idle:
                return
            job, done = self._waiting.popleft()
            if self._clock.now() > job.start_by_s:
                self._clock.call_later(0.0, done, Outcome(failure=LATE))
                continue
            # One that has had the topic before has most of its spool.
            worker = next((each for each in self._idle if job.topic in each.seen), self._idle[0])
            self._idle.remove(worker)
            self._crew.start(self._work(worker, job, done), f"job of {job.topic}")

    async def _work(self, worker: "_Worker", job: Job, done: OnDone) -> None:
        done(await worker.do(job))
        await worker.recover()
        self._idle.append(worker)
        self._assign()


class _Worker:
    """One process, and another one after it whenever it has come to an end."""

    def __init__(self) -> None:
        self.process: asyncio.subprocess.Process | None = None
        self.seen: dict[str, tuple[Spool, int]] = {}  # topic -> how much of which spool it has been given
        self._loaded: dict[Processor, None] = {}
        self._before: dict[Processor, None] = {}  # those of the process that came to an end
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def do(self, job: Job) -> Outcome:
        processor, topic, limit_s = job.processor, job.topic, LOAD_S
        try:
            if self.process is not None and self.process.returncode is not None:
                await self.end()  # it died while it had nothing to do: that is no fault of this job
            if self.process is None:
                await self._start()
            if processor not in self._loaded:
                loaded = await self._ask(Load(processor), LOAD_S)
                if loaded.error:
                    return Outcome(failure=RAISED, error=loaded.error)
                self._loaded[processor] = None
            limit_s = processor.limit_ms / 1e3
            spool, count = self.seen.get(topic, (None, 0))
            fresh = spool is not job.spool
            since = job.spool.since(0 if fresh else count)
            self.seen[topic] = job.spool, job.spool.count
            answer = await self._ask(Run(processor, job.message, job.spool.count, since, fresh), limit_s)
        except TimeoutError:
            what = "did not end" if processor in self._loaded else "was not loaded"
            await self.end(at_once=True)
            return Outcome(failure=HUNG, error=f"{processor} {what} within {limit_s:g} s")
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError) as error:
            how = await self.end()
            return Outcome(failure=DIED, error=f"its worker process ended ({how}): {type(error).__name__}")
        if answer.error:
            return Outcome(failure=RAISED, error=answer.error, took_s=answer.took_s)
        return Outcome(answer.results, took_s=answer.took_s)

    async def recover(self) -> None:
        """After an end, another process with the same processors: no job of another topic should wait for its start."""
        if self.process is not None:
            return
        before, self._before = self._before, {}
        try:
            await self._start()
            for processor in before:
                if not (await self._ask(Load(processor), LOAD_S)).error:
                    self._loaded[processor] = None
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            await self.end(at_once=True)  # the next job starts it, and tells what is wrong
            self._before = {}

    async def end(self, *, at_once: bool = False) -> str:
        """Says how it ended."""
        process, streams = self.process, self._streams
        self._before = self._loaded
        self.process, self._streams, self.seen, self._loaded = None, None, {}, {}
        if streams is not None:
            streams[1].close()
        if process is None:
            return "not started"
        if not at_once:  # it may be on its way out, and what it died of is more telling than that we killed it
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ON_ITS_WAY_S):
                    await process.wait()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        code = await process.wait()
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            # Where this process finds modules, its workers do too: processors are imported by name.
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _MODULE,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=2,
                pass_fds=(theirs.fileno(),),
                env=_environment(),
            )
        self._streams = await asyncio.open_connection(sock=ours, limit=_MOST_ANSWER_BYTES)

    async def _ask(self, order: Load | Run, limit_s: float) -> Done:
        assert self._streams is not None
        reader, writer = self._streams
        data = encode(order)
        writer.write(LENGTH.pack(len(data)) + data)
        async with asyncio.timeout(limit_s):
            await writer.drain()
            size = LENGTH.unpack(await reader.readexactly(LENGTH.size))[0]
            return decode_done.decode(await reader.readexactly(size))


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
