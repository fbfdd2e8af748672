"""A deterministic event loop: asyncio programs in virtual time, the same way every time.

Time stands still while anything can run, and then jumps to the next timer. Callbacks run in the order in which they
were scheduled, timers by time and then by order of creation. There is no outside (see `nearcast.sim.sealed`).
"""

import asyncio
import contextvars
import functools
import gc
import heapq
import itertools
import logging
import math
import random
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from typing import Any, ParamSpec, TypeVar

from nearcast.sim.scheduled import Callback, Remembered, VirtualFuture, VirtualTask
from nearcast.sim.sealed import SealedLoop, VirtualRunError

P = ParamSpec("P")
T = TypeVar("T")

SPIN_LIMIT = 1_000_000  # Callbacks at one instant; more is taken for a loop that waits for time to pass by itself.
WIND_DOWN_S = 3_600.0  # Virtual seconds that cancelled tasks may take to end.
COLLECT_EVERY = 1_000_000  # Callbacks between two collections of garbage.

_log = logging.getLogger(__name__)


class Deadlock(VirtualRunError):
    """Nothing can run and nothing is scheduled, but the run has not ended."""


class Livelock(VirtualRunError):
    """Callbacks go on and on without time moving."""


class OutOfTime(VirtualRunError):
    """The run did not end within its limit of virtual time."""


class Unhandled(VirtualRunError):
    """A callback or a task raised, and nobody was there to catch it."""


def run_virtual(main: Coroutine[Any, Any, T], *, seed: int, limit_s: float = math.inf) -> T:
    """Run `main` to its end in virtual time and return its result.

    `seed` decides everything that is left to chance: `VirtualLoop.rng`, and the module `random` for the length of the
    run. What is raised carries a note with the seed and the virtual time. Tasks left over are cancelled.
    """
    loop = VirtualLoop(seed)
    state = random.getstate()
    random.seed(seed)
    collecting = gc.isenabled()
    gc.disable()  # Garbage found at a time of the interpreter's choosing would run finalizers at that time.
    try:
        result = loop.run_to_end(main, limit_s)
        gc.collect(1)  # Failed tasks in reference cycles report themselves only now.
        loop.raise_unhandled()
    except BaseException as error:
        error.add_note(f"virtual run: seed {seed}, at {loop.time():.6f} s, after {loop.callbacks} callbacks")
        raise
    else:
        return result
    finally:
        loop.close()
        if collecting:
            gc.enable()
        random.setstate(state)


def in_virtual_time(scenario: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make a plain function of an asynchronous one, so that a test can be written as what happens in it."""

    @functools.wraps(scenario)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtual(scenario(*args, **kwargs), seed=1)

    return run


class VirtualLoop(SealedLoop):
    """The loop that `run_virtual` runs on. `rng` is seeded; `callbacks` counts what has run so far."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.callbacks = 0
        self._now_s = 0.0
        self._ready: deque[Callback] = deque()
        self._timers: list[tuple[float, int, Callback]] = []
        self._timers_cancelled = 0
        self._timer_order = itertools.count()
        self._numbers = itertools.count(1)
        self._task_names = itertools.count(1)
        self._tasks: Remembered[VirtualTask[Any]] = Remembered()
        self._generators: Remembered[AsyncGenerator[Any, Any]] = Remembered()
        self._failures: list[Unhandled] = []
        self._running = False
        self._closed = False

    # Time and callbacks

    def time(self) -> float:
        return self._now_s

    def call_soon(  # type: ignore[override]  # typeshed ties the arguments to the callback's; asyncio itself does not.
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        handle = Callback(callback, args, context, self._now_s, None)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        handle = Callback(callback, args, context, when, self)
        heapq.heappush(self._timers, (when, next(self._timer_order), handle))
        return handle

    def timer_cancelled(self) -> None:
        """Timeouts are mostly cancelled; without this they would fill the heap until their time came."""
        self._timers_cancelled += 1
        if self._timers_cancelled > 100 and 2 * self._timers_cancelled > len(self._timers):
            self._timers = [entry for entry in self._timers if entry[2].live]
            heapq.heapify(self._timers)
            self._timers_cancelled = 0

    # Tasks and futures

    def next_number(self) -> int:
        return next(self._numbers)

    def create_future(self) -> VirtualFuture[Any]:
        return VirtualFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> VirtualTask[T]:
        # asyncio would count names on from the runs before this one.
        task = VirtualTask(coro, loop=self, name=name or f"Task-{next(self._task_names)}", context=context)
        self._tasks.add(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """End the run: an exception that nobody catches is a failure, not a line in a log."""
        cause = context.get("exception")
        message = context.get("message", "unhandled exception")
        if self._closed:  # A task of this run was kept alive by somebody until now.
            _log.error("after the end of a virtual run: %s", message, exc_info=cause)
            return
        where = context.get("task") or context.get("future") or context.get("handle") or context.get("asyncgen")
        failure = Unhandled(f"{message}: {cause!r} in {where!r}" if cause else f"{message} ({where!r})")
        failure.__cause__ = cause
        self._failures.append(failure)

    def raise_unhandled(self) -> None:
        if self._failures:
            raise self._failures[0]

    # Running

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        return self.run_to_end(_awaited(future), math.inf)

    def run_to_end(self, main: Coroutine[Any, Any, T], limit_s: float) -> T:
        """Run `main` until `limit_s` at most, and then end everything that it has left behind."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._generator_dropped)
        asyncio._set_running_loop(self)  # noqa: SLF001  # Made for those who write event loops.
        self._running = True
        try:
            task = self.create_task(main, name="main")
            try:
                self._run(task, limit_s)
                self.raise_unhandled()
                result = task.result()
            except BaseException as error:
                self._give_up(error)
                raise
            self._wind_down()
            self._find_unretrieved()
            self.raise_unhandled()
        finally:
            self._running = False
            asyncio._set_running_loop(None)  # noqa: SLF001
            sys.set_asyncgen_hooks(*hooks)
        return result

    def _run(self, until: asyncio.Future[Any], limit_s: float, *, through_failures: bool = False) -> None:
        ready = self._ready
        spun = 0
        collect_at = self.callbacks + COLLECT_EVERY
        while not until.done() and (through_failures or not self._failures):
            if not ready:
                self._advance(limit_s)
                spun = 0
            timers = self._timers
            while timers and timers[0][0] <= self._now_s:
                handle = heapq.heappop(timers)[2]
                handle.timers_of = None
                if handle.live:
                    ready.append(handle)
                else:
                    self._timers_cancelled -= 1
            count = len(ready)
            self.callbacks += count
            spun += count
            for _ in range(count):
                handle = ready.popleft()
                if handle.live:
                    try:
                        handle.context.run(handle.call, *handle.args)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as error:  # noqa: BLE001  # Whatever a callback raises fails the run.
                        self.call_exception_handler(
                            {"message": "exception in a callback", "exception": error, "handle": handle}
                        )
            if spun > SPIN_LIMIT:
                raise Livelock(f"{spun} callbacks at {self._now_s:.6f} s without time moving: {self._waiting()}")
            if self.callbacks > collect_at:
                collect_at = self.callbacks + COLLECT_EVERY
                gc.collect(0)

    def _advance(self, limit_s: float) -> None:
        timers = self._timers
        while timers and not timers[0][2].live:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise Deadlock(f"nothing is scheduled and nothing can run at {self._now_s:.6f} s: {self._waiting()}")
        due_s = timers[0][0]
        if due_s > limit_s:
            raise OutOfTime(f"not done within {limit_s} s of virtual time: {self._waiting()}")
        self._now_s = max(self._now_s, due_s)

    # Ending

    def _give_up(self, error: BaseException) -> None:
        """End what can be ended after a failure; the first failure is the one that is told."""
        self._failures.clear()
        try:
            self._wind_down()
        except VirtualRunError as another:
            error.add_note(f"and then, while its tasks were cancelled: {another}")
        self._failures.clear()

    def _wind_down(self) -> None:
        """Cancel what is left, in the order of its creation, and close the asynchronous generators."""
        left = self._unfinished()
        for task in left:
            task.cancel()
        until_s = self._now_s + WIND_DOWN_S
        for task in left:
            self._run(task, until_s, through_failures=True)
        for generator in self._generators:
            self._run(self.create_task(_closed(generator)), until_s, through_failures=True)

    def _unfinished(self) -> list[VirtualTask[Any]]:
        return [task for task in self._tasks if not task.done()]

    def _find_unretrieved(self) -> None:
        """Tasks that failed and that somebody still holds, but never asked for the outcome."""
        for task in self._tasks:
            if task._log_traceback:  # noqa: SLF001
                error = task.exception()
                self.call_exception_handler(
                    {"message": "a task's exception was never retrieved", "exception": error, "task": task}
                )

    def _waiting(self) -> str:
        lines = []
        for task in self._unfinished():
            stack = task.get_stack()
            where = f"{stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else "no frame"
            lines.append(f"{task.get_name()} waits at {where}")
        shown = lines[:20] + ([f"and {len(lines) - 20} more"] if len(lines) > 20 else [])
        return "; ".join(shown) or "no task is left"

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._running:
            self.call_soon(self.create_task, _closed(generator))

    # The rest of what asyncio asks a loop

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    async def shutdown_asyncgens(self) -> None:
        """Nothing to do: a run closes its generators itself."""


async def _awaited(future: Generator[Any, None, T] | Awaitable[T]) -> T:
    result: T = await future  # type: ignore[misc]  # Generators with @types.coroutine are awaitable too.
    return result


async def _closed(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()
