"""Workers in virtual time: processors run in this process, and take as long as they are said to."""

from collections import deque
from collections.abc import Callable

from nearcast.agent.workers import OnDone
from nearcast.control.stage import HUNG, LATE, RAISED, Job, Outcome
from nearcast.domain.errors import ProcessorError
from nearcast.processing.calls import load
from nearcast.transport.clock import Clock

TakesS = Callable[[Job], float]
"""How long a job takes; more than its limit and it hangs."""


class SimWorkers:
    """As `WorkerProcesses`, with `cores` at a time. Closed, it says nothing more: what a crash looks like."""

    def __init__(self, clock: Clock, takes_s: TakesS, cores: int = 1) -> None:
        self._clock = clock
        self._takes_s = takes_s
        self._free = cores
        self._waiting: deque[tuple[Job, OnDone]] = deque()
        self._closed = False

    def run(self, job: Job, done: OnDone) -> None:
        self._waiting.append((job, done))
        self._assign()

    async def close(self) -> None:
        self._closed = True

    def _assign(self) -> None:
        while self._waiting and self._free:
            job, done = self._waiting.popleft()
            if self._clock.now() > job.start_by_s:
                self._clock.call_later(0.0, self._say, done, Outcome(failure=LATE))
                continue
            self._free -= 1
            took_s = self._takes_s(job)
            limit_s = job.processor.limit_ms / 1e3
            outcome = _outcome(job, took_s) if took_s <= limit_s else Outcome(failure=HUNG, error="told to hang")
            self._clock.call_later(min(took_s, limit_s), self._end, done, outcome)

    def _end(self, done: OnDone, outcome: Outcome) -> None:
        self._free += 1
        self._say(done, outcome)
        if not self._closed:
            self._assign()

    def _say(self, done: OnDone, outcome: Outcome) -> None:
        if not self._closed:
            done(outcome)


def _outcome(job: Job, took_s: float) -> Outcome:
    try:
        return Outcome(load(job.processor)(job.message, job.spool), took_s=took_s)
    except ProcessorError as error:
        return Outcome(failure=RAISED, error=str(error))
    except Exception as error:  # noqa: BLE001  # as a worker process does
        return Outcome(failure=RAISED, error=f"{type(error).__name__}: {error}")
