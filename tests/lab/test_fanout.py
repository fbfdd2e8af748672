import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from nearcast.domain.errors import ConfigError, NearcastError
from nearcast.lab.fanout import available_jobs, map_seeds

ROOT = Path(__file__).parents[2]

INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background has it ignored
import sys
from functools import partial
from pathlib import Path
from nearcast.lab.fanout import map_seeds
from tests.lab.test_fanout import leave_pid_and_wait

map_seeds(partial(leave_pid_and_wait, Path(sys.argv[1])), range(4), 2)
"""


@pytest.fixture(autouse=True)
def _workers_can_import_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


# What the workers run.


def name_yourself(seed: int) -> tuple[int, int]:
    return seed, os.getpid()


def name_yourself_but_zero_after_one(directory: Path, seed: int) -> tuple[int, int]:
    if seed == 0:
        wait_until((directory / "1").exists)
    else:
        (directory / str(seed)).touch()
    return name_yourself(seed)


def stumble_at_three(seed: int) -> int:
    if seed == 3:
        raise ConfigError("cannot use this")
    return seed


def stumble_at_zero_and_wait_elsewhere(directory: Path, seed: int) -> None:
    if seed == 0:
        wait_until((directory / "1").exists)
        raise ConfigError("cannot use this")
    leave_pid_and_wait(directory, seed)


def leave_pid_and_wait(directory: Path, seed: int) -> None:
    (directory / f".{seed}").write_text(str(os.getpid()))
    (directory / f".{seed}").rename(directory / str(seed))
    time.sleep(30)
    (directory / "undisturbed").touch()


def die_at_two(seed: int) -> int:
    if seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return seed


# What the tests ask.


def wait_until(state: Callable[[], bool], deadline_s: float = 30.0) -> None:
    end_s = time.monotonic() + deadline_s
    while not state():
        assert time.monotonic() < end_s, "the state has not come about"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_results_come_in_the_order_of_the_seeds_from_processes_that_run_at_once(tmp_path: Path) -> None:
    results = map_seeds(partial(name_yourself_but_zero_after_one, tmp_path), range(8), 2)
    assert [seed for seed, _ in results] == list(range(8))
    assert os.getpid() not in {pid for _, pid in results}


def test_one_job_runs_in_this_process() -> None:
    assert [pid for _, pid in map_seeds(name_yourself, [1, 2], 1)] == [os.getpid()] * 2


def test_no_seeds_give_no_results() -> None:
    assert map_seeds(name_yourself, [], 2) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_told_from_none_to_all(jobs: int) -> None:
    told: list[tuple[int, int, str]] = []
    map_seeds(name_yourself, [1, 2, 3], jobs, lambda *steps: told.append(steps), "virtual runs")
    assert told == [(done, 3, "virtual runs") for done in range(4)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_exception_keeps_its_type_and_names_its_seed(jobs: int) -> None:
    with pytest.raises(ConfigError, match="cannot use this") as caught:
        map_seeds(stumble_at_three, range(5), jobs)
    assert caught.value.__notes__ == ["while running seed 3"]
    assert multiprocessing.active_children() == []


def test_an_exception_does_not_wait_for_the_other_workers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        map_seeds(partial(stumble_at_zero_and_wait_elsewhere, tmp_path), range(2), 2)
    assert is_gone(int((tmp_path / "1").read_text()))
    assert not (tmp_path / "undisturbed").exists()


def test_a_worker_that_is_killed_is_told_with_the_seeds_it_may_have_had() -> None:
    with pytest.raises(NearcastError, match=r"worker process died.*\b2\b.*fewer --jobs"):
        map_seeds(die_at_two, range(4), 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_who_started_them_in_the_middle_of_their_work(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # A process group of its own, and the signal to its leader only: the workers do not get it.
    leader = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
        leader.send_signal(number)
        _, complaint = leader.communicate(timeout=60)
    finally:
        leader.kill()
    assert ("KeyboardInterrupt" in complaint) == (number == signal.SIGINT)
    for seed in ("0", "1"):
        wait_until(partial(is_gone, int((tmp_path / seed).read_text())), 5.0)
    assert not (tmp_path / "undisturbed").exists()


def test_fewer_than_one_job_is_refused() -> None:
    with pytest.raises(ValueError, match="0 jobs"):
        map_seeds(name_yourself, [1], 0)


def test_there_is_always_a_job_to_be_had() -> None:
    assert 1 <= available_jobs() <= (os.cpu_count() or 1)
