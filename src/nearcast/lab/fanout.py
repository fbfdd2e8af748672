"""One function over many seeds, on several processes or on Spark; the only place in the lab that makes workers."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Protocol, TypeVar

from nearcast.domain.errors import NearcastError
from nearcast.fleet.processes import die_with_parent
from nearcast.lab.experiment import Progress, RunSettings, silent

T = TypeVar("T")


class MapSeeds(Protocol):
    """`map_seeds`, with the decision made where the work is done."""

    def __call__(
        self, run_seed: Callable[[int], T], seeds: Sequence[int], progress: Progress = silent, doing: str = "seeds"
    ) -> list[T]: ...


@contextmanager
def workers_of(settings: RunSettings) -> Iterator[MapSeeds]:
    """On as many processes as the settings say, or on Spark if they name a master: same seeds, same results."""

    def on_processes(
        run_seed: Callable[[int], T], seeds: Sequence[int], progress: Progress = silent, doing: str = "seeds"
    ) -> list[T]:
        return map_seeds(run_seed, seeds, settings.jobs, progress, doing)

    if settings.spark is None:
        yield on_processes
        return
    from nearcast.pipeline.fanout import map_on_spark  # noqa: PLC0415  # an extra, and slow to import
    from nearcast.pipeline.session import session  # noqa: PLC0415

    with session("nearcast lab", settings.spark) as spark:

        def on_spark(
            run_seed: Callable[[int], T], seeds: Sequence[int], progress: Progress = silent, doing: str = "seeds"
        ) -> list[T]:
            progress(0, len(seeds), doing)
            found = map_on_spark(spark, run_seed, seeds)
            progress(len(seeds), len(seeds), doing)
            return found

        yield on_spark


def map_seeds(
    run_seed: Callable[[int], T],
    seeds: Sequence[int],
    jobs: int,
    progress: Progress = silent,
    doing: str = "seeds",
) -> list[T]:
    """`run_seed` of every seed, in the order of `seeds`, whatever the number of `jobs`.

    With more than one job `run_seed` and its results are pickled: a function of a module, or a `functools.partial` of
    one. The first exception ends the whole, is raised here as it is, and carries a note that names its seed. When this
    process is interrupted, or `run_seed` fails, the workers are ended in the middle of what they do.
    """
    if jobs < 1:
        raise ValueError(f"{jobs} jobs: at least one is needed")
    progress(0, len(seeds), doing)
    if min(jobs, len(seeds)) <= 1:
        return _map_here(run_seed, seeds, progress, doing)

    with workers(min(jobs, len(seeds))) as pool:
        futures: dict[Future[T], int] = {pool.submit(run_seed, seed): seed for seed in seeds}
        for done, future in enumerate(as_completed(futures), start=1):
            _raise_with_seed(future, futures)
            progress(done, len(seeds), doing)
        return [future.result() for future in futures]


@contextmanager
def workers(count: int, *, nice: int = 0) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, and in the middle of what they do when the body is left by an exception."""
    others = multiprocessing.active_children()
    # spawn: a fork copies the threads' locks of whoever calls, and a forked event loop with them.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=_begin_worker, initargs=(os.getpid(), nice))
    try:
        yield pool
    except BaseException:
        for worker in multiprocessing.active_children():
            if worker not in others:
                worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def available_jobs() -> int:
    """How many processes this one may keep busy at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _map_here(run_seed: Callable[[int], T], seeds: Sequence[int], progress: Progress, doing: str) -> list[T]:
    results = []
    for done, seed in enumerate(seeds, start=1):
        try:
            results.append(run_seed(seed))
        except Exception as error:
            error.add_note(f"while running seed {seed}")
            raise
        progress(done, len(seeds), doing)
    return results


def _begin_worker(parent: int, nice: int) -> None:
    die_with_parent(parent)
    os.nice(nice)
    # Ctrl-C reaches the workers too. Without this each of them prints a traceback of its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _raise_with_seed(future: Future[T], futures: dict[Future[T], int]) -> None:
    error = future.exception()
    if error is None:
        return
    if isinstance(error, BrokenProcessPool):
        unfinished = [seed for other, seed in futures.items() if not other.done() or other.exception() is not None]
        raise NearcastError(
            f"a worker process died (killed, or out of memory?) while these seeds were under way or waiting: "
            f"{', '.join(map(str, unfinished[:10]))}{' ...' if len(unfinished) > 10 else ''}; try fewer --jobs"
        ) from error
    error.add_note(f"while running seed {futures[future]}")
    raise error
