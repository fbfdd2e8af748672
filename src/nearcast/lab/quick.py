"""Every experiment once, quickly: for the report.

Those on real servers are measured one after the other. The others need only processor time, and have what is left of it
meanwhile: they run in a second process, of the lowest priority.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from nearcast.domain.errors import NearcastError
from nearcast.lab.experiment import Experiment, Progress, RunSettings, silent
from nearcast.lab.fanout import available_jobs, workers
from nearcast.lab.result import run_directory, write_result

_LOWEST = 19

Ended = Callable[[str], None]
"""Told the name of an experiment that has ended, in any order and from any thread."""


def run_all(
    experiments: Mapping[str, Experiment],
    root: Path,
    seed: int,
    *,
    ended: Ended,
    shown: Callable[[str], AbstractContextManager[Progress]],
) -> dict[str, str]:
    """Runs each in its first mode; those that could not be run, and why. `shown`: the progress of one that begins."""
    live = {name: each for name, each in experiments.items() if each.modes[0] == "live"}
    others = {name: each for name, each in experiments.items() if name not in live}
    found: dict[str, str | None] = {}
    with workers(1, nice=_LOWEST) as pool:
        beside = {name: pool.submit(_run, each, root, seed) for name, each in others.items()}
        for name, future in beside.items():
            future.add_done_callback(partial(_said, ended, name))
        for name, each in live.items():
            with shown(name) as progress:
                found[name] = _run(each, root, seed, progress)
            ended(name)
        found |= {name: _waited_for(future) for name, future in beside.items()}
    return {name: why for name in experiments if (why := found[name]) is not None}


def _said(ended: Ended, name: str, _future: Future[str | None]) -> None:
    ended(name)


def _run(experiment: Experiment, root: Path, seed: int, progress: Progress = silent) -> str | None:
    """Why it could not be run, or None."""
    settings = RunSettings(mode=experiment.modes[0], seed=seed, quick=True, jobs=available_jobs())
    try:
        outcome = experiment.run(settings, progress)
        write_result(run_directory(root, experiment.name, settings), experiment.name, settings, outcome)
    except NearcastError as error:
        return str(error)
    return None


def _waited_for(future: Future[str | None]) -> str | None:
    try:
        return future.result()
    except BrokenProcessPool:
        return "the process that runs those without servers died (killed, or out of memory?)"
